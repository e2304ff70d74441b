"""Columns of a merged part: the same as joined and ordered at once, but never all sources in memory together."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.random_batches import batches
from tests.storage.same_parts import plain_batch
from treering.storage.batch import ColumnBatch
from treering.storage.columns import take_columns
from treering.storage.files import OS_FILES
from treering.storage.joining import join_columns
from treering.storage.memory import MemoryPart, build, merge
from treering.storage.merged_columns import merge_columns
from treering.storage.segment import Segment
from treering.storage.segment_writer import write


def part_of(given_: list[ColumnBatch], name: str = "p") -> MemoryPart:
    return build(given_, None, dim=None, part_id=name)


@examples(30)
@given(batches(), batches(first_seq=50), st.randoms())
def test_columns_are_those_that_are_joined_and_ordered_at_once(
    early: list[ColumnBatch], late: list[ColumnBatch], dice: Any
) -> None:
    parts = [part_of(early, "a"), part_of(late, "b")]
    lengths = [part.n_rows for part in parts]
    whole = [{name: part.raw(name) for name in ("ts", "seq", *part.fields)} for part in parts]
    order = np.array(dice.sample(range(sum(lengths)), sum(lengths)), np.intp)
    expected = take_columns(join_columns(whole, lengths), order)
    found = merge_columns(parts, order)
    # As words, in which NaN equals itself and -0.0 is not 0.0.
    assert {n: repr(a.to_pylist()) for n, a in found.items()} == {
        n: repr(a.to_pylist()) for n, a in expected.items()
    }
    assert {n: a.type for n, a in found.items()} == {n: a.type for n, a in expected.items()}


def test_equal_columns_are_one_object_also_if_only_the_merge_makes_them_equal() -> None:
    same, other = pa.array([1, 2, 3]), pa.array([4, 5, 6])
    first = part_of([plain_batch(3, {"a#i": same, "b#i": same, "c#i": same, "d#i": other})])
    second = part_of([plain_batch(3, {"a#i": other, "b#i": other, "c#i": same, "d#i": other}, first_seq=3)])
    found = merge_columns([first, second], np.arange(6)[::-1])
    assert found["a#i"] is found["b#i"]
    assert found["a#i"] is not found["c#i"] and found["c#i"] is not found["d#i"]
    assert found["c#i"].to_pylist() == [3, 2, 1, 3, 2, 1]


class Watched(Segment):
    """A segment that knows which of the arrays that it gave are still in memory."""

    given: list[weakref.ref[pa.Array]]
    most = 0

    def raw(self, name: str, rows: Any = None) -> pa.Array:
        array = super().raw(name, rows)
        # A copy, so that only who asked for it holds it.
        copy = pa.concat_arrays([array, array.slice(0, 0)])
        Watched.given.append(weakref.ref(copy))
        Watched.most = max(Watched.most, sum(one() is not None for one in Watched.given))
        return copy


def test_a_merge_holds_the_sources_of_one_column_at_a_time(tmp_path: Path) -> None:
    Watched.given, Watched.most = [], 0
    columns = {f"c{k}#s": pa.array([f"{k} {i} " * 20 for i in range(50)]) for k in range(12)}
    segments = []
    for k in range(3):
        part = part_of([plain_batch(50, columns, first_seq=50 * k)], f"s{k}")
        meta = write(OS_FILES, tmp_path / part.id, part, level=44, cell=0)
        segments.append(Watched.open(OS_FILES, tmp_path / part.id, meta))
    merged = merge(segments, "m")
    assert merged.n_rows == 150
    assert len(Watched.given) > 3 * 12
    assert Watched.most == 3


def test_a_merge_that_shall_not_go_on_ends_before_its_next_column() -> None:
    asked = []

    def going() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise InterruptedError

    part = part_of([plain_batch(3, {f"c{k}#i": pa.array([k, 1, 2]) for k in range(9)})])
    with pytest.raises(InterruptedError):
        merge([part, part], "m", going=going)
    assert len(asked) == 3
