from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.faults import Fault, FaultyFiles
from tests.storage.records import (
    MODEL,
    SECOND_NS,
    decode,
    fill,
    numbers_in,
    position,
    raw_batch,
    reject,
    stored_numbers,
    text_keys,
    vectors_of,
)
from treering.storage.batch import ColumnBatch, RawBatch
from treering.storage.document import pack
from treering.storage.entry import Entry
from treering.storage.errors import ConfigError, DamageError, ModelError, StoreError
from treering.storage.files import OS_FILES, Files, OsFiles
from treering.storage.ring import Ring
from treering.storage.wal import make_frame

Changes = tuple[Callable[[], object], ...]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ring"


def open_ring(path: Path, mode: str = "w", flush_bytes: int = 1 << 20, files: Files = OS_FILES) -> Ring:
    return Ring.open(path, mode, decoder=decode, flush_bytes=flush_bytes, files=files)  # type: ignore[arg-type]


def nothing() -> None:
    """Change nothing."""


def test_appended_records_are_seen_at_once_and_after_every_change(path: Path) -> None:
    with open_ring(path) as ring:
        ring.set_model(MODEL)
        assert ring.append(raw_batch(range(5))) == 0
        assert ring.append(raw_batch(range(5, 8))) == 5
        changes: Changes = (nothing, ring.flush, lambda: fill(ring), lambda: ring.append(raw_batch([8])))
        for change in changes:
            change()
            assert stored_numbers(ring) == list(range(ring.next_seq))
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(9)) and ring.next_seq == 9


steps = st.one_of(
    st.integers(0, 9), st.sampled_from(["flush", "fill", "late", "fold", "reopen", "crash", "look", "hold"])
)


@settings(max_examples=40, deadline=None)
@given(life=st.lists(steps, max_size=14), step_ns=st.sampled_from([1, SECOND_NS, 10**13]))
def test_any_life_keeps_each_record_once(
    tmp_path_factory: pytest.TempPathFactory, life: list[int | str], step_ns: int
) -> None:
    path = tmp_path_factory.mktemp("life") / "ring"
    files = FaultyFiles(path.parent)
    ring = open_ring(path, files=files)
    ring.set_model(MODEL)
    reader, held = open_ring(path, "r", files=files), []
    for step in life:
        n = ring.next_seq
        if isinstance(step, int):
            ring.append(raw_batch(range(n, n + step), step_ns=step_ns), positions=[position(n + step)])
        elif step == "late":
            for segment in ring.unfinished()[:1]:
                table = segment.vectors()
                ring.add_late(segment.id, vectors=vectors_of(table.key[~table.have][:2]))
        elif step == "reopen":
            ring.close()
            ring = open_ring(path, files=files)
        elif step == "crash":
            # The lock goes with the process; nothing is closed in order.
            assert ring._writer is not None
            ring._writer._lock.release()
            ring = open_ring(path, files=files)
        elif step == "hold":
            held.append((reader.snapshot(), n))
        elif step == "fill":
            fill(ring)
        elif step in ("flush", "fold"):
            getattr(ring, step)()
        assert stored_numbers(ring) == list(range(ring.next_seq))
        assert stored_numbers(reader) == list(range(ring.next_seq))
        for snapshot, total in held:
            assert numbers_in(snapshot) == list(range(total))
    for snapshot, _ in held:
        snapshot.close()
    ring.flush()
    fill(ring)
    with ring.snapshot() as snapshot:
        assert snapshot.pending == 0
    ring.close()
    assert {p.name for p in (path / "seg").iterdir()} == {part.id for part in snapshot.parts}


def test_a_log_that_is_full_is_flushed_before_the_next_append(path: Path) -> None:
    with open_ring(path, flush_bytes=3000) as ring:
        sizes = []
        for n in range(0, 200, 10):
            ring.append(raw_batch(range(n, n + 10)))
            sizes.append(sum(p.stat().st_size for p in (path / "wal").iterdir()))
        assert stored_numbers(ring) == list(range(200))
    assert max(sizes) < 3000 + 2000
    assert len(list((path / "seg").iterdir())) > 2


