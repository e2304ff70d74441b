from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.storage.faults import Fault, FaultyFiles
from tests.storage.random_batches import (
    KEYS,
    batches,
    lookup_of,
    plain_rows,
    values,
    vectors_of,
)
from treering.storage.batch import KEY, ColumnBatch, Keys, TextParts, Vectors
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES, Data, Handle, OsFiles
from treering.storage.memory import MemoryPart, build, merge, select
from treering.storage.meta import SegmentMeta
from treering.storage.part import NO_SHARD, Part
from treering.storage.segment import Segment, write, write_late
from treering.storage.text_file import BATCH_ROWS
from treering.storage.tree import Tree

relaxed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
SCALE = np.random.default_rng(4).uniform(0.01, 0.02, 136).tolist()
KNOWN = st.sets(KEYS)


def written(part: MemoryPart, directory: Path, *, generation: int = 0) -> Segment:
    meta = write(OS_FILES, directory, part, level=44, cell=0, generation=generation)
    return Segment.open(OS_FILES, directory, SegmentMeta.from_json(meta.to_json()))


def assert_same_part(first: Part, second: Part) -> None:
    for name in ("id", "n_rows", "t_min", "t_max", "pending", "signals_pending"):
        assert getattr(first, name) == getattr(second, name), name
    assert dict(first.fields) == dict(second.fields)
    assert list(first.slices) == list(second.slices)
    np.testing.assert_array_equal(first.ts, second.ts)
    np.testing.assert_array_equal(first.seq, second.seq)
    for name in first.fields:
        assert_same_column(first, second, name)
    for method in ("vectors", "postings", "parts"):
        assert_same_arrays(getattr(first, method)(), getattr(second, method)())
    for method in ("vec_of_row", "template_of_row", "template_keys"):
        np.testing.assert_array_equal(getattr(first, method)(), getattr(second, method)(), err_msg=method)
    assert_same_arrays(first.tree, second.tree)


def assert_same_column(first: Part, second: Part, name: str) -> None:
    one, other = first.column(name), second.column(name)
    assert one.type == other.type
    assert values(one) == values(other), name
    rows = np.random.default_rng(0).integers(0, first.n_rows, 5) if first.n_rows else np.empty(0, np.int64)
    assert (
        values(first.column(name, rows))
        == values(second.column(name, rows))
        == [values(one)[r] for r in rows]
    )
    if pa.types.is_integer(one.type) or pa.types.is_floating(one.type) or pa.types.is_boolean(one.type):
        assert_same_numbers(first.numbers(name), second.numbers(name))
    codes, other_codes = first.codes(name), second.codes(name)
    assert (codes is None) == (other_codes is None)
    if codes is not None and other_codes is not None:
        np.testing.assert_array_equal(codes[0], other_codes[0])
        assert codes[0].dtype == other_codes[0].dtype == np.int32
        assert codes[1].equals(other_codes[1])
        assert [None if c < 0 else codes[1][c].as_py() for c in codes[0].tolist()] == one.to_pylist()


def assert_same_numbers(first: Any, second: Any) -> None:
    assert first[0].dtype == second[0].dtype
    assert (first[1] is None) == (second[1] is None)
    mask = slice(None) if first[1] is None else first[1]
    if first[1] is not None:
        np.testing.assert_array_equal(first[1], second[1])
    np.testing.assert_array_equal(first[0][mask], second[0][mask])


