from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.naive import signature as naive
from treering.storage.signature import (
    N_DIMS,
    N_VALUES,
    compare,
    compose,
    compose_all,
    dequantise,
    log_signature,
    log_signatures,
    n_dims,
    quantise,
)

STEP = st.floats(-8, 8, width=32).map(lambda x: x if abs(x) > 1e-3 else 0.0)


def paths(max_steps: int = 12, d: int | None = None) -> st.SearchStrategy[npt.NDArray[Any]]:
    dims = st.integers(1, 5) if d is None else st.just(d)
    shapes = st.tuples(st.integers(0, max_steps), dims)
    return shapes.flatmap(lambda shape: arrays(np.float32, shape, elements=STEP))


def d_of(signature: npt.NDArray[np.float64]) -> int:
    return n_dims(len(signature))


@given(paths())
def test_equals_the_double_sum_and_the_tensor_logarithm(steps: npt.NDArray[Any]) -> None:
    found = log_signature(steps)
    np.testing.assert_allclose(found, naive.log_signature(steps), atol=1e-9)
    np.testing.assert_allclose(found, naive.log_of_product(steps), atol=1e-9)


def test_a_token_path_has_136_values() -> None:
    steps = np.random.default_rng(3).standard_normal((128, N_DIMS))
    found = log_signature(steps)
    assert found.shape == (N_VALUES,) == (136,)
    np.testing.assert_allclose(found, naive.log_signature(steps.astype(np.float32)), atol=1e-9)


@given(paths(), st.data())
def test_repeated_points_change_nothing(steps: npt.NDArray[Any], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(steps)), max_size=4))
    slower = np.insert(steps, sorted(places), 0.0, axis=0)
    np.testing.assert_allclose(log_signature(slower), log_signature(steps), atol=1e-9)


@given(paths())
def test_moving_the_path_changes_nothing(steps: npt.NDArray[Any]) -> None:
    points = (
        np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps.astype(np.float64), axis=0)]) + 17.0
    )
    np.testing.assert_allclose(log_signature(np.diff(points, axis=0)), log_signature(steps), atol=1e-2)


@given(paths())
def test_reversal_negates(steps: npt.NDArray[Any]) -> None:
    np.testing.assert_allclose(log_signature(-steps[::-1]), -log_signature(steps), atol=1e-9)


@given(paths(), st.sampled_from([-2.0, 0.5, 4.0]))
def test_scaling_scales_sums_by_c_and_areas_by_c_squared(steps: npt.NDArray[Any], c: float) -> None:
    plain, scaled = log_signature(steps), log_signature(c * steps)
    d = steps.shape[1]
    np.testing.assert_allclose(scaled[:d], c * plain[:d], atol=1e-9)
    np.testing.assert_allclose(scaled[d:], c * c * plain[d:], atol=1e-9)


@given(paths(), st.data())
def test_pieces_compose_to_the_whole(steps: npt.NDArray[Any], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(steps)), min_size=1, max_size=4)))
    pieces = log_signatures(steps, np.array([*cuts, len(steps)]))
    whole = log_signature(steps)
    one_by_one = pieces[0]
    for piece in pieces[1:]:
        one_by_one = compose(one_by_one, piece)
    np.testing.assert_allclose(one_by_one, whole, atol=1e-9)
    np.testing.assert_allclose(compose_all(pieces), whole, atol=1e-9)


def test_order_of_equal_steps_shows_in_the_areas_only() -> None:
    steps = np.random.default_rng(5).standard_normal((20, N_DIMS))
    shuffled = steps[np.random.default_rng(6).permutation(20)]
    first, second = log_signature(steps), log_signature(shuffled)
    np.testing.assert_allclose(first[:N_DIMS], second[:N_DIMS], atol=1e-5)
    assert np.abs(first[N_DIMS:] - second[N_DIMS:]).max() > 0.1


@given(arrays(np.float64, (4, N_VALUES), elements=st.floats(-300, 300)), st.integers(0, 2**32 - 1))
def test_codes_are_within_half_a_step_and_cuts_are_counted(values: npt.NDArray[Any], seed: int) -> None:
    scale = np.random.default_rng(seed).uniform(0.5, 2.0, N_VALUES)
    codes, n_cut = quantise(values, scale)
    assert codes.dtype == np.int8
    assert codes.min() >= -127
    fits = np.abs(np.rint(values / scale)) <= 127
    assert n_cut == np.count_nonzero(~fits)
    error = np.abs(dequantise(codes, scale) - values)
    assert (error <= scale / 2 + 1e-9)[fits].all()
    assert (np.abs(codes) == 127)[~fits].all()


def test_quantising_commutes_with_reversal() -> None:
    values = np.random.default_rng(1).normal(0, 80, N_VALUES)
    codes, _ = quantise(values, np.ones(N_VALUES))
    negated, _ = quantise(-values, np.ones(N_VALUES))
    assert (negated == -codes).all()


def test_comparison_is_the_exact_dot_product_of_each_level() -> None:
    rng = np.random.default_rng(2)
    one, many = rng.integers(-127, 128, N_VALUES), rng.integers(-127, 128, (9, N_VALUES))
    many[0] = one
    content, order = compare(one.astype(np.int8), many.astype(np.int8))
    assert content.tolist() == [int(np.dot(one[:16], row[:16])) for row in many]
    assert order.tolist() == [int(np.dot(one[16:], row[16:])) for row in many]


@pytest.mark.parametrize("sign", [1, -1])
def test_comparison_of_extreme_codes_does_not_overflow(sign: int) -> None:
    extreme = np.full(N_VALUES, 127, np.int8)
    content, order = compare(extreme, (sign * extreme)[None, :])
    assert (content[0], order[0]) == (sign * 16 * 127**2, sign * 120 * 127**2)
