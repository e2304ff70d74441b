"""Compaction of a store: what it joins, what it leaves and says, and that no event changes."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.flushed import decode_without_texts, flush_each, metas
from tests.storage.one_life import finish
from tests.storage.records import MODEL, decode, fill, raw_batch, stored_numbers
from tests.storage.same_trees import assert_alike
from tests.storage.slow_files import SlowFiles
from tests.storage.whole_store import flip
from treering.storage import compactor as compactor_module
from treering.storage.cut import cut_to_size
from treering.storage.eraser import Act
from treering.storage.errors import DamageError, StoreError
from treering.storage.fold import FAN_IN
from treering.storage.memory import merge
from treering.storage.part import NO_SHARD
from treering.storage.ring import Ring
from treering.storage.segment import Segment

DAY_NS = 86_400 * 10**9


def open_ring(path: Path, **options: object) -> Ring:
    ring = Ring.open(path, decoder=decode, **options)  # type: ignore[arg-type]
    ring.set_model(MODEL)
    return ring


def bytes_on_disk(path: Path) -> int:
    """Bytes of what the manifest names of segments."""
    return sum(p.stat().st_size for p in (path / "seg").rglob("*") if p.is_file() and p.suffix == ".arrow")


def test_a_compaction_leaves_one_segment_with_every_event_and_says_so(path: Path) -> None:
    with open_ring(path) as ring:
        flush_each(ring, 5, 7, 3)
        fill(ring)
        flush_each(ring, 2, 9)
        finish(ring)
        ring.append(raw_batch(range(26, 30)))
        ring.flush()
        finish(ring)
        before = metas(ring)
        report = ring.compact()
        [meta] = metas(ring)
        assert (report.segments_before, report.segments_after, report.made) == (len(before), 1, 1)
        assert (report.rows, report.waiting) == (30, 0)
        assert report.bytes_before == sum(m.n_bytes for m in before)
        assert report.bytes_after == meta.n_bytes
        assert stored_numbers(ring) == list(range(30))
        assert [p.name for p in (path / "seg").iterdir()] == [meta.id]
        assert ring.compact().made == 0
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(30))


def test_a_compaction_takes_what_only_the_log_holds(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(4)))
        report = ring.compact()
        assert (report.segments_before, report.segments_after, report.waiting) == (1, 1, 1)
        with ring.snapshot() as snapshot:
            assert [part.is_stored for part in snapshot.parts] == [True]


def test_what_waits_is_joined_among_itself_and_reported(path: Path) -> None:
    with open_ring(path) as ring:
        flush_each(ring, 5, 6)
        fill(ring)
        flush_each(ring, 3, 4)
        report = ring.compact()
        assert (report.segments_after, report.waiting) == (2, 1)
        done, waiting = metas(ring)
        assert done.is_finished and not waiting.is_finished
        assert waiting.pending > 0 or waiting.signals_pending
        assert stored_numbers(ring) == list(range(18))
        fill(ring)
        assert ring.compact().waiting == 0
        assert stored_numbers(ring) == list(range(18))


def test_segments_that_wait_for_ever_do_not_pile_up(path: Path) -> None:
    n_flushes = 40
    with open_ring(path) as ring:
        for _ in range(n_flushes):
            flush_each(ring, 3)
            ring.fold()
        assert len(metas(ring)) <= (FAN_IN - 1) * (1 + math.log(3 * n_flushes, FAN_IN))
        assert not any(meta.is_finished for meta in metas(ring))
        assert stored_numbers(ring) == list(range(3 * n_flushes))
        fill(ring)
        assert all(meta.is_finished for meta in metas(ring))
        assert all(piece.shard != NO_SHARD for meta in metas(ring) for piece in meta.slices)
        assert stored_numbers(ring) == list(range(3 * n_flushes))


def test_signals_that_came_before_their_segments_were_joined_stay(path: Path) -> None:
    with open_ring(path) as ring:
        flush_each(ring, 2, 2, 2, 2)
        for segment in ring.unfinished()[:2]:
            ring.add_late(segment.id, signals={"surprise": pa.array([0.5, 1.5])})
        assert ring.fold() == 1
        with ring.snapshot() as snapshot:
            [part] = snapshot.parts
            found = dict(zip(part.seq.tolist(), part.column("surprise").to_pylist(), strict=True))
        assert found == {0: 0.5, 1: 1.5, 2: 0.5, 3: 1.5} | dict.fromkeys(range(4, 8))


def test_a_tree_that_was_taken_over_says_what_the_rows_say(path: Path) -> None:
    with open_ring(path) as ring:
        for round_ in range(3):
            flush_each(ring, 700, 900, 40, step_ns=2**22)
            fill(ring)
            if round_:
                ring.append(raw_batch(range(ring.next_seq, ring.next_seq + 300), step_ns=2**21))
                ring.flush()
                fill(ring)
        ring.compact()
        with ring.snapshot() as snapshot:
            [part] = snapshot.parts
            assert len(part.tree.count) > 3 and "surprise" in part.tree.signals
            rebuilt = merge([part], "rebuilt", qls_scale=MODEL.qls_scale)
            assert_alike(part.tree, rebuilt.tree)
            assert not np.isnan(part.tree.signature[0]).any()


def test_late_data_and_strays_of_other_ages_get_segments_of_their_own(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(5), step_ns=1))
        ring.append(raw_batch(range(5, 8), step_ns=10_000 * DAY_NS))
        ring.flush()
        fill(ring)
        ring.compact()
        assert [meta.n_rows for meta in metas(ring)] == [5, 1, 1, 1]
        assert [meta.level for meta in metas(ring)] == [0, 0, 0, 0]
        assert stored_numbers(ring) == list(range(8))


def test_segments_that_disagree_about_a_type_are_joined_apart(path: Path) -> None:
    with Ring.open(path, decoder=decode_without_texts) as ring:
        for k in range(2 * FAN_IN):
            ring.append(raw_batch([2 * k, 2 * k + 1], name="texts" if k % 2 else "floats"))
            ring.flush()
        assert len(metas(ring)) == 2 * FAN_IN
        ring.fold()
        assert [meta.n_rows for meta in metas(ring)] == [2 * FAN_IN, 2 * FAN_IN]
        assert stored_numbers(ring) == list(range(4 * FAN_IN))
        with ring.snapshot() as snapshot:
            kinds = {
                part.column("score").type: set(part.column("score").to_pylist()) for part in snapshot.parts
            }
        assert kinds == {pa.string(): {"a"}, pa.float64(): {1.0}}
        assert ring.compact().made == 0


def test_a_damaged_segment_is_set_aside_and_all_others_are_joined(path: Path) -> None:
    with open_ring(path) as ring:
        flush_each(ring, 5, 5, 5, 5, 5)
        finish(ring)
        damaged = metas(ring)[2]
    flip(path / "seg" / damaged.id / "hot.arrow")
    with open_ring(path) as ring:
        with pytest.raises(DamageError, match=damaged.id):
            ring.compact()
        assert sorted(meta.n_rows for meta in metas(ring)) == [5, 20]
        assert damaged in metas(ring)


def test_segments_too_large_to_be_in_memory_together_stay_apart(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_ring(path) as ring:
        flush_each(ring, *[40] * (2 * FAN_IN))
        one = max(segment.unpacked_bytes() for segment in ring.unfinished())
        monkeypatch.setattr(compactor_module, "MERGE_BYTES", 3 * one)
        ring.fold()
        assert [meta.n_rows for meta in metas(ring)] == [120, 120, 80]
        read = list[str]()
        verify = Segment.verify

        def verify_and_tell(segment: Segment) -> None:
            read.append(segment.id)
            verify(segment)

        monkeypatch.setattr(Segment, "verify", verify_and_tell)
        monkeypatch.setattr(compactor_module, "MERGE_BYTES", 0)
        for _ in range(3):
            assert ring.compact().made == 0
        assert len(read) == len(set(read)) == 3
        monkeypatch.undo()
        assert ring.compact().made == 1
        assert stored_numbers(ring) == list(range(40 * 2 * FAN_IN))


def test_nothing_is_kept_of_segments_that_went_another_way(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer for years drops as many as its retention takes."""
    monkeypatch.setattr(compactor_module, "MERGE_BYTES", 0)
    with open_ring(path) as ring:
        for _ in range(3):
            flush_each(ring, *[40] * FAN_IN)
            assert ring.compact().made == 0
            ring.erase(lambda state: cut_to_size(state, 0), Act("expire", {}))
        ring.compact()
        assert ring._compaction is not None
        kept = [value for value in vars(ring._compaction._compactor).values() if isinstance(value, dict)]
        assert kept == [{}]


