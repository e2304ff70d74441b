from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.storage.batch import KEY, Keys, Vectors
from treering.storage.part import VectorTable
from treering.storage.vectors import (
    add_late,
    code_vectors,
    code_width,
    empty_table,
    find_keys,
    from_arrow,
    make_table,
    merge_tables,
    no_vectors,
    to_arrow,
    vectors_from_arrow,
    vectors_to_arrow,
)


def unit_vectors(u: int, dim: int, seed: int) -> npt.NDArray[np.float16]:
    x = np.random.default_rng(seed).standard_normal((u, dim))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float16)


def make_keys(pairs: list[tuple[int, int]]) -> Keys:
    return np.array(pairs, KEY)


def make_vectors(keys: Keys, dim: int = 96, seed: int = 0) -> Vectors:
    rng, u = np.random.default_rng(seed), len(keys)
    return Vectors(
        keys,
        unit_vectors(u, dim, seed),
        rng.integers(0, 256, (u, 72)).astype(np.uint8),
        rng.integers(1, 256, u).astype(np.uint16),
        rng.integers(0, 12, u).astype(np.uint8),
        rng.integers(0, 12, u).astype(np.uint8),
        rng.integers(-127, 128, (u, 136)).astype(np.int8),
    )


def assert_same_table(first: VectorTable, second: VectorTable) -> None:
    for name in VectorTable.__slots__:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@settings(deadline=None)
@given(st.integers(0, 40), st.sampled_from([1, 63, 64, 65, 384]), st.integers(0, 2**32 - 1))
def test_int8_scores_lie_within_the_certified_error(u: int, dim: int, seed: int) -> None:
    exact = unit_vectors(u, dim, seed)
    codes, scale, err = code_vectors(exact)
    assert codes.shape == (u, code_width(dim))
    assert not codes[:, dim:].any()
    queries = np.random.default_rng(seed + 1).standard_normal((5, dim))
    coded = codes[:, :dim].astype(np.float64) * scale.astype(np.float64)[:, None]
    rest = exact.astype(np.float64) - coded
    gap = np.abs(queries @ rest.T)
    assert (gap <= np.linalg.norm(queries, axis=1)[:, None] * err.astype(np.float64)).all()
    # The worst query of a vector is its own residual: the bound holds there too, and is not loose.
    norm = np.linalg.norm(rest, axis=1)
    assert (norm <= err).all()
    assert (err <= norm * (1 + 1e-6) + 1e-30).all()


def test_zero_and_sparse_vectors_have_certified_codes() -> None:
    exact = np.zeros((3, 100), np.float16)
    exact[1, 7] = -1.0
    exact[2, :2] = [6e-8, 1.0]
    codes, scale, err = code_vectors(exact)
    assert not codes[0].any()
    assert (scale[0], err[0]) == (0, 0)
    assert codes[1, 7] == -127
    assert np.abs(exact[2].astype(np.float64) - codes[2, :100] * np.float64(scale[2])).max() <= err[2]


def test_table_goes_through_arrow_unchanged() -> None:
    keys = make_keys([(1, 5), (1, 6), (9, 0)])
    table = make_table(keys, np.array([True, False, True]), make_vectors(keys[[0, 2]]))
    assert table.have.tolist() == [True, False, True]
    assert_same_table(from_arrow(to_arrow(table)), table)


def test_loose_vectors_go_through_arrow_unchanged() -> None:
    vectors = make_vectors(make_keys([(3, 1), (2, 2)]))
    back = vectors_from_arrow(vectors_to_arrow(vectors))
    for name in Vectors.__slots__:
        np.testing.assert_array_equal(getattr(back, name), getattr(vectors, name))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12), st.data())
def test_keys_are_found_also_where_high_halves_clash(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    held = sorted(set(pairs))
    wanted = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
    found = find_keys(make_keys(held), make_keys(wanted))
    assert found.tolist() == [held.index(pair) if pair in held else -1 for pair in wanted]


def test_late_vectors_fill_what_was_to_come_and_nothing_else() -> None:
    keys = make_keys([(1, 1), (2, 2), (3, 3)])
    base = make_table(keys, np.array([True, False, False]), make_vectors(keys[:1]))
    late = make_vectors(make_keys([(3, 3), (7, 7)]), seed=9)
    filled = add_late(base, [no_vectors(), late])
    assert base.have.tolist() == [True, False, False]
    assert filled.have.tolist() == [True, False, True]
    whole = make_table(keys, filled.have, _stack(make_vectors(keys[:1]), late.take(np.array([0]))))
    assert_same_table(filled, whole)


def test_late_vectors_bring_their_width_to_a_table_that_knows_none() -> None:
    keys = make_keys([(1, 1), (2, 2)])
    vectors = make_vectors(keys)
    assert_same_table(
        add_late(empty_table(keys, 0, 0, 0), [vectors]), make_table(keys, np.ones(2, np.bool_), vectors)
    )


def test_merged_table_knows_what_any_table_knows() -> None:
    keys = make_keys([(1, 1), (2, 2), (3, 3)])
    all_of_them = make_vectors(keys)
    first = make_table(keys[:2], np.array([True, False]), all_of_them.take(np.array([0])))
    second = make_table(keys[1:], np.array([True, False]), all_of_them.take(np.array([1])))
    merged = merge_tables(keys, [first, second, empty_table(keys, 0, 0, 0)])
    assert merged.have.tolist() == [True, True, False]
    assert_same_table(merged, make_table(keys, merged.have, all_of_them.take(np.array([0, 1]))))


@pytest.mark.parametrize("u", [0, 3])
def test_table_without_any_vector_goes_through_arrow(u: int) -> None:
    keys = make_keys([(i, i) for i in range(1, u + 1)])
    assert_same_table(from_arrow(to_arrow(empty_table(keys, 0, 0, 0))), empty_table(keys, 0, 0, 0))


def _stack(first: Vectors, second: Vectors) -> Vectors:
    values: list[Any] = [
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("key", "exact", "heads", "n_tokens", "head", "second", "qls")
    ]
    return Vectors(*values)
