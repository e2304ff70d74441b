from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.storage.batch import KEY, Keys, Vectors
from treering.storage.part import VectorTable
from treering.storage.vectors import (
    add_late,
    code_width,
    empty_table,
    find_keys,
    fixed_binary,
    from_arrow,
    make_table,
    merge_tables,
    no_vectors,
    to_arrow,
    vectors_from_arrow,
    vectors_to_arrow,
)


def unit_vectors(u: int, dim: int, seed: int) -> npt.NDArray[np.float64]:
    x = np.random.default_rng(seed).standard_normal((u, dim))
    unit: npt.NDArray[np.float64] = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit


SIDES = ("heads", "n_tokens", "head", "second", "qls")


def make_keys(pairs: list[tuple[int, int]]) -> Keys:
    return np.array(pairs, KEY)


def make_vectors(keys: Keys, dim: int = 96, seed: int = 0) -> Vectors:
    rng, u = np.random.default_rng(seed), len(keys)
    return Vectors.of(
        keys,
        unit_vectors(u, dim, seed),
        heads=rng.integers(0, 256, (u, 72)).astype(np.uint8),
        n_tokens=rng.integers(1, 256, u).astype(np.uint16),
        head=rng.integers(0, 12, u).astype(np.uint8),
        second=rng.integers(0, 12, u).astype(np.uint8),
        qls=rng.integers(-127, 128, (u, 136)).astype(np.int8),
    )


def whole_table(vectors: Vectors) -> VectorTable:
    return make_table(vectors.key, np.ones(len(vectors), np.bool_), vectors)


def assert_same_table(first: VectorTable, second: VectorTable) -> None:
    for name in VectorTable.__slots__:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@given(st.integers(1, 40), st.sampled_from([1, 63, 64, 65, 384]), st.integers(0, 2**32 - 1))
def test_int8_scores_lie_within_the_certified_error(u: int, dim: int, seed: int) -> None:
    table = whole_table(Vectors.of(np.zeros(u, KEY), unit_vectors(u, dim, seed)))
    assert table.codes.shape == (u, code_width(dim))
    assert not table.codes[:, dim:].any()
    queries = np.random.default_rng(seed + 1).standard_normal((5, dim))
    coded = table.codes[:, :dim].astype(np.float64) * table.scale.astype(np.float64)[:, None]
    rest = table.exact(np.arange(u)).astype(np.float64) - coded
    gap = np.abs(queries @ rest.T)
    assert (gap <= np.linalg.norm(queries, axis=1)[:, None] * table.err.astype(np.float64)).all()
    # The worst query of a vector is its own residual: the bound holds there too, and is not loose.
    norm = np.linalg.norm(rest, axis=1)
    assert (norm <= table.err).all()
    assert (table.err <= norm * (1 + 1e-4)).all()


def test_zero_and_sparse_vectors_have_certified_codes() -> None:
    given_ = np.zeros((3, 100), np.float16)
    given_[1, 7] = -1.0
    given_[2, :2] = [6e-8, 1.0]
    table = whole_table(Vectors.of(np.zeros(3, KEY), given_))
    assert not table.codes[0].any() and not table.rest[0].any()
    assert (table.scale[0], table.err[0]) == (0, 0)
    assert table.codes[1, 7] == -127
    assert table.exact(np.arange(3))[:, 7].tolist() == [0, -1, 0]
    lost = table.exact(np.array([2]))[0] - table.codes[2, :100] * np.float64(table.scale[2])
    assert np.linalg.norm(lost) <= table.err[2]


def test_a_table_holds_the_numbers_that_its_vectors_held() -> None:
    vectors = make_vectors(make_keys([(1, 5), (1, 6), (9, 0)]))
    table, rows = whole_table(vectors), np.array([2, 0, 0])
    np.testing.assert_array_equal(table.values(rows), vectors.values[rows])
    np.testing.assert_array_equal(table.step(rows), vectors.step[rows])
    np.testing.assert_array_equal(table.exact(rows), vectors.exact()[rows])
    assert (table.dim, vectors.dim) == (96, 96)
    assert table.exact(rows).dtype == np.float32