def test_what_somebody_completes_is_not_joined_under_his_hands(path: Path) -> None:
    with open_ring(path) as ring:
        flush_each(ring, 2, 2, 2, 2)
        waiting = [meta.id for meta in metas(ring)]
        with ring.filling(), ring.filling():
            assert ring.fold() == 0 and ring.compact().made == 0
            finish(ring)
            assert [meta.id for meta in metas(ring)] == waiting
            assert ring.fold() == 1
        flush_each(ring, 2, 2, 2, 2)
        assert ring.fold() == 1


def test_a_join_of_what_waits_is_given_up_when_somebody_begins_to_complete_it(
    path: Path, slow: SlowFiles
) -> None:
    with open_ring(path, files=slow) as ring:
        flush_each(ring, 2, 2, 2, 2)
        waiting, made = [meta.id for meta in metas(ring)], list[int]()
        slow.is_slow = True
        thread = threading.Thread(target=lambda: made.append(ring.fold()))
        thread.start()
        assert slow.began.wait(60)
        with ring.filling():
            slow.is_slow = False
            slow.may_go_on.set()
            thread.join()
            assert made == [0]
            assert [meta.id for meta in metas(ring)] == waiting
            assert sorted(p.name for p in (path / "seg").iterdir()) == sorted(waiting)