def test_positions_and_rejects_are_acknowledged_with_their_events(path: Path) -> None:
    no_events = raw_batch([])
    with open_ring(path) as ring:
        assert ring.position("source") is None
        ring.append(raw_batch(range(3)), positions=[position(3)], rejects=[reject(1)])
        ring.append(no_events, positions=[position(4)], rejects=[reject(2), reject(3)])
        assert ring.append(no_events) == 3
        for change in (nothing, ring.flush, ring.flush):
            change()
            assert ring.position("source") == position(4)
            assert list(ring.rejects()) == [reject(1), reject(2), reject(3)]
            with ring.snapshot() as snapshot:
                assert (snapshot.n_rows, snapshot.n_rejected) == (3, 3)
        ring.append(no_events, positions=[position(5)], rejects=[reject(4)])
    with open_ring(path, "r") as ring:
        assert ring.position("source") == position(5)
        assert list(ring.rejects()) == [reject(n) for n in (1, 2, 3, 4)]


def test_old_times_do_not_widen_new_segments(path: Path) -> None:
    day = 86_400
    with open_ring(path) as ring:
        ring.append(raw_batch([*range(400 * day, 400 * day + 5000, 2), 7, 9]))
        ring.flush()
        with ring.snapshot() as snapshot:
            old = min(snapshot.parts, key=lambda part: part.t_min)
            assert (old.n_rows, old.t_max) == (2, 9 * SECOND_NS)
            assert sum(part.n_rows for part in snapshot.parts) == 2502


def test_vectors_that_are_known_are_not_asked_for_again(path: Path) -> None:
    with open_ring(path) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(3)))
        ring.flush()
        fill(ring)
        ring.append(raw_batch(range(3, 8)))
        ring.flush()
        [segment] = ring.unfinished()
        assert segment.pending == 4
        with ring.snapshot() as snapshot:
            assert snapshot.pending == 4
        found, vectors = ring.lookup(text_keys(["text 0", "text 5", "text 2"]))
        assert found.tolist() == [True, False, True]
        np.testing.assert_array_equal(vectors.exact(), vectors_of(text_keys(["text 0", "text 2"])).exact())
    with open_ring(path, "r") as reader:
        assert reader.lookup(text_keys(["text 0", "text 5", "text 2"]))[0].tolist() == [True, False, True]


def test_late_vectors_and_signals_come_step_by_step(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(7)))
        ring.flush()
        [segment] = ring.unfinished()
        assert (segment.pending, segment.signals_pending) == (7, True)
        keys = segment.vectors().key
        ring.add_late(segment.id, vectors=vectors_of(keys[:3]))
        ring.add_late(segment.id, vectors=vectors_of(keys[2:5]))
        [segment] = ring.unfinished()
        assert segment.pending == 2
        ring.add_late(segment.id, signals={"a": pa.array(np.arange(7.0))}, vectors=vectors_of(keys[5:]))
        [segment] = ring.unfinished()
        assert (segment.pending, segment.signals_pending) == (0, True)
        ring.add_late(segment.id, signals_done=True)
        assert ring.unfinished() == []
        assert ring.fold() == 1
        with ring.snapshot() as snapshot:
            [part] = snapshot.parts
            assert sorted(part.column("a").to_pylist()) == [float(n) for n in range(7)]
            assert len(part.slices) == 2
            np.testing.assert_array_equal(part.vectors().exact(np.arange(7)), vectors_of(keys).exact())


def test_late_files_must_fit_their_segment(path: Path) -> None:
    with open_ring(path) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(7)))
        ring.flush()
        [segment] = ring.unfinished()
        with pytest.raises(ConfigError, match="column a: 3 values, expected 7"):
            ring.add_late(segment.id, signals={"a": pa.array([1.0] * 3)})
        with pytest.raises(ConfigError, match="segment nine: the store has none such"):
            ring.add_late("nine")
        vectors = vectors_of(segment.vectors().key)
        wide = replace(vectors, values=np.zeros((7, 16), np.int16))
        with pytest.raises(ModelError, match="its vectors have 8 dimensions, these 16"):
            ring.add_late(segment.id, vectors=wide)


