"""Vectors in fixed point: near what was given, the same however often they are taken in, bounded in int8."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from treering.storage.errors import ConfigError
from treering.storage.fixed_point import LARGEST, PLANE, join, plane_error, quantise, restore, split

SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)

numbers = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 127.0, 1e-45, -1e-40, SMALLEST_NORMAL, 2**-14, 6e-8, 1e30]),
    st.floats(-1.0, 1.0, width=32),
    st.floats(-(2.0**120), 2.0**120, width=32),
)


@st.composite
def vectors(draw: st.DrawFn) -> npt.NDArray[np.float32]:
    """Vectors of any sort: sparse, with one big number, all alike, tiny, zero; also none, and of no dimension."""
    u, dim = draw(st.integers(0, 4)), draw(st.sampled_from([0, 1, 2, 7, 65]))
    found = np.zeros((u, dim), np.float32)
    for row in range(u):
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        found[row] = (rng.standard_normal(dim) * draw(st.sampled_from([0.0, 1e-42, 1e-6, 1.0]))).astype("f4")
        if dim and draw(st.booleans()):
            found[row, draw(st.integers(0, dim - 1))] = draw(numbers)
    return found


@examples(150)
@given(vectors())
def test_no_number_is_off_by_more_than_half_a_step(x: npt.NDArray[np.float32]) -> None:
    values, step = quantise(x)
    assert [values.dtype, step.dtype] == ["int16", "float32"]
    assert values.shape == x.shape
    assert (np.abs(values.astype(int)) <= LARGEST).all()
    wide = step[:, None].astype(np.float64)
    # 0.0021: what float32 rounding of the product and of the step itself add.
    assert (np.abs(x.astype(np.float64) - values * wide) <= 0.5021 * wide).all()
    assert (values[step == 0] == 0).all()
    assert not x[step == 0].any()


@examples(150)
@given(vectors())
def test_the_step_is_the_least_that_reaches_the_largest_number(x: npt.NDArray[np.float32]) -> None:
    _, step = quantise(x)
    for row, found in zip(x, step, strict=True):
        largest = np.abs(row).max(initial=np.float32(0))
        assert found * np.float32(LARGEST) >= largest
        if found:
            assert np.nextafter(found, np.float32(0)) * np.float32(LARGEST) < largest


@examples(150)
@given(vectors())
def test_what_is_stored_is_taken_in_again_as_it_is(x: npt.NDArray[np.float32]) -> None:
    values, step = quantise(x)
    normal = (step == 0) | (step >= SMALLEST_NORMAL)
    again, same = quantise(restore(values, step)[normal])
    np.testing.assert_array_equal(again, values[normal])
    np.testing.assert_array_equal(same, step[normal])


def test_every_value_is_its_two_planes() -> None:
    values = np.arange(-LARGEST, LARGEST + 1).astype(np.int16)[:, None]
    high, low = split(values)
    assert [high.dtype, low.dtype] == ["int8", "int8"]
    np.testing.assert_array_equal(high.astype(int) * PLANE + low, values)
    assert (int(high.min()), int(high.max())) == (-127, 127)
    np.testing.assert_array_equal(join(high, low), values)


@examples(150)
@given(vectors())
def test_the_error_of_the_high_plane_is_bounded_and_the_bound_is_close(x: npt.NDArray[np.float32]) -> None:
    values, step = quantise(x)
    high, low = split(values)
    err = plane_error(low, step)
    exact = restore(values, step)
    scale = step * np.float32(PLANE)
    for row in range(len(x)):
        true = exact_norm(
            [
                Fraction(float(whole)) - Fraction(float(scale[row])) * int(code)
                for whole, code in zip(exact[row], high[row], strict=True)
            ]
        )
        assert true <= float(err[row])
        slack = 2.0**-23 * LARGEST * float(step[row]) * math.sqrt(x.shape[1])
        assert float(err[row]) <= true * (1 + 1e-6) + slack + 3e-45


def exact_norm(numbers: list[Fraction]) -> float:
    square = sum((number * number for number in numbers), Fraction(0))
    # A square root of whole numbers, rounded down at 2**-400.
    return math.ldexp(math.isqrt(int(square * 2**800)), -400)


def test_fixed_point_is_several_times_nearer_than_float16() -> None:
    x = np.random.default_rng(5).standard_normal((2000, 384))
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    def lost(kept: npt.NDArray[Any]) -> float:
        return float(np.sqrt(np.mean((x - kept.astype(np.float64)) ** 2)))

    assert lost(restore(*quantise(x))) * 5 < lost(x.astype(np.float16))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_numbers_that_float32_has_not_are_refused(bad: float) -> None:
    with pytest.raises(ConfigError, match="NaN, infinity or a number beyond float32"):
        quantise(np.array([[1.0, 2.0], [1.0, bad]]))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_unit_number_stays_one(kind: type[np.floating[Any]]) -> None:
    values, step = quantise(np.eye(3, dtype=kind))
    assert values.tolist() == (np.eye(3, dtype=int) * LARGEST).tolist()
    assert restore(values, step).tolist() == np.eye(3).tolist()