def test_stats_count_every_byte_by_what_wrote_it(path: Path) -> None:
    with open_ring(path) as ring:
        assert ring.amplification.factor is None
        ring.append(raw_batch(range(50)))
        open_log = sum(p.stat().st_size for p in (path / "wal").iterdir())
        assert ring.amplification.log == ring.amplification.total == open_log
        assert ring.amplification.factor == 1
        ring.flush()
        flushed = bytes_on_disk(path)
        finish(ring)
        late = bytes_on_disk(path) - flushed
        ring.fold()
        amplification = ring.amplification
        by = {"log": open_log, "flush": flushed, "late": late, "compact": bytes_on_disk(path)}
        assert {name: amplification.by[name] for name in by} == by
        assert amplification.total == sum(by.values())
        assert amplification.factor == sum(by.values()) / open_log
        assert (amplification.tiers, amplification.n_pending) == ({2: 1}, 0)
        flush_each(ring, 3)
        assert (ring.amplification.tiers, ring.amplification.n_pending) == ({0: 1, 2: 1}, 1)
    with Ring.open(path, "r", decoder=decode) as reader:
        assert reader.amplification.by["compact"] == by["compact"]
        with pytest.raises(StoreError, match="open to read"):
            reader.compact()


def test_a_reader_beside_a_compaction_keeps_what_it_looks_at(path: Path) -> None:
    with open_ring(path) as ring, Ring.open(path, "r", decoder=decode) as reader:
        flush_each(ring, 5, 5, 5)
        fill(ring)
        flush_each(ring, 5)
        with reader.snapshot() as snapshot:
            ring.compact()
            assert sorted(n for part in snapshot.parts for n in part.column("n#i").to_pylist()) == list(
                range(20)
            )
        assert stored_numbers(reader) == list(range(20))