def assert_same_arrays(first: Any, second: Any) -> None:
    for name in type(first).__slots__:
        one, other = getattr(first, name), getattr(second, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, name


def rows_of(part: Part) -> dict[int, dict[str, str]]:
    columns = {name: values(part.column(name)) for name in ("ts", "seq", *part.fields)}
    rows = [{n: c[row] for n, c in columns.items() if c[row] != "None"} for row in range(part.n_rows)]
    return {int(row["seq"]): row for row in rows}


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
@given(batches(), batches(first_seq=100), KNOWN)
def test_merge_keeps_each_row_once_in_shard_and_time_order(
    first: list[ColumnBatch], second: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    parts = [build(b, lookup_of(known), dim=32, part_id="p", qls_scale=SCALE) for b in (first, second)]
    merged = merge(parts, "m", qls_scale=SCALE)
    assert rows_of(merged) == plain_rows([*first, *second])
    assert [s.lo for s in merged.slices] == [0, *(s.hi for s in merged.slices)][: len(merged.slices)]
    for piece in merged.slices:
        times = list(zip(merged.ts[piece.lo : piece.hi], merged.seq[piece.lo : piece.hi], strict=True))
        assert times == sorted(times)
    vectors = merged.vectors()
    for piece in merged.slices:
        for vec in merged.vec_of_row()[piece.lo : piece.hi]:
            lost = vec < 0 or not vectors.have[vec] or vectors.head[vec] == 255
            assert lost if piece.shard == NO_SHARD else piece.shard // 16 == vectors.head[vec]
    with tempfile.TemporaryDirectory() as directory:
        segment = written(merged, Path(directory) / "s", generation=1)
        assert_same_part(segment, merged)
        again = merge([segment], "m", qls_scale=SCALE)
        assert_same_part(again, merged)


@relaxed
@given(batches(), KNOWN)
def test_parts_and_postings_name_the_same_uses(
    given_: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    young = build(given_, lookup_of(known), dim=32, part_id="x")
    for part in (young, merge([young], "y")):
        texts, table, postings = part.parts(), part.vectors(), part.postings()
        keys = [tuple(key) for key in table.key.tolist()]
        assert keys == sorted(set(keys))
        seqs = [part.seq[row] for row in texts.row]
        found = set(
            zip(seqs, texts.field, texts.chunk, map(tuple, texts.key.tolist()), texts.primary, strict=True)
        )
        assert found == set(uses_of(given_))
        assert len(found) == len(texts)
        place = [
            (int(row), int(f), int(c)) for row, f, c in zip(texts.row, texts.field, texts.chunk, strict=True)
        ]
        assert place == sorted(place)
        for vec, key in enumerate(keys):
            span = slice(postings.offsets[vec], postings.offsets[vec + 1])
            uses = [
                (part.ts[r], part.seq[r], f)
                for r, f in zip(postings.row[span], postings.field[span], strict=True)
            ]
            mine = [
                (part.ts[texts.row[i]], part.seq[texts.row[i]], texts.field[i]) for i in matching(texts, key)
            ]
            assert uses == sorted(mine)
        for i in np.flatnonzero(texts.primary):
            assert tuple(table.key[part.vec_of_row()[texts.row[i]]].item()) == tuple(texts.key[i].item())
        assert np.count_nonzero(part.vec_of_row() >= 0) == np.count_nonzero(texts.primary)
        assert part.pending == np.count_nonzero(~table.have)


def uses_of(given_: Sequence[ColumnBatch]) -> list[tuple[Any, ...]]:
    return [
        (one.columns["seq"][t.row[i]].as_py(), t.field[i], t.chunk[i], tuple(t.key[i].item()), t.primary[i])
        for one in given_
        for t in [one.parts]
        for i in range(len(t))
    ]


def matching(texts: TextParts, key: tuple[int, ...]) -> list[int]:
    return [i for i in range(len(texts)) if tuple(texts.key[i].item()) == key]


@relaxed
@given(batches(), KNOWN)
def test_templates_name_their_rows_in_time_order(
    given_: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    part = merge([build(given_, lookup_of(known), dim=32, part_id="x")], "m")
    expected = {
        int(one.columns["seq"][row].as_py()): tuple(one.template[row].item())
        for one in given_
        for row in range(one.n_rows)
    }
    keys = [tuple(key) for key in part.template_keys().tolist()]
    assert keys == sorted({key for key in expected.values() if key != (0, 0)})
    for row, template in enumerate(part.template_of_row().tolist()):
        assert expected[int(part.seq[row])] == (keys[template] if template >= 0 else (0, 0))
    offsets, rows = part.template_rows()
    for template in range(len(keys)):
        mine = rows[offsets[template] : offsets[template + 1]]
        times = [(int(part.ts[r]), int(part.seq[r])) for r in mine]
        same = np.flatnonzero(part.template_of_row() == template)
        assert times == sorted((int(part.ts[r]), int(part.seq[r])) for r in same)
    with tempfile.TemporaryDirectory() as directory:
        stored = written(part, Path(directory) / "s").template_rows()
        np.testing.assert_array_equal(stored[0], offsets)
        np.testing.assert_array_equal(stored[1], rows)


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


@relaxed
@given(batches(), batches(first_seq=100), KNOWN)
def test_exemplars_are_the_first_events_with_a_text_and_the_lowest_is_kept(
    early: list[ColumnBatch], late: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    def first_seqs(given_: list[ColumnBatch]) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for one in given_:
            for key, row in zip(one.parts.key.tolist(), one.parts.row.tolist(), strict=True):
                seq = one.columns["seq"][row].as_py()
                found[key] = min(seq, found.get(key, seq))
        return found

    def embedded(keys: Keys) -> tuple[Any, Vectors]:
        found, vectors = lookup_of(known)(keys)
        return found, replace(vectors, exemplar=np.full(len(vectors), 7))

    def exemplars(part: Part) -> dict[tuple[int, int], int]:
        table = part.vectors()
        return dict(zip(table.key.tolist(), table.exemplar.tolist(), strict=True))

    first, second = (build(b, lookup_of(known), dim=32, part_id="x") for b in (early, late))
    for part, given_ in ((first, early), (second, late)):
        assert exemplars(part) == {k: -1 if k in known else n for k, n in first_seqs(given_).items()}
    expected = {k: -1 if k in known else n for k, n in first_seqs([*early, *late]).items()}
    with tempfile.TemporaryDirectory() as directory:
        stored = [written(part, Path(directory) / str(i)) for i, part in enumerate((first, second))]
        assert exemplars(merge(stored[::-1], "m")) == expected
    seen = exemplars(build(late, embedded, dim=32, part_id="y"))
    assert seen == {k: 7 if k in known else n for k, n in first_seqs(late).items()}


@relaxed
@given(batches(), KNOWN, st.data())
def test_selected_rows_are_those_rows(
    given_: list[ColumnBatch], known: set[tuple[int, int]], data: st.DataObject
) -> None:
    part = build(given_, lookup_of(known), dim=32, part_id="x")
    rows = np.array([r for r in range(part.n_rows) if data.draw(st.booleans())], np.intp)
    chosen = select(part, rows, "y")
    everything = plain_rows(given_)
    assert rows_of(chosen) == {int(seq): everything[int(seq)] for seq in part.seq[rows]}
    seqs = {int(seq) for seq in part.seq[rows]}
    texts = chosen.parts()
    found = {(chosen.seq[r], f, c) for r, f, c in zip(texts.row, texts.field, texts.chunk, strict=True)}
    assert found == {use[:3] for use in uses_of(given_) if use[0] in seqs}


def plain_batch(n_rows: int, columns: dict[str, pa.Array], first_seq: int = 0) -> ColumnBatch:
    system = {"ts": pa.array(np.arange(n_rows) << 20), "seq": pa.array(np.arange(n_rows) + first_seq)}
    return ColumnBatch(n_rows, {**system, **columns}, TextParts.empty(), np.zeros(n_rows, KEY))


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


@pytest.mark.parametrize("head", [b"2026-05-01 INFO ", b""])
@pytest.mark.parametrize("tail", [b"", b" }"])
def test_body_that_stands_in_its_record_takes_no_room(tmp_path: Path, head: bytes, tail: bytes) -> None:
    rng = np.random.default_rng(0)
    n_rows = 2 * BATCH_ROWS + 17
    bodies = [f"ünique {rng.integers(2**60)} {rng.integers(2**60)}" if i % 5 else None for i in range(n_rows)]
    record = pa.array([head + (b or "nothing").encode() + tail for b in bodies], pa.binary())
    part = build(
        [plain_batch(n_rows, {"record": record, "body": pa.array(bodies)})], None, dim=None, part_id="x"
    )
    other = build([plain_batch(n_rows, {"record": record})], None, dim=None, part_id="x")
    with_body, without = written(part, tmp_path / "a"), written(other, tmp_path / "b")
    sizes = [next(f.n_bytes for f in s.meta.files if f.name == "text.arrow") for s in (with_body, without)]
    assert sizes[0] < sizes[1] + 12 * n_rows
    assert with_body.column("body").to_pylist() == bodies
    rows = np.array([n_rows - 1, 0, BATCH_ROWS, 1, BATCH_ROWS - 1])
    assert with_body.column("body", rows).to_pylist() == [bodies[row] for row in rows]


def test_text_of_many_batches_is_read_in_the_asked_order(tmp_path: Path) -> None:
    n_rows = 3 * BATCH_ROWS + 5
    words = [
        f"{i} " * (i % 40) + "long enough to be no identifier at all, whatever it says" for i in range(n_rows)
    ]
    lists = [[i, None] if i % 3 else None for i in range(n_rows)]
    columns = {"prompt": pa.array(words), "steps#[i]": pa.array(lists)}
    segment = written(build([plain_batch(n_rows, columns)], None, dim=None, part_id="x"), tmp_path / "s")
    rows = np.random.default_rng(1).integers(0, n_rows, 300)
    assert segment.column("prompt", rows).to_pylist() == [words[row] for row in rows]
    assert segment.column("steps#[i]", rows).to_pylist() == [lists[row] for row in rows]
    assert segment.column("prompt").to_pylist() == words
    assert segment.column("prompt", rows[:0]).to_pylist() == []


def test_long_rows_come_in_small_batches(tmp_path: Path) -> None:
    n_rows = 3000
    rng = np.random.default_rng(0)
    texts = [rng.bytes(4000).hex() for _ in range(n_rows)]
    part = build([plain_batch(n_rows, {"response": pa.array(texts)})], None, dim=None, part_id="x")
    directory = tmp_path / "s"
    segment = written(part, directory)
    assert pa.ipc.open_file(OS_FILES.map(directory / "text.arrow")).get_batch(0).num_rows == 128
    rows = np.array([2999, 0, 127, 128, 1500])
    assert segment.column("response", rows).to_pylist() == [texts[row] for row in rows]
    assert segment.column("response").to_pylist() == texts


class FullHandle:
    """A file on a disk that has room for so many bytes."""

    def __init__(self, handle: Handle, room: list[int]) -> None:
        self.handle, self.room = handle, room
        self.sync, self.close, self.truncate = handle.sync, handle.close, handle.truncate

    def write(self, data: Data) -> None:
        self.room[0] -= pa.py_buffer(data).size
        if self.room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.handle.write(data)


class FullDisk(OsFiles):
    def __init__(self, n_bytes: int) -> None:
        self.room = [n_bytes]

    def create(self, path: Path) -> Handle:
        return FullHandle(super().create(path), self.room)


def test_full_disk_reaches_the_caller_as_it_is(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#f": pa.array([1.0, 2.0, 3.0])})], None, dim=None, part_id="x")
    n_bytes = sum(f.n_bytes for f in write(OS_FILES, tmp_path / "s", part, level=44, cell=0).files)
    for room in range(0, n_bytes, 997):
        with pytest.raises(OSError, match="No space left") as caught:
            write(FullDisk(room), tmp_path / f"s{room}", part, level=44, cell=0)
        assert caught.value.errno == errno.ENOSPC


def test_any_failed_call_reaches_the_caller_as_it_is(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#f": pa.array([1.0, 2.0, 3.0])})], None, dim=None, part_id="x")
    healthy = FaultyFiles(tmp_path)
    write(healthy, tmp_path / "s", part, level=44, cell=0)
    assert {"mkdir", "create", "write", "sync", "fsync_dir"} <= set(healthy.calls)
    for at in range(len(healthy.calls)):
        with pytest.raises(OSError, match="made to fail: EIO"):
            write(
                FaultyFiles(tmp_path, Fault(at=at, error=errno.EIO)),
                tmp_path / f"s{at}",
                part,
                level=44,
                cell=0,
            )


def test_written_segment_survives_a_power_loss(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#f": pa.array([1.0, 2.0, 3.0])})], None, dim=None, part_id="x")
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    files = FaultyFiles(before)
    meta = write(files, before / "s", part, level=44, cell=0)
    late = write_late(files, before / "s", 0, vectors=None, signals={"score": pa.array([0.5, None, 1.0])})
    files.fsync_dir(before)
    files.after_power_loss(after, None)
    segment = Segment.open(OS_FILES, after / "s", meta.with_late(late, pending=0, signals_pending=False))
    segment.verify()
    assert segment.column("score").to_pylist() == [0.5, None, 1.0]


def test_sparse_numbers_are_compressed_and_read_alike(tmp_path: Path) -> None:
    n_rows = 3 * BATCH_ROWS
    sparse = pa.array([i if i % 1000 == 0 else None for i in range(n_rows)], pa.int64())
    part = build([plain_batch(n_rows, {"rare#i": sparse})], None, dim=None, part_id="x")
    segment = written(part, tmp_path / "s")
    hot, text = segment.meta.files[:2]
    assert hot.n_bytes < n_rows * 28
    assert text.n_bytes < n_rows
    found, mask = segment.numbers("rare#i")
    assert mask is not None
    assert found[mask].tolist() == list(range(0, n_rows, 1000))


def test_asking_for_what_is_not_there_says_so(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#s": pa.array(["x", "y", "x"])})], None, dim=None, part_id="x")
    for seen in (part, written(part, tmp_path / "s")):
        asks: list[Callable[[str], object]] = [seen.column, seen.numbers, seen.codes]
        for ask in asks:
            with pytest.raises(KeyError, match="no column b#s"):
                ask("b#s")
        with pytest.raises(TypeError, match="a#s holds"):
            seen.numbers("a#s")


def test_batches_with_two_types_for_one_column_are_refused() -> None:
    first, second = plain_batch(1, {"x": pa.array([1])}), plain_batch(1, {"x": pa.array(["a"])}, 1)
    with pytest.raises(OSError, match="column x: a batch has type string, another int64"):
        build([first, second], None, dim=None, part_id="x")


def test_segment_stays_readable_after_its_files_are_unlinked(tmp_path: Path) -> None:
    part = build(
        [plain_batch(5, {"prompt": pa.array(["long " * 20 + str(i) for i in range(5)])})],
        None,
        dim=None,
        part_id="x",
    )
    segment = written(part, tmp_path / "s")
    OS_FILES.rmtree(tmp_path / "s")
    assert_same_part(segment, part)


def rich_segment(directory: Path) -> SegmentMeta:
    rng = np.random.default_rng(0)
    n_rows = 5000
    keys = np.array([(i + 1, i) for i in range(40)], KEY)[rng.integers(0, 40, n_rows)]
    parts = TextParts(
        np.arange(n_rows, dtype=np.int32),
        np.zeros(n_rows, np.uint8),
        np.zeros(n_rows, np.int16),
        keys,
        np.ones(n_rows, np.bool_),
    )
    batch = plain_batch(n_rows, {"record": pa.array([b"r%d" % i * 9 for i in range(n_rows)], pa.binary())})
    batch = ColumnBatch(n_rows, batch.columns, parts, keys)
    vectors = vectors_of(np.unique(keys))
    part = build([batch], lambda asked: (np.ones(len(asked), np.bool_), vectors), dim=32, part_id="x")
    meta = write(OS_FILES, directory, part, level=44, cell=0)
    late = write_late(OS_FILES, directory, 0, vectors=None, signals={"score": pa.array(rng.random(n_rows))})
    return meta.with_late(late, pending=0, signals_pending=False)


FILES = ("hot.arrow", "text.arrow", "vec.arrow", "post.arrow", "patt.arrow", "late-0000.arrow")


def read_all(segment: Segment) -> None:
    for name in segment.fields:
        segment.column(name)
    segment.vectors(), segment.postings(), segment.tree, segment.parts()


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(tmp_path: Path, name: str) -> None:
    meta = rich_segment(tmp_path / "s")
    (tmp_path / "s" / name).unlink()
    with pytest.raises(DamageError, match=rf"s/{name} is damaged: it is missing; restore"):
        Segment.open(OS_FILES, tmp_path / "s", meta)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("n_bytes", [0, 5, -1])
def test_cut_file_is_named(tmp_path: Path, name: str, n_bytes: int) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:n_bytes])
    with pytest.raises(
        DamageError, match=rf"s/{name} is damaged: it has \d+ bytes, the manifest says {len(whole)}"
    ):
        Segment.open(OS_FILES, tmp_path / "s", meta)


@pytest.mark.parametrize("name", FILES)
def test_any_flipped_byte_is_found_by_verify(tmp_path: Path, name: str) -> None:
    meta = rich_segment(tmp_path / "s")
    Segment.open(OS_FILES, tmp_path / "s", meta).verify()
    path = tmp_path / "s" / name
    whole = bytearray(path.read_bytes())
    for place in np.random.default_rng(1).integers(8, len(whole) - 8, 5):
        damaged = whole.copy()
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(DamageError, match=rf"s/{name} is damaged: its crc32c is"):
            Segment.open(OS_FILES, tmp_path / "s", meta).verify()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0, -1])
def test_foreign_first_or_last_bytes_are_found_on_opening(tmp_path: Path, name: str, place: int) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / name
    whole = bytearray(path.read_bytes())
    whole[place] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(DamageError, match=rf"s/{name} is damaged: its first or last bytes"):
        Segment.open(OS_FILES, tmp_path / "s", meta)


@pytest.mark.parametrize("name", FILES)
def test_zeroed_footer_is_named_on_reading(tmp_path: Path, name: str) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / name
    whole = bytearray(path.read_bytes())
    whole[-200:-10] = bytes(190)
    path.write_bytes(whole)
    with pytest.raises(DamageError, match=rf"s/{name} is damaged"):
        read_all(Segment.open(OS_FILES, tmp_path / "s", meta))


def test_file_of_another_format_or_segment_is_refused(tmp_path: Path) -> None:
    meta = rich_segment(tmp_path / "s")
    part = build([plain_batch(7, {})], None, dim=None, part_id="y")
    other = write(OS_FILES, tmp_path / "other", part, level=44, cell=0)
    for stored in other.files:
        (tmp_path / "s" / stored.name).write_bytes((tmp_path / "other" / stored.name).read_bytes())
    mixed = SegmentMeta.from_json({**meta.to_json(), "files": other.to_json()["files"]})
    segment = Segment.open(OS_FILES, tmp_path / "s", mixed)
    with pytest.raises(DamageError, match=r"s/hot.arrow is damaged: it has 7 rows, the manifest says 5000"):
        _ = segment.ts
    swapped = [
        {**f, "name": {"hot.arrow": "vec.arrow", "vec.arrow": "hot.arrow"}.get(f["name"], f["name"])}
        for f in other.to_json()["files"]
    ]
    (tmp_path / "s" / "hot.arrow").write_bytes((tmp_path / "other" / "vec.arrow").read_bytes())
    (tmp_path / "s" / "vec.arrow").write_bytes((tmp_path / "other" / "hot.arrow").read_bytes())
    segment = Segment.open(
        OS_FILES, tmp_path / "s", SegmentMeta.from_json({**other.to_json(), "files": swapped})
    )
    with pytest.raises(
        DamageError, match=r"s/hot.arrow is damaged: it has format 1 and kind vec, expected 1 and hot"
    ):
        _ = segment.ts


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
