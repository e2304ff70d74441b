from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.storage.packing import Unpacked, pack_columns

KINDS = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
"""Types of whole numbers that columns and lists have."""

FLOATS = [0.0, -0.0, 0.1, float("nan"), float("inf"), 5e-324]


def as_read(array: pa.Array) -> Unpacked:
    stored, packed = pack_columns({"x": array})
    return Unpacked(stored, orjson.loads(orjson.dumps(packed)))


def assert_equal(found: pa.Array, expected: pa.Array) -> None:
    if pa.types.is_dictionary(expected.type):
        found, expected = found.dictionary_decode(), expected.dictionary_decode()
    assert found.type == expected.type
    assert list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist()))


@st.composite
def whole_numbers(draw: st.DrawFn) -> pa.Array:
    kind = draw(st.sampled_from(KINDS))
    limits = np.iinfo(kind.to_pandas_dtype())
    low, high = int(limits.min), int(limits.max)
    base = draw(st.integers(low, high))
    near = st.integers(max(low, base - 300), min(high, base + 70_000))
    cells: st.SearchStrategy[Any] = draw(st.sampled_from([st.just(base), near, st.integers(low, high)]))
    if draw(st.booleans()):
        cells = st.one_of(st.none(), cells)
    return pa.array(draw(st.lists(cells, max_size=9)), kind)


@st.composite
def runs(draw: st.DrawFn) -> pa.Array:
    kind = draw(st.sampled_from(KINDS))
    limits = np.iinfo(kind.to_pandas_dtype())
    low, high = int(limits.min), int(limits.max)
    first, last = draw(st.integers(low, high)), draw(st.integers(low, high))
    n = draw(st.integers(1, 6))
    return pa.array([first + (last - first) // n * i for i in range(n)], kind)


@given(st.one_of(whole_numbers(), runs()), st.data())
def test_whole_numbers_come_back(array: pa.Array, data: st.DataObject) -> None:
    read = as_read(array)
    assert_equal(read.column("x"), array)
    if len(array):
        rows = np.array(data.draw(st.lists(st.integers(0, len(array) - 1), max_size=5)), np.int64)
        assert_equal(read.column("x", rows), array.take(pa.array(rows)))


@given(
    st.sampled_from([pa.float32(), pa.float64()]),
    st.one_of(
        st.lists(st.sampled_from([None, *FLOATS]), max_size=5),
        st.tuples(st.sampled_from(FLOATS), st.integers(0, 5)).map(lambda pair: [pair[0]] * pair[1]),
    ),
)
def test_floats_come_back_bit_by_bit(kind: pa.DataType, cells: list[float | None]) -> None:
    array = pa.array(cells, kind)
    assert_equal(as_read(array).column("x"), array)


@given(st.lists(st.sampled_from([None, "", "a", "\0ü"]), max_size=4))
def test_coded_texts_come_back(cells: list[str | None]) -> None:
    array = pa.array(cells, pa.string()).dictionary_encode()
    assert_equal(as_read(array).column("x"), array)


@pytest.mark.parametrize(
    ("array", "n_bytes"),
    [
        (pa.array(np.arange(1000) + 2**40), 0),
        (pa.array(np.full(1000, -7)), 0),
        (pa.array(np.full(1000, 0.25)), 0),
        (pa.array(["same"] * 1000).dictionary_encode(), 0),
        (pa.array(np.arange(1000) % 7 + 2**40), 1000),
        (pa.array((np.arange(1000) % 2) * 300 - 5), 2000),
        (pa.array((np.arange(1000) % 2) * 2**20, pa.int64()), 4000),
        (pa.array((np.arange(1000) % 2) * 2**40, pa.int64()), 8000),
    ],
)
def test_columns_take_the_room_that_they_need(array: pa.Array, n_bytes: int) -> None:
    stored, _ = pack_columns({"x": array})
    assert sum(column.nbytes for column in stored.values()) == n_bytes


def test_a_twin_is_stored_once_and_only_if_it_is_equal() -> None:
    one, other = pa.array([5, 300, 7]), pa.array([5, 300, 8])
    for second, n_stored in ((one, 1), (other, 2)):
        stored, packed = pack_columns({"a": one, "b": second}, {"b": "a"})
        assert len(stored) == n_stored
        assert Unpacked(stored, packed).column("b").equals(second)
