"""A fold beside appends, looks, sidecars and a close; what it finds damaged it leaves."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tests.storage.one_life import finish
from tests.storage.opened import open_ring
from tests.storage.records import raw_batch, stored_numbers, text_keys
from tests.storage.slow_files import SlowFiles, closing
from treering.storage.errors import DamageError, StoreError
from treering.storage.ring import Ring


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


def test_closing_waits_for_a_fold_and_gives_it_up(path: Path, slow: SlowFiles) -> None:
    ring = open_ring(path, files=slow)
    ring.append(raw_batch(range(5)))
    ring.flush()
    finish(ring)
    names = list(ring._view.catalog.segments.entries)
    thread, outcome = folding(ring, slow)
    closer = closing(ring)
    with pytest.raises(StoreError, match="process"):
        open_ring(path)
    slow.may_go_on.set()
    thread.join()
    closer.join()
    [error] = outcome
    assert isinstance(error, StoreError) and "is closed; open it again" in str(error)
    assert [p.name for p in (path / "seg").iterdir()] == names
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(5))
        assert ring.fold() == 1