def test_a_guard_sees_the_rows_that_are_read_before_they_are() -> None:
    table = whole_table(make_vectors(make_keys([(1, 5), (1, 6), (9, 0)])))
    table.touch()
    seen: list[list[int] | None] = []
    table.guard = lambda rows: seen.append(None if rows is None else rows.tolist())
    table.exact(np.array([2, 0]))
    table.values(np.array([1]))
    table.touch()
    merge_tables(table.key[:2], [table])
    add_late(table, [make_vectors(table.key[1:2], seed=3)])
    assert seen == [[2, 0], [1], None, [0, 1], [0, 1, 2]]


def test_table_goes_through_arrow_unchanged() -> None:
    keys = make_keys([(1, 5), (1, 6), (9, 0)])
    table = make_table(keys, np.array([True, False, True]), make_vectors(keys[[0, 2]]))
    assert table.have.tolist() == [True, False, True]
    assert_same_table(from_arrow(to_arrow(table)), table)


def test_columns_that_say_nothing_are_not_written() -> None:
    keys = make_keys([(1, 5), (9, 0)])
    given_ = Vectors.of(keys, unit_vectors(2, 96, 0))
    table = whole_table(given_)
    assert {"have", "heads", "qls", "exemplar"}.isdisjoint(to_arrow(table))
    assert {"heads", "qls", "exemplar"}.isdisjoint(vectors_to_arrow(given_))
    assert_same_table(from_arrow(to_arrow(table)), table)
    waiting = empty_table(keys, 96, 72, 136)
    waiting.exemplar[:] = [4, 2]
    assert {"have", "heads", "qls", "exemplar"} <= to_arrow(waiting).keys()
    assert_same_table(from_arrow(to_arrow(waiting)), waiting)


def test_float16_vectors_of_format_1_are_read_as_if_they_came_now() -> None:
    keys = make_keys([(1, 5), (9, 0)])
    vectors = make_vectors(keys)
    exact = unit_vectors(2, 96, 0).astype(np.float16)
    now = replace(Vectors.of(keys, exact), **{n: getattr(vectors, n) for n in SIDES})
    old = vectors_to_arrow(now)
    del old["values"], old["step"]
    old |= {"exact": fixed_binary(exact), "exemplar": pa.array([-1, 7], pa.int64())}
    got = vectors_from_arrow(old)
    assert got.exemplar.tolist() == [-1, 7]
    for name in ("key", "values", "step", *SIDES):
        np.testing.assert_array_equal(getattr(got, name), getattr(now, name), err_msg=name)
    np.testing.assert_allclose(got.exact(), exact, rtol=0, atol=float(now.step.max()) / 2 * 1.01)
    old |= {"have": pa.array([1, 1], pa.uint8()), "codes": fixed_binary(np.ones((2, 128), np.int8))}
    old |= {"scale": pa.array([1, 1], pa.float32()), "err": pa.array([1, 1], pa.float32())}
    assert_same_table(from_arrow(old), whole_table(got))


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


def test_vectors_with_and_without_signatures_lie_side_by_side() -> None:
    keys = make_keys([(1, 1), (2, 2)])
    with_them, without = make_vectors(keys[:1]), Vectors.of(keys[1:], unit_vectors(1, 96, 7))
    tables = [whole_table(with_them), whole_table(without)]
    late = add_late(make_table(keys, np.array([True, False]), with_them), [without])
    for table in (merge_tables(keys, tables), merge_tables(keys, tables[::-1]), late):
        np.testing.assert_array_equal(table.qls, [with_them.qls[0], np.zeros(136, np.int8)])
        np.testing.assert_array_equal(table.heads, [with_them.heads[0], np.zeros(72, np.uint8)])
        np.testing.assert_array_equal(table.exact(np.arange(2))[1], without.exact()[0])


def test_a_table_that_waits_for_all_its_vectors_keeps_no_room_for_them() -> None:
    keys = make_keys([(1, 1), (2, 2)])
    table = make_table(keys, np.zeros(2, np.bool_), no_vectors(96), np.array([4, 7]))
    assert (table.dim, table.codes.nbytes, table.exemplar.tolist()) == (0, 0, [4, 7])
    assert_same_table(from_arrow(to_arrow(table)), table)


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
        for name in ("key", "values", "step", "heads", "n_tokens", "head", "second", "qls")
    ]
    return Vectors(*values)