def test_a_table_with_vectors_is_complete_at_once(path: Path) -> None:
    table = decode(raw_batch(range(20)), 0)
    del table.columns["seq"]
    keys = text_keys([f"text {i}" for i in range(7)])
    with open_ring(path) as ring:
        ring.append(raw_batch([100]))
        assert ring.append_columns(table, vectors_of(keys), positions=[position(1)]) == 1
        for change in (nothing, ring.flush):
            change()
            assert stored_numbers(ring) == [100, *range(20)]
            with ring.snapshot() as snapshot:
                assert snapshot.pending == 0
                assert len(snapshot.parts) == 1
    with open_ring(path) as ring:
        assert stored_numbers(ring) == [100, *range(20)]
        assert ring.lookup(keys)[0].all()
        with pytest.raises(ModelError, match="its vectors have 8 dimensions, these 3"):
            ring.append_columns(table, replace(vectors_of(keys), values=np.zeros((7, 3), np.int16)))
        with pytest.raises(ModelError, match="its vectors have 8 dimensions, these 384"):
            ring.set_model(replace(MODEL, dim=384))


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


def test_a_store_has_one_model(path: Path) -> None:
    with open_ring(path) as ring:
        assert ring.model is None
        ring.set_model(MODEL)
        ring.set_model(replace(MODEL, dtype="bfloat16"))
        with pytest.raises(ModelError, match="its vectors are of m, not of other"):
            ring.set_model(replace(MODEL, model_id="other"))
    with open_ring(path, "r") as reader:
        assert reader.model == MODEL
        with reader.snapshot() as snapshot:
            assert snapshot.model == MODEL


def test_columns_that_came_with_the_records_are_used(path: Path) -> None:
    raw = raw_batch(range(3))
    calls = []

    def counting(raw: RawBatch, first_seq: int) -> ColumnBatch:
        calls.append(first_seq)
        return decode(raw, first_seq)

    with Ring.open(path, decoder=counting) as ring:
        ring.append(raw, columns=decode(raw, 0))
        assert stored_numbers(ring) == [0, 1, 2]
        assert calls == []
        with pytest.raises(ConfigError, match="columns begin at seq 0, expected 3"):
            ring.append(raw, columns=decode(raw, 0))
        with pytest.raises(ConfigError, match="columns have 2 rows, the records 3"):
            ring.append(raw, columns=decode(raw_batch(range(2)), 3))


def test_small_appends_are_decoded_together_and_once(path: Path) -> None:
    rows = []

    def counting(raw: RawBatch, first_seq: int) -> ColumnBatch:
        rows.append((first_seq, raw.n_rows))
        return decode(raw, first_seq)

    with Ring.open(path, decoder=counting) as ring:
        for n in range(50):
            name = f"{n % 3}.jsonl"
            ring.append(raw_batch([n], name=name), positions=[position(n)], rejects=[reject(n)])
        with ring.snapshot() as snapshot:
            assert numbers_in(snapshot) == list(range(50))
            [part] = snapshot.parts
            assert part.column("source").to_pylist() == [f"{n % 3}.jsonl" for n in range(50)]
        ring.append(raw_batch([50]))
        ring.flush()
        assert stored_numbers(ring) == list(range(51))
        assert list(ring.rejects()) == [reject(n) for n in range(50)]
    assert rows == [(0, 50), (50, 1)]


def test_looking_after_each_append_builds_few_parts(path: Path) -> None:
    with open_ring(path) as ring:
        n_parts = []
        for n in range(64):
            ring.append(raw_batch([n]))
            with ring.snapshot() as snapshot:
                assert numbers_in(snapshot) == list(range(n + 1))
                n_parts.append(len(snapshot.parts))
    assert max(n_parts) <= 7


def test_only_one_process_writes_and_it_is_named(path: Path) -> None:
    with open_ring(path), pytest.raises(StoreError, match=f"process {os.getpid()} writes to it"):
        open_ring(path)
    open_ring(path).close()


def test_a_reader_needs_a_store_and_changes_nothing(path: Path) -> None:
    with pytest.raises(StoreError, match="no treering store there"):
        open_ring(path, "r")
    assert not path.exists()
    open_ring(path).close()
    with open_ring(path, "r") as reader:
        changes: Changes = (reader.flush, reader.fold, lambda: reader.append(raw_batch([1])))
        for change in changes:
            with pytest.raises(StoreError, match="open it with mode 'w'"):
                change()
    with pytest.raises(StoreError, match="is closed"):
        reader.snapshot()
    with pytest.raises(ConfigError, match="mode 'a': unknown"):
        open_ring(path, "a")


