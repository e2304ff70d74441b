"""Columns that disagree about a type are refused where the store can know, and kept apart where it cannot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.storage.opened import nothing, open_ring
from tests.storage.records import decode, fill, numbers_in, raw_batch, stored_numbers
from treering.storage.batch import ColumnBatch, RawBatch
from treering.storage.errors import ConfigError
from treering.storage.ring import Ring


def labelled(numbers: range, column: pa.Array, name: str = "label") -> ColumnBatch:
    table = decode(raw_batch(numbers), 0)
    return ColumnBatch(table.n_rows, {**table.columns, name: column}, table.parts, table.template)


@pytest.mark.parametrize("change", ["nothing", "flush", "fill", "reopen"])
def test_a_table_that_disagrees_with_the_store_about_a_type_is_refused(path: Path, change: str) -> None:
    with open_ring(path) as first:
        first.append_columns(labelled(range(2), pa.array([0.5, None])))
        first.append(raw_batch([2]))
        if change in ("flush", "fill"):
            first.flush()
        if change == "fill":
            fill(first)
        if change != "reopen":
            refuse_another_type(first)
    with open_ring(path) as again:
        refuse_another_type(again)


def refuse_another_type(ring: Ring) -> None:
    n = ring.next_seq
    with pytest.raises(ConfigError, match="column label: is string, the store has it as double"):
        ring.append_columns(labelled(range(n, n + 2), pa.array(["a", "b"])))
    assert ring.next_seq == n
    ring.append_columns(labelled(range(n, n + 2), pa.array([1.5, 2.5])))
    ring.flush()
    for segment in ring.unfinished():
        with pytest.raises(ConfigError, match="column label: is string, the store has it as double"):
            ring.add_late(segment.id, signals={"label": pa.array(["a"] * segment.n_rows)})
    assert stored_numbers(ring) == list(range(n + 2))


def test_records_that_disagree_about_a_type_lie_in_parts_and_segments_of_their_own(path: Path) -> None:
    """The store cannot know what a decoder will give, so it must take it as it comes."""

    def undecided(raw: RawBatch, first_seq: int) -> ColumnBatch:
        columns = decode(raw, first_seq)
        is_text = raw.sources[0].name == "text"
        label = pa.array([("a" if is_text else 1.5)] * raw.n_rows)
        return replace_columns(columns, label=label)

    with Ring.open(path, decoder=undecided) as ring:
        for start in range(0, 24, 3):
            name = "text" if start % 2 else "number"
            ring.append(raw_batch(range(start, start + 3), step_ns=1, name=name))
            assert stored_numbers(ring) == list(range(start + 3))
            if start % 4 == 3:
                ring.flush()
        labels = [1.5, 1.5, 1.5, "a", "a", "a"] * 4
        for step in (nothing, ring.flush, lambda: fill(ring), lambda: fill(ring)):
            step()
            with ring.snapshot() as snapshot:
                assert numbers_in(snapshot) == list(range(24))
                found = [
                    pair
                    for part in snapshot.parts
                    for pair in zip(part.seq.tolist(), part.column("label").to_pylist(), strict=True)
                ]
            assert [label for _, label in sorted(found, key=lambda pair: pair[0])] == labels
        assert not ring.unfinished() and ring.fold() == 0


def replace_columns(batch: ColumnBatch, **columns: pa.Array) -> ColumnBatch:
    return ColumnBatch(batch.n_rows, {**batch.columns, **columns}, batch.parts, batch.template)


def test_lists_of_any_encoding_are_joined(path: Path) -> None:
    kinds = [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(pa.large_string()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ]
    with open_ring(path) as ring:
        for i, kind in enumerate(kinds):
            column = pa.array([["x", None]], pa.list_(pa.string()))
            items = column.values.cast(kind.value_type)
            make = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
            table = labelled(
                range(i, i + 1),
                make.from_arrays(
                    pa.array([0, 2]).cast(pa.int64() if pa.types.is_large_list(kind) else pa.int32()), items
                ),
                "context",
            )
            ring.append_columns(table)
        for step in (nothing, ring.flush):
            step()
            with ring.snapshot() as snapshot:
                rows = [row for part in snapshot.parts for row in part.column("context").to_pylist()]
            assert rows == [["x", None]] * len(kinds)
