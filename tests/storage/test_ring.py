"""A ring keeps each record once, with its position and its rejects, through every change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.faults import FaultyFiles
from tests.storage.opened import Changes, nothing, open_ring
from tests.storage.records import (
    MODEL,
    SECOND_NS,
    fill,
    numbers_in,
    position,
    raw_batch,
    reject,
    stored_numbers,
    vectors_of,
)


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


@examples(40)
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
            ring._writer.claim.release()
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