def test_a_directory_with_other_things_is_left_alone(path: Path) -> None:
    path.mkdir()
    (path / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match=r"holds 'letter\.txt' and is no treering store"):
        open_ring(path)
    assert [p.name for p in path.iterdir()] == ["letter.txt"]
    with pytest.raises(StoreError, match="is a file"):
        open_ring(path / "letter.txt")


def test_missing_parents_are_made(tmp_path: Path) -> None:
    open_ring(tmp_path / "a" / "b" / "ring").close()
    assert (tmp_path / "a" / "b" / "ring" / "LOCK").exists()


def test_a_store_of_another_format_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ring(path).close()
    monkeypatch.setattr("treering.storage.document.FORMAT", 2)
    newer = pack("manifest", {"version": 2})
    monkeypatch.setattr("treering.storage.document.FORMAT", 1)
    (path / "_manifest" / f"{2:020d}.json").write_bytes(newer)
    for mode in ("w", "r"):
        with pytest.raises(StoreError, match=r"store format 2, this treering reads 1"):
            open_ring(path, mode)


def test_the_newest_manifest_is_never_stepped_over(path: Path) -> None:
    with open_ring(path) as ring:
        keep = open_ring(path, "r").snapshot()
        ring.append(raw_batch([0]))
        ring.flush()
    newest = max((path / "_manifest").iterdir())
    newest.write_bytes(newest.read_bytes()[:-3])
    for mode in ("w", "r"):
        with pytest.raises(DamageError, match=newest.name):
            open_ring(path, mode)
    keep.close()


def test_lost_files_are_named(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch([0]), positions=[position(1)])
        ring.flush()
        ring.append(raw_batch([1]))
    for lost in [*(path / "meta").iterdir(), *(path / "wal").iterdir(), *(path / "seg").rglob("*.arrow")]:
        data = lost.read_bytes()
        lost.unlink()
        for mode in ("w", "r"):
            with pytest.raises(DamageError, match=lost.name), open_ring(path, mode) as ring:
                for part in ring.snapshot().parts:
                    part.column("record"), part.parts(), part.vectors()
                ring.position("source")
        lost.write_bytes(data)
    for manifest in (path / "_manifest").iterdir():
        manifest.unlink()
    with pytest.raises(DamageError, match="no manifest, yet the store has events"):
        open_ring(path)


def test_frames_that_are_in_segments_already_are_left_out(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(3)))
        ring.append(raw_batch(range(3, 5)))
        ring.flush()
        ring.append(raw_batch([5]))
    [log] = (path / "wal").iterdir()
    data = log.read_bytes()
    old = make_frame(Entry(0, raw=raw_batch(range(3)))) + make_frame(Entry(3, raw=raw_batch(range(3, 5))))
    log.write_bytes(data[:24] + old + data[24:])
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(6))
    log.write_bytes(data[:24] + make_frame(Entry(9, raw=raw_batch([9]))) + data[24:])
    with pytest.raises(DamageError, match="goes on at seq 9, expected 5"):
        open_ring(path)


def test_what_a_snapshot_holds_stays_until_it_is_closed(path: Path) -> None:
    with open_ring(path) as ring:
        for n in range(4):
            ring.append(raw_batch([n]))
            ring.flush()
        reader = open_ring(path, "r")
        held = reader.snapshot()
        before = {p.name for p in (path / "seg").iterdir()}
        fill(ring)
        assert before < {p.name for p in (path / "seg").iterdir()}
        # Every file that the held version names can still be opened for the first time.
        with open_ring(path, "r") as late, late.snapshot() as snapshot:
            assert numbers_in(snapshot) == numbers_in(held) == [0, 1, 2, 3]
        held.close()
        held.close()
        ring.append(raw_batch([4]))
        ring.flush()
        assert not before & {p.name for p in (path / "seg").iterdir()}
        assert len(list((path / "_manifest").iterdir())) == 1


