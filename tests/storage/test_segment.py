from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.random_batches import (
    batches,
    lookup_of,
    plain_rows,
    values,
    vectors_of,
)
from tests.storage.same_parts import (
    KNOWN,
    SCALE,
    assert_same_arrays,
    assert_same_part,
    plain_batch,
    relaxed,
    rows_of,
    written,
)
from treering.storage.batch import KEY, ColumnBatch
from treering.storage.files import OS_FILES
from treering.storage.memory import build, merge
from treering.storage.meta import SegmentMeta
from treering.storage.segment import Segment, write, write_late
from treering.storage.tree import Tree


@relaxed
@given(batches(), KNOWN)
def test_part_and_segment_give_every_value_back(
    given_: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    part = build(given_, lookup_of(known), dim=32, part_id="x", qls_scale=SCALE)
    expected = plain_rows(given_)
    assert rows_of(part) == expected
    order = sorted(expected, key=lambda seq: (int(expected[seq]["ts"]), seq))
    assert part.seq.tolist() == order
    with tempfile.TemporaryDirectory() as directory:
        segment = written(part, Path(directory) / "s")
        segment.verify()
        assert_same_part(segment, part)
        assert rows_of(segment) == expected


@relaxed
@given(batches(max_batches=2), KNOWN, KNOWN, st.randoms(use_true_random=False))
def test_late_vectors_and_signals_come_to_the_segment_and_its_merge(
    given_: list[ColumnBatch], known: set[tuple[int, int]], late: set[tuple[int, int]], random: Any
) -> None:
    part = build(given_, lookup_of(known), dim=32, part_id="x", qls_scale=SCALE)
    score = pa.array(
        [random.choice([None, random.random(), float("nan")]) for _ in range(part.n_rows)], pa.float64()
    )
    label = pa.array([random.choice([None, "rule", "semantic"]) for _ in range(part.n_rows)], pa.string())
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "s"
        meta = write(OS_FILES, directory, part, level=44, cell=0)
        vectors = vectors_of(np.array(sorted(late - known), KEY))
        extra = write_late(OS_FILES, directory, 0, vectors=vectors, signals={"hallucination_score": score})
        more = write_late(OS_FILES, directory, 1, vectors=None, signals={"injection_stage": label})
        pending = part.pending - sum(tuple(key) in late - known for key in part.vector_keys().tolist())
        meta = meta.with_late(extra, pending=pending, signals_pending=True)
        meta = meta.with_late(more, pending=pending, signals_pending=False)
        segment = Segment.open(OS_FILES, directory, SegmentMeta.from_json(meta.to_json()))
        segment.verify()
        whole = build(given_, lookup_of(known | late), dim=32, part_id="x", qls_scale=SCALE)
        # Late vectors came with no exemplar, so that the segment's own stays.
        came_late = segment.vectors().have & ~part.vectors().have
        exemplar = np.where(came_late, part.vectors().exemplar, whole.vectors().exemplar)
        assert_same_arrays(segment.vectors(), replace(whole.vectors(), exemplar=exemplar))
        assert segment.pending == whole.pending == np.count_nonzero(~segment.vectors().have)
        merged = merge([segment], "m", qls_scale=SCALE)
        for seen in (segment, merged):
            rows = np.lexsort((seen.seq, seen.ts))
            for field, array in (("hallucination_score", score), ("injection_stage", label)):
                assert (field in seen.fields) == (array.null_count < len(array))
                if array.null_count < len(array):
                    assert values(seen.column(field, rows)) == values(array)
                    assert seen.fields[field].n == len(array) - array.null_count


def test_columns_beyond_512_read_the_same_from_the_residual(tmp_path: Path) -> None:
    samples: list[tuple[str, pa.Array]] = [
        ("i", pa.array([2**63 - 1, None, -3])),
        ("f", pa.array([float("nan"), -0.0, float("-inf")])),
        ("f", pa.array([1e308, 0.1, None])),
        ("b", pa.array([None, False, True])),
        ("s", pa.array(["NaN", "\0🦊", None])),
        ("z", pa.array([None, None, str(2**90)])),
        ("o", pa.array([True, None, None])),
        ("[f]", pa.array([[float("nan"), None, 2.5], [], None])),
        ("[s]", pa.array([["Infinity", None], None, [""]])),
        ("[i]", pa.array([[2**60 + 1], None, None])),
    ]
    common = {f"common{i}#i": pa.array([i, i, i]) for i in range(512)}
    rare = {f"rare{i}#{code}": array for i, (code, array) in enumerate(samples)}
    part = build([plain_batch(3, {**common, **rare})], None, dim=None, part_id="x")
    assert part.placed.overflow == set(rare)
    segment = written(part, tmp_path / "s")
    assert_same_part(segment, part)
    for name, array in rare.items():
        assert values(segment.column(name)) == values(array)
        assert values(segment.column(name, np.array([2, 0]))) == [values(array)[2], values(array)[0]]


def test_equal_columns_are_stored_once(tmp_path: Path) -> None:
    words = pa.array([f"word {i} and some more of them" for i in range(2000)])
    numbers = pa.array(np.random.default_rng(0).random(2000))
    nan = pa.array(np.full(2000, np.nan))
    once = {"a#s": words, "b#f": numbers, "c#f": nan}
    twice = {
        **once,
        "prompt": pa.array(words.to_pylist()),
        "ttft#f": pa.array(numbers.to_numpy()),
        "d#f": nan,
    }
    sizes = []
    for name, columns in (("once", once), ("twice", twice)):
        segment = written(build([plain_batch(2000, columns)], None, dim=None, part_id=name), tmp_path / name)
        sizes.append(sum(file.n_bytes for file in segment.meta.files))
        for column, array in columns.items():
            assert values(segment.column(column)) == values(array)
    assert sizes[1] < sizes[0] + 4000


def test_columns_that_differ_in_one_bit_are_both_kept() -> None:
    part = build(
        [plain_batch(2, {"a#f": pa.array([0.0, 1.0]), "b#f": pa.array([-0.0, 1.0])})],
        None,
        dim=None,
        part_id="x",
    )
    assert values(part.column("a#f")) == ["0.0", "1.0"]
    assert values(part.column("b#f")) == ["-0.0", "1.0"]


def test_asking_for_what_is_not_there_says_so(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#s": pa.array(["x", "y", "x"])})], None, dim=None, part_id="x")
    for seen in (part, written(part, tmp_path / "s")):
        asks: list[Callable[[str], object]] = [seen.column, seen.numbers, seen.codes]
        for ask in asks:
            with pytest.raises(KeyError, match="no column b#s"):
                ask("b#s")
        with pytest.raises(TypeError, match="a#s holds"):
            seen.numbers("a#s")


def test_arrays_stay_good_after_the_segment_is_closed_and_its_files_are_unlinked(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random(5000)
    part = build([plain_batch(5000, {"a#f": pa.array(numbers)})], None, dim=None, part_id="x")
    segment = written(part, tmp_path / "s")
    held, times = segment.numbers("a#f")[0], segment.ts
    segment.close()
    OS_FILES.rmtree(tmp_path / "s")
    np.testing.assert_array_equal(held, numbers)
    np.testing.assert_array_equal(times, part.ts)


def test_tree_names_the_slots_it_was_written_with(tmp_path: Path) -> None:
    part = build(
        [plain_batch(3000, {"a#f": pa.array(np.random.default_rng(0).random(3000))})],
        None,
        dim=None,
        part_id="x",
    )
    stored = written(part, tmp_path / "s").tree
    assert isinstance(stored, Tree)
    assert stored.signals == ("a#f",)
    assert stored.count[0] == 3000
