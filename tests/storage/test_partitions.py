"""The manifest lists the values of the partition columns of a segment: all of them, or none."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from treering.storage.batch import KEY, ColumnBatch, TextParts
from treering.storage.columns import place_columns
from treering.storage.files import OS_FILES
from treering.storage.memory import MemoryPart, build, merge
from treering.storage.meta import SegmentMeta
from treering.storage.partitions import MAX_BYTES, MAX_VALUES, PARTITION_FIELDS, partition_values
from treering.storage.segment import Segment, write, write_late

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def values_of(columns: dict[str, list[Any] | pa.Array]) -> dict[str, tuple[str, ...] | None]:
    arrays = {name: c if isinstance(c, pa.Array) else pa.array(c) for name, c in columns.items()}
    n = len(next(iter(arrays.values())))
    system = {"ts": pa.array(range(n)), "seq": pa.array(range(n))}
    return partition_values(place_columns({**system, **arrays}, n))


def part_of(columns: dict[str, list[Any]], first_seq: int = 0) -> MemoryPart:
    n = len(next(iter(columns.values())))
    numbers = pa.array(np.arange(first_seq, first_seq + n))
    arrays = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    batch = ColumnBatch(n, {"ts": numbers, "seq": numbers, **arrays}, TextParts.empty(), np.zeros(n, KEY))
    return build([batch], None, dim=None, part_id=f"p{first_seq}")


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=200))
def test_values_are_the_distinct_ones_in_order(values: list[str | None]) -> None:
    found = values_of({"tenant_id": pa.array(values, pa.string())})
    distinct = {value for value in values if value is not None}
    if not distinct:
        assert found == {}
    elif len(distinct) > MAX_VALUES:
        assert found == {"tenant_id": None}
    else:
        assert found == {"tenant_id": tuple(sorted(distinct))}


def test_all_three_partition_columns_are_listed_and_no_other() -> None:
    found = values_of({name: ["a", None, "b"] for name in (*PARTITION_FIELDS, "request_model", "pod_name")})
    assert found == dict.fromkeys(PARTITION_FIELDS, ("a", "b"))


@pytest.mark.parametrize(
    ("values", "is_listed"),
    [
        ([f"{i:03}" for i in range(MAX_VALUES)], True),
        ([f"{i:03}" for i in range(MAX_VALUES + 1)], False),
        (["x" * (MAX_BYTES - 1), "y"], True),
        (["x" * (MAX_BYTES - 1), "yz"], False),
        (["é" * (MAX_BYTES // 2)], True),
        (["é" * (MAX_BYTES // 2) + "e"], False),
    ],
)
def test_too_many_or_too_long_values_are_not_listed(values: list[str], is_listed: bool) -> None:
    expected = tuple(sorted(values)) if is_listed else None
    for repeats in (1, 5):
        assert values_of({"intent_tag": values * repeats}) == {"intent_tag": expected}


def test_originals_whose_values_are_all_values_of_a_partition_column_are_listed() -> None:
    tenants = pa.array(["a", "b", None, "a"])
    found = values_of(
        {
            "tenant_id": tenants,
            "tenant#s": tenants,
            "some#s": ["b", None, None, None],
            "more#s": ["a", "c", None, None],
            "big#z": ["a", None, None, None],
            "list#[s]": [["a"], None, None, None],
        }
    )
    assert found == {"tenant_id": ("a", "b"), "tenant#s": ("a", "b"), "some#s": ("b",)}


def test_originals_are_not_listed_without_a_partition_column() -> None:
    assert values_of({"tenant#s": ["a", "b"]}) == {}
    assert values_of({"tenant_id": [f"{i}" for i in range(99)], "one#s": ["1"] * 99}) == {"tenant_id": None}


@examples(20)
@given(st.lists(st.lists(st.none() | TEXTS, min_size=1, max_size=8), min_size=1, max_size=3))
def test_a_segment_lists_what_it_holds_and_a_merged_one_what_all_hold(groups: list[list[str | None]]) -> None:
    parts = [part_of({"tenant_id": group}, 100 * i) for i, group in enumerate(groups)]
    with tempfile.TemporaryDirectory() as name:
        for part in (*parts, merge(parts, "m")):
            directory = Path(name) / part.id
            meta = write(OS_FILES, directory, part, level=44, cell=0)
            segment = Segment.open(OS_FILES, directory, SegmentMeta.from_json(meta.to_json()))
            held = sorted(
                set(part.column("tenant_id").drop_null().to_pylist()) if "tenant_id" in part.fields else []
            )
            expected = {"tenant_id": tuple(held)} if held else {}
            assert segment.partitions == part.partitions == expected


def test_a_column_that_came_late_is_not_judged_by_the_list_of_the_one_it_replaces(tmp_path: Path) -> None:
    meta = write(OS_FILES, tmp_path / "s", part_of({"tenant_id": ["a", "b"]}), level=44, cell=0)
    late = write_late(OS_FILES, tmp_path / "s", 0, vectors=None, signals={"tenant_id": pa.array(["z", "z"])})
    segment = Segment.open(OS_FILES, tmp_path / "s", meta.with_late(late, pending=0, signals_pending=False))
    assert segment.partitions == {}