def test_a_snapshot_that_nobody_keeps_lets_go(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch([0]))
        ring.snapshot()
        ring.flush()
        ring.set_model(MODEL)
        assert len(list((path / "_manifest").iterdir())) == 1


def test_leftovers_of_a_crash_are_swept_at_the_next_opening(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(4)), rejects=[reject(1)])
        ring.flush()
        [segment] = ring.unfinished()
    (path / "seg" / "22-0-dead").mkdir()
    left = ["seg/22-0-dead/hot.arrow", f"seg/{segment.id}/late-0007.arrow", "meta/segments-00000999.json"]
    left += ["rejects/00000998.arrow", "_manifest/00000000000000000009.tmp"]
    for name in left:
        (path / name).write_bytes(b"half")
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(4))
        assert list(ring.rejects()) == [reject(1)]
        fill(ring)
    assert not [name for name in left if (path / name).exists()]


def test_a_reader_follows_a_writer_that_never_waits(path: Path) -> None:
    ring = open_ring(path)
    reader = open_ring(path, "r")
    seen: list[int] = []
    failures: list[BaseException] = []

    def follow() -> None:
        try:
            while not seen or seen[-1] < 60:
                seen.append(len(stored_numbers(reader)))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        for n in range(60):
            ring.append(raw_batch([n]))
            if n % 7 == 6:
                ring.flush()
            if n % 20 == 19:
                fill(ring)
    finally:
        thread.join(60)
        ring.close()
    assert not failures
    assert seen == sorted(seen) and seen[-1] == 60


def test_a_failed_flush_after_looks_loses_no_event(path: Path) -> None:
    """Rejects without events are joined by a flush; parts made before must still cover what they covered."""
    files = FaultyFiles(path.parent)
    with open_ring(path, files=files) as ring:
        ring.append_columns(decode(raw_batch(range(100)), 0))
        ring.append(raw_batch([]), rejects=[reject(0)])
        assert stored_numbers(ring) == list(range(100))
        ring.append(raw_batch([]), rejects=[reject(1)])
        ring.append_columns(decode(raw_batch(range(100, 110)), 0))
        assert stored_numbers(ring) == list(range(110))
        files.fault, files.n_calls = Fault(0, errno.ENOSPC, among=("write",)), 0
        with pytest.raises(StoreError, match="flush failed"):
            ring.flush()
        files.fault = None
        ring.append_columns(decode(raw_batch(range(110, 120)), 0))
        assert stored_numbers(ring) == list(range(120))
        assert list(ring.rejects()) == [reject(0), reject(1)]


def test_a_fold_leaves_a_damaged_segment_as_it_is_and_names_the_file(path: Path) -> None:
    ring = open_ring(path)
    for start in (0, 5, 10):
        ring.append(raw_batch(range(start, start + 5), step_ns=1))
        ring.flush()
    finish(ring)
    metas = ring._view.catalog.segments.entries
    damaged = min(metas.values(), key=lambda meta: meta.seq_min)
    ring.close()
    file = path / "seg" / damaged.id / "text.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with open_ring(path) as ring:
        for _ in range(2):
            with pytest.raises(DamageError, match=f"{damaged.id}/text.arrow is damaged: bytes"):
                ring.fold()
            with ring.snapshot() as snapshot:
                sizes = {part.id == damaged.id: part.n_rows for part in snapshot.parts}
            assert sizes == {True: 5, False: 10}
        assert file.read_bytes() == bytes(data)


def finish(ring: Ring) -> None:
    """Add all vectors that are still to come, without a fold."""
    for segment in ring.unfinished():
        table = segment.vectors()
        ring.add_late(segment.id, vectors=vectors_of(table.key[~table.have]), signals_done=True)


class SlowFiles(OsFiles):
    """Files that wait, while they make a segment's directory, until somebody says go."""

    def __init__(self) -> None:
        self.began, self.may_go_on = threading.Event(), threading.Event()
        self.is_slow = False

    def mkdir(self, path: Path) -> None:
        if self.is_slow:
            self.began.set()
            assert self.may_go_on.wait(60)
        super().mkdir(path)


@pytest.fixture
def slow() -> Iterator[SlowFiles]:
    files = SlowFiles()
    yield files
    files.may_go_on.set()


