from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.faults import FaultyFiles
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
from treering.storage.files import OS_FILES, Files
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
        np.testing.assert_array_equal(vectors.exact, vectors_of(text_keys(["text 0", "text 2"])).exact)
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
            np.testing.assert_array_equal(part.vectors().exact, vectors_of(keys).exact)


def test_late_files_must_fit_their_segment(path: Path) -> None:
    with open_ring(path) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(7)))
        ring.flush()
        [segment] = ring.unfinished()
        with pytest.raises(ConfigError, match="signal a: 3 values, segment has 7 rows"):
            ring.add_late(segment.id, signals={"a": pa.array([1.0] * 3)})
        with pytest.raises(ConfigError, match="segment nine: the store has none such"):
            ring.add_late("nine")
        vectors = vectors_of(segment.vectors().key)
        wide = replace(vectors, exact=np.zeros((7, 16), np.float16))
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
            ring.append_columns(table, replace(vectors_of(keys), exact=np.zeros((7, 3), np.float16)))
        with pytest.raises(ModelError, match="its vectors have 8 dimensions, these 384"):
            ring.set_model(replace(MODEL, dim=384))


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
                ring.snapshot()
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
