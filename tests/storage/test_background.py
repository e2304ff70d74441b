"""The thread that compacts beside a writer: when it begins, that it ends, and what it does about failures."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from tests.storage.flushed import decode_without_texts, flush_each, metas
from tests.storage.records import MODEL, decode, raw_batch, stored_numbers
from tests.storage.slow_files import SlowFiles, closing
from tests.storage.whole_store import flip
from treering.storage.errors import DamageError, StoreError
from treering.storage.files import Handle, OsFiles
from treering.storage.fold import FAN_IN
from treering.storage.ring import Ring

NAME = "treering-compaction"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def open_ring(path: Path, **options: object) -> Ring:
    ring = Ring.open(path, decoder=decode, compacts=True, **options)  # type: ignore[arg-type]
    ring.set_model(MODEL)
    return ring


def begin_to_compact(ring: Ring, slow: SlowFiles) -> None:
    """Make as many segments as a fold takes; gives control back when the thread makes its first file."""
    flush_each(ring, 3, 3, 3)
    ring.append(raw_batch(range(9, 12)))
    with ring._mutex:
        # The thread cannot plan before this is over.
        ring.flush()
        slow.is_slow = True
    assert slow.began.wait(60)
    slow.is_slow = False


class Failing(OsFiles):
    """Files of which the thread that compacts cannot make any, as long as `is_full`."""

    def __init__(self) -> None:
        self.is_full = False

    def create(self, path: Path) -> Handle:
        if self.is_full and threading.current_thread().name == NAME:
            raise OSError(errno.ENOSPC, "made to fail")
        return super().create(path)


def test_no_thread_begins_before_a_fold_is_due_and_none_stays_when_nothing_is(path: Path) -> None:
    with open_ring(path) as ring:
        for _ in range(FAN_IN - 1):
            flush_each(ring, 3)
            assert not threads()
        flush_each(ring, 3)
        ring.settle()
        assert not threads()
        assert [meta.n_rows for meta in metas(ring)] == [3 * FAN_IN]
        assert ring.compaction_error is None
        assert stored_numbers(ring) == list(range(3 * FAN_IN))


def test_a_ring_that_was_not_asked_to_compact_does_not(path: Path) -> None:
    with Ring.open(path, decoder=decode) as ring:
        flush_each(ring, *[3] * (2 * FAN_IN))
        assert not threads()
        assert len(metas(ring)) == 2 * FAN_IN


def test_a_flush_by_a_full_log_wakes_it_too(path: Path) -> None:
    with Ring.open(path, decoder=decode_without_texts, compacts=True, flush_bytes=1) as ring:
        for n in range(9):
            ring.append(raw_batch([n]))
        ring.settle()
        # Fewer than FAN_IN of under 4 rows, and what is left makes one or two of 4 and more.
        assert len(metas(ring)) <= FAN_IN
        assert stored_numbers(ring) == list(range(9))


def test_what_was_left_due_is_begun_at_the_next_opening(path: Path) -> None:
    with Ring.open(path, decoder=decode) as ring:
        flush_each(ring, *[3] * FAN_IN)
    with open_ring(path) as ring:
        ring.settle()
        assert [meta.n_rows for meta in metas(ring)] == [3 * FAN_IN]


def test_settling_writes_what_only_the_log_holds(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(5)))
        ring.settle()
        assert [meta.n_rows for meta in metas(ring)] == [5]


def test_appends_and_looks_go_on_while_it_works(path: Path, slow: SlowFiles) -> None:
    with open_ring(path, files=slow) as ring:
        begin_to_compact(ring, slow)
        ring.append(raw_batch(range(12, 15)))
        assert stored_numbers(ring) == list(range(15))
        ring.flush()
        slow.may_go_on.set()
        ring.settle()
        assert [meta.n_rows for meta in metas(ring)] == [12, 3]
        assert stored_numbers(ring) == list(range(15))


def test_closing_gives_up_the_fold_that_runs(path: Path, slow: SlowFiles) -> None:
    ring = open_ring(path, files=slow)
    begin_to_compact(ring, slow)
    names = [meta.id for meta in metas(ring)]
    closer = closing(ring)
    slow.may_go_on.set()
    closer.join(60)
    assert not closer.is_alive() and not threads()
    assert ring.compaction_error is None
    assert sorted(p.name for p in (path / "seg").iterdir()) == sorted(names)
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(12))


def test_a_failure_is_kept_and_tried_again_until_it_goes_well(path: Path) -> None:
    files = Failing()
    with open_ring(path, files=files) as ring:
        files.is_full = True
        flush_each(ring, *[3] * FAN_IN)
        ring.settle()
        error = ring.compaction_error
        assert isinstance(error, StoreError) and "fold failed: made to fail" in str(error)
        assert "nothing was changed" in str(error)
        assert len(metas(ring)) == FAN_IN
        assert stored_numbers(ring) == list(range(3 * FAN_IN))
        files.is_full = False
        flush_each(ring, 3)
        ring.settle()
        assert ring.compaction_error is None
        assert [meta.n_rows for meta in metas(ring)] == [3 * FAN_IN + 3]


@pytest.mark.parametrize("call", ["fold", "compact"])
def test_a_call_of_ones_own_tries_what_failed_and_forgets_it(path: Path, call: str) -> None:
    files = Failing()
    with open_ring(path, files=files) as ring:
        files.is_full = True
        flush_each(ring, *[3] * FAN_IN)
        ring.settle()
        assert ring.compaction_error is not None
        getattr(ring, call)()
        assert ring.compaction_error is None
        assert [meta.n_rows for meta in metas(ring)] == [3 * FAN_IN]


def test_a_damaged_segment_is_named_and_stops_no_other(path: Path) -> None:
    with Ring.open(path, decoder=decode) as ring:
        flush_each(ring, *[3] * (2 * FAN_IN))
        damaged = metas(ring)[1]
    flip(path / "seg" / damaged.id / "hot.arrow")
    with open_ring(path) as ring:
        ring.settle()
        for n_rows in (3, 4):
            flush_each(ring, n_rows)
            ring.settle()
            assert isinstance(ring.compaction_error, DamageError)
            assert damaged.id in str(ring.compaction_error)
        sizes = sorted(meta.n_rows for meta in metas(ring))
        assert sizes == [3, 3, 4, 3 * (2 * FAN_IN - 1)]
        for again in (ring.fold, ring.compact, ring.fold):
            with pytest.raises(DamageError, match=damaged.id):
                again()
        assert isinstance(ring.compaction_error, DamageError)
        assert damaged in metas(ring)


def test_a_thread_that_cannot_begin_fails_no_append_and_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once an interpreter shuts down, no thread begins any more; what is appended then is kept all the same."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with open_ring(path) as ring:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            flush_each(ring, *[1] * FAN_IN)
            ring.settle()
        assert str(ring.compaction_error) == "can't start new thread"
        assert len(metas(ring)) == FAN_IN
        flush_each(ring, 1)
        ring.settle()
        assert ring.compaction_error is None
        assert len(metas(ring)) < FAN_IN
        assert stored_numbers(ring) == list(range(FAN_IN + 1))
