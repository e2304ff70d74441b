"""What a snapshot holds stays, and readers follow a writer."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.storage.opened import open_ring
from tests.storage.records import MODEL, decode, fill, numbers_in, position, raw_batch, reject, stored_numbers
from treering.storage.batch import ColumnBatch, RawBatch
from treering.storage.ring import Ring


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


def test_a_part_says_whether_it_is_stored(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(3)))
        ring.flush()
        ring.append(raw_batch([3]))
        with ring.snapshot() as snapshot:
            assert [(part.is_stored, part.n_rows) for part in snapshot.parts] == [(True, 3), (False, 1)]
            assert snapshot.parts[1].id == "wal-3"
