"""Filters over ids: what they let pass, which columns have one, and that they stand on disk as described."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from treering.storage import blooms
from treering.storage.arrow_file import ArrowFile, map_file, read_lists, write_lists
from treering.storage.batch import KEY, ColumnBatch, TextParts
from treering.storage.blooms import BLOOM, Blooms, bloom_columns, make_filter, passes, probe_of
from treering.storage.columns import Placed, place_columns
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.memory import MemoryPart, build, merge, select
from treering.storage.partitions import partition_values
from treering.storage.segment import Segment, rewrite_derived, write, write_late

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def ids(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(n)]


# -- one filter ---------------------------------------------------------------------------------------------


def test_a_block_has_the_bits_that_other_writers_of_such_filters_set() -> None:
    # Source: apache/arrow-rs, parquet/src/bloom_filter: a filter of "a0" to "a9" that parquet-mr wrote.
    published = bytes(
        (
            *(200, 1, 80, 20, 64, 68, 8, 109, 6, 37, 4, 67, 144, 80, 96, 32),
            *(8, 132, 43, 33, 0, 5, 99, 65, 2, 0, 224, 44, 64, 78, 96, 4),
        )
    )
    assert make_filter(pa.array([f"a{i}" for i in range(10)])).tobytes() == published


@pytest.mark.skipif(
    "bloom_filter_options" not in inspect.signature(pq.write_table).parameters, reason="pyarrow is too old"
)
def test_a_filter_of_as_many_blocks_equals_that_of_a_parquet_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = ids(1024)
    path = tmp_path / "t.parquet"
    options: Any = {"id": {"ndv": len(values), "fpp": 0.01}}
    pq.write_table(pa.table({"id": values}), path, bloom_filter_options=options)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    stored = path.read_bytes()[column.bloom_filter_offset :][: column.bloom_filter_length]
    n_bytes = 1 << (len(stored).bit_length() - 1)  # a power of two, behind a short header
    monkeypatch.setattr(blooms, "BITS_PER_VALUE", n_bytes * 8 // len(values))
    assert make_filter(pa.array(values)).tobytes() == stored[-n_bytes:]


@given(st.lists(st.none() | TEXTS, max_size=60), st.booleans())
def test_no_value_is_ever_denied(values: list[str | None], is_wide: bool) -> None:
    texts = pa.array(values, pa.large_string() if is_wide else pa.string())
    words = make_filter(texts)
    assert all(passes(words, probe_of(value)) for value in values if value is not None)


def test_a_slice_is_filtered_without_what_lies_around_it() -> None:
    values = ids(300)
    assert np.array_equal(
        make_filter(pa.array(values).slice(100, 100)), make_filter(pa.array(values[100:200]))
    )


def test_six_in_a_thousand_other_values_pass() -> None:
    for n in (10, 1000, 20_000):
        words = make_filter(pa.array(ids(n)))
        asked = ids(20_000, seed=1)
        share = sum(passes(words, probe_of(value)) for value in asked) / len(asked)
        assert share < 0.01, (n, share)
        assert len(words) * 32 <= max(256, blooms.BITS_PER_VALUE * n + 255)


# -- which columns ------------------------------------------------------------------------------------------


def placed(columns: dict[str, list[Any] | pa.Array], n_rows: int) -> Placed:
    arrays = {name: c if isinstance(c, pa.Array) else pa.array(c) for name, c in columns.items()}
    return place_columns({"ts": pa.array(range(n_rows)), "seq": pa.array(range(n_rows)), **arrays}, n_rows)


def owners_in(columns: dict[str, list[Any] | pa.Array], n_rows: int) -> dict[str, str]:
    part = placed(columns, n_rows)
    made, owners = bloom_columns(part, partition_values(part))
    assert set(made) == {BLOOM + owner for owner in owners.values()}
    return owners


def test_columns_of_ids_have_a_filter_and_others_do_not() -> None:
    n = 200
    columns: dict[str, list[Any] | pa.Array] = {
        "request_id": [f"r{i % 3}" for i in range(n)],  # by its canonical name, however few and short
        "session_id#s": [f"s{i % 3}" for i in range(n)],  # by the same name
        "job#s": ids(n),  # as it looks so
        "rare#s": [None] * (n - 2) + ids(2),
        "half#s": [f"value of a half {i // 2}" for i in range(n)],  # no more than half of the values differ
        "short#s": [str(i) for i in range(n)],
        "long#s": [value * 2 for value in ids(n)],
        "prompt": [f"tell me of {i}" for i in range(n)],
        "finish_reason": ids(n),  # canonical, and no id
        "big#z": [str(10**20 + i) for i in range(n)],
        "number#i": list(range(n)),
        "list#[s]": [[value] for value in ids(n)],
        "empty#s": pa.nulls(n, pa.string()),
    }
    assert set(owners_in(columns, n)) == {"request_id", "session_id#s", "job#s", "rare#s"}


def test_equal_columns_share_a_filter_and_texts_for_people_have_none() -> None:
    values, texts = pa.array(ids(100)), pa.array([f"failed at step {i}" for i in range(100)])
    columns: dict[str, list[Any] | pa.Array] = {
        "trace_id": values,
        "traceId#s": values,
        "traceId#z": values,
        "body": texts,
        "message#s": texts,
        "text#s": pa.array(texts.to_pylist()),
    }
    found = owners_in(columns, 100)
    assert found == {"text#s": "text#s", "trace_id": "traceId#s", "traceId#s": "traceId#s"}


def test_a_partition_column_has_a_filter_once_its_values_are_too_many_to_list() -> None:
    few, many = [f"tenant {i % 64}" for i in range(300)], [f"tenant {i % 65}" for i in range(300)]
    assert owners_in({"tenant_id": few}, 300) == {}
    assert owners_in({"tenant_id": many}, 300) == {"tenant_id": "tenant_id"}


# -- in a segment -------------------------------------------------------------------------------------------


def part_of(values: list[str | None], first_seq: int = 0, name: str = "p") -> MemoryPart:
    n = len(values)
    texts = pa.array(values, pa.string())
    numbers = pa.array(np.arange(first_seq, first_seq + n))
    columns = {"ts": numbers, "seq": numbers, "request_id": texts, "id#s": texts}
    batch = ColumnBatch(n, columns, TextParts.empty(), np.zeros(n, KEY))
    return build([batch], None, dim=None, part_id=name)


def written(part: MemoryPart, directory: Path) -> Segment:
    return Segment.open(OS_FILES, directory, write(OS_FILES, directory, part, level=44, cell=0))


@examples(30)
@given(st.lists(st.lists(st.none() | TEXTS, max_size=20), min_size=1, max_size=3), st.data())
def test_no_segment_denies_a_value_it_holds_also_when_merged_or_cut(
    groups: list[list[str | None]], data: st.DataObject
) -> None:
    parts = [part_of(group, 100 * i, f"p{i}") for i, group in enumerate(groups)]
    with tempfile.TemporaryDirectory() as name:
        segments = [written(part, Path(name) / part.id) for part in parts]
        merged = merge(segments, "m")
        kept = [row for row in range(merged.n_rows) if data.draw(st.booleans())]
        cut = select(merged, np.array(kept, np.intp), "c")
        for part in (*segments, written(merged, Path(name) / "m"), written(cut, Path(name) / "c")):
            for column in ("request_id", "id#s"):
                held = part.column(column).drop_null().to_pylist() if column in part.fields else []
                assert all(part.may_hold(column, value) for value in held)


def test_a_segment_denies_what_it_does_not_hold(tmp_path: Path) -> None:
    values = ids(1000)
    segment = written(part_of(list(values)), tmp_path / "s")
    for column in ("request_id", "id#s"):
        denied = [not segment.may_hold(column, value) for value in ids(1000, seed=1)]
        assert sum(denied) > 980
    assert segment.may_hold("body", "x")


def test_a_column_that_came_late_is_not_judged_by_the_filter_of_the_one_it_replaces(tmp_path: Path) -> None:
    part = part_of(list(ids(10)))
    meta = write(OS_FILES, tmp_path / "s", part, level=44, cell=0)
    late = write_late(
        OS_FILES, tmp_path / "s", 0, vectors=None, signals={"request_id": pa.array(["later"] * 10)}
    )
    segment = Segment.open(OS_FILES, tmp_path / "s", meta.with_late(late, pending=0, signals_pending=False))
    assert segment.may_hold("request_id", "later")
    assert segment.column("request_id").to_pylist() == ["later"] * 10
    assert not all(segment.may_hold("id#s", value) for value in ids(50, seed=1))


def test_a_file_of_format_1_has_no_filters_and_may_hold_anything(tmp_path: Path) -> None:
    stored = write_lists(
        OS_FILES,
        tmp_path / "post.arrow",
        {"parts_row": pa.array([1], pa.int32())},
        kind="post",
        facts={"rows": 1},
    )
    file = ArrowFile(tmp_path / stored.name, map_file(OS_FILES, tmp_path, stored), "post")
    assert Blooms(file).may_hold("request_id", "x")


@pytest.mark.parametrize(
    "columns", [{}, {BLOOM + "id#s": pa.array([], pa.uint32())}, {BLOOM + "id#s": [1] * 9}]
)
def test_a_filter_that_is_missing_or_cut_is_damage(tmp_path: Path, columns: dict[str, Any]) -> None:
    held = {name: pa.array(words, pa.uint32()) for name, words in columns.items()}
    stored = write_lists(
        OS_FILES,
        tmp_path / "post.arrow",
        {"parts_row": pa.array([1], pa.int32()), **held},
        kind="post",
        facts={"rows": 1, "blooms": {"id#s": "id#s"}},
    )
    file = ArrowFile(tmp_path / stored.name, map_file(OS_FILES, tmp_path, stored), "post")
    with pytest.raises(DamageError, match=r"post\.arrow.*filter of id#s"):
        Blooms(file).may_hold("id#s", "x")


def test_a_damaged_filter_denies_nothing(tmp_path: Path) -> None:
    values = ids(2000)
    meta = written(part_of(list(values)), tmp_path / "s").meta
    path = tmp_path / "s" / "post.arrow"
    stored, words = path.read_bytes(), make_filter(pa.array(values)).tobytes()
    assert words in stored
    path.write_bytes(stored.replace(words, bytes(len(words))))
    segment = Segment.open(OS_FILES, tmp_path / "s", meta)
    assert all(segment.may_hold("id#s", value) for value in [*values, *ids(10, seed=1)])
    assert any("post.arrow" in told for told in segment.rebuilt)


def test_a_filter_that_is_written_anew_is_the_same(tmp_path: Path) -> None:
    segment = written(part_of([*ids(1000), None]), tmp_path / "s")
    (tmp_path / "s" / "post.arrow").unlink()
    meta = rewrite_derived(OS_FILES, tmp_path / "s", Segment.open(OS_FILES, tmp_path / "s", segment.meta))
    stored = next(file for file in meta.files if file.name.startswith("post-"))
    file = ArrowFile(tmp_path / "s" / stored.name, map_file(OS_FILES, tmp_path / "s", stored), "post")
    assert file.facts["blooms"] == {"id#s": "id#s", "request_id": "id#s"}
    assert np.array_equal(read_lists(file)["bloom.id#s"].to_numpy(), make_filter(pa.array(ids(1000))))


def test_filters_stand_in_the_file_as_the_page_describes_them(tmp_path: Path) -> None:
    values = ids(100)
    segment = written(part_of(list(values)), tmp_path / "s")
    stored = next(file for file in segment.meta.files if file.name == "post.arrow")
    file = ArrowFile(tmp_path / "s" / stored.name, map_file(OS_FILES, tmp_path / "s", stored), "post")
    assert file.facts["blooms"] == {"id#s": "id#s", "request_id": "id#s"}
    words = read_lists(file)["bloom.id#s"].to_numpy()
    assert words.dtype == np.uint32
    assert len(words) == 8 * -(-100 * 12 // 256)
    assert np.array_equal(words, make_filter(pa.array(values)))


def test_asking_a_filter_loads_no_compiler(tmp_path: Path) -> None:
    segment = written(part_of(list(ids(10))), tmp_path / "s")
    code = """
import json, sys
from pathlib import Path
from treering.storage.files import OS_FILES
from treering.storage.meta import SegmentMeta
from treering.storage.segment import Segment
directory = Path(sys.argv[1])
segment = Segment.open(OS_FILES, directory, SegmentMeta.from_json(json.loads(sys.argv[2])))
print(segment.may_hold("request_id", "x" * 40), "numba" in sys.modules)
"""
    import json

    told = json.dumps(segment.meta.to_json())
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s"), told], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