def folding(ring: Ring, slow: SlowFiles) -> tuple[threading.Thread, list[object]]:
    """Begin a fold in another thread, which stands still before its first file."""
    outcome: list[object] = []

    def fold() -> None:
        try:
            outcome.append(ring.fold())
        except StoreError as error:
            outcome.append(error)

    thread = threading.Thread(target=fold)
    slow.is_slow = True
    thread.start()
    assert slow.began.wait(60)
    slow.is_slow = False
    return thread, outcome


def test_appends_and_snapshots_go_on_while_a_fold_runs(path: Path, slow: SlowFiles) -> None:
    with open_ring(path, files=slow) as ring:
        ring.append(raw_batch(range(5)))
        ring.flush()
        finish(ring)
        thread, outcome = folding(ring, slow)
        ring.append(raw_batch(range(5, 9)))
        assert stored_numbers(ring) == list(range(9))
        ring.flush()
        ring.append(raw_batch([9]))
        assert ring.lookup(text_keys(["text 0"]))[0].all()
        slow.may_go_on.set()
        thread.join()
        assert outcome == [1]
        assert stored_numbers(ring) == list(range(10))
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(10))


def test_a_fold_whose_segment_got_a_sidecar_meanwhile_is_done_again_with_it(
    path: Path, slow: SlowFiles
) -> None:
    with open_ring(path, files=slow) as ring:
        ring.append(raw_batch(range(5)))
        ring.flush()
        finish(ring)
        [meta] = ring._view.catalog.segments.entries.values()
        thread, outcome = folding(ring, slow)
        ring.add_late(meta.id, signals={"surprise": pa.array([1.0, 2.0, 3.0, 4.0, 5.0])})
        slow.may_go_on.set()
        thread.join()
        assert outcome == [1]
        with ring.snapshot() as snapshot:
            [part] = snapshot.parts
            assert sorted(part.column("surprise").to_pylist()) == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert [p.name for p in (path / "seg").iterdir()] == [part.id]


class TellingLock:
    """A lock that tells when somebody begins to wait for it."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.lock, self.is_awaited = lock, threading.Event()

    def __enter__(self) -> None:
        self.is_awaited.set()
        self.lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self.lock.__exit__(None, None, None)


def test_closing_waits_for_a_fold_and_gives_it_up(path: Path, slow: SlowFiles) -> None:
    ring = open_ring(path, files=slow)
    ring.append(raw_batch(range(5)))
    ring.flush()
    finish(ring)
    names = list(ring._view.catalog.segments.entries)
    thread, outcome = folding(ring, slow)
    assert ring._writer is not None
    lock = TellingLock(ring._writer.changing)
    ring._writer.changing = lock  # type: ignore[assignment]
    closing = threading.Thread(target=ring.close)
    closing.start()
    assert lock.is_awaited.wait(60)
    with pytest.raises(StoreError, match="process"):
        open_ring(path)
    slow.may_go_on.set()
    thread.join()
    closing.join()
    [error] = outcome
    assert isinstance(error, StoreError) and "is closed; open it again" in str(error)
    assert [p.name for p in (path / "seg").iterdir()] == names
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(5))
        assert ring.fold() == 1


def test_a_part_says_whether_it_is_stored(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(3)))
        ring.flush()
        ring.append(raw_batch([3]))
        with ring.snapshot() as snapshot:
            assert [(part.is_stored, part.n_rows) for part in snapshot.parts] == [(True, 3), (False, 1)]
            assert snapshot.parts[1].id == "wal-3"


def test_positions_of_many_sources_are_found_without_a_walk_over_all(path: Path) -> None:
    with open_ring(path) as ring:
        for n in range(20):
            ring.append(raw_batch([n]), positions=[replace(position(n), fingerprint=f"f{n}")])
        table = ring._view.memtable.positions
        assert ring._view.memtable.positions is table and len(table) == 20
        assert ring.position("f7") == replace(position(7), fingerprint="f7")
        ring.append(raw_batch([20]), positions=[replace(position(99), fingerprint="f7")])
        for change in (nothing, ring.flush):
            change()
            assert ring.position("f7") == replace(position(99), fingerprint="f7")
            assert ring.position("f8") == replace(position(8), fingerprint="f8")
        assert not ring._view.memtable.positions
