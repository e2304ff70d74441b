"""Each file operation in a store's life fails, tears or is the last before a power loss: nothing is lost."""

from __future__ import annotations

import errno
import itertools
import random
from pathlib import Path

import pytest

from tests.storage.faults import Fault, FaultyFiles, Moment, PowerLoss, error_of, losing_power, watched
from tests.storage.one_life import (
    APPENDS,
    BOUNDS,
    Life,
    begin,
    check,
    check_grown,
    check_left,
    is_stopped,
    leftovers_in,
    retry,
)
from tests.storage.records import decode, numbers_in, raw_batch, reject
from treering.storage.errors import StoreError
from treering.storage.ring import Ring

LIFE = ("open", "model", "append 0", "flush", "append 1", "append 2", "flush", "fill", "append 3", "close")


def go_on(left: Life, *steps: str) -> None:
    """Open what is left, check it, and live on with it to the end."""
    left.take("open")
    check(left.ring, left.acknowledged, left.attempted)
    left.take("model", *APPENDS, *steps)
    check(left.ring, BOUNDS[-1], BOUNDS[-1])
    left.take("close")
    with Ring.open(left.path, "r", decoder=decode) as reader:
        check(reader, BOUNDS[-1], BOUNDS[-1])
        assert leftovers_in(left.path, reader) == set()


def test_a_power_loss_before_any_change_loses_nothing_acknowledged(tmp_path: Path) -> None:
    life = begin(tmp_path / "live")
    places = itertools.count()

    def look(root: Path) -> None:
        # What a fold makes of such a store is tried now and then: test_compaction_faults.py tries it each time.
        steps = ("flush", "fill") if next(places) % 4 == 0 else ("flush",)
        left = Life(root / "ring", FaultyFiles(root), None, life.acknowledged, life.attempted)
        go_on(left, *steps)

    def acknowledged() -> tuple[int, int]:
        return life.acknowledged, life.attempted

    with losing_power(life.files, tmp_path, look, expected=acknowledged) as moments:
        life.take(*LIFE)
    assert len(moments) > 100


def test_a_power_loss_in_the_middle_of_any_write_loses_nothing_acknowledged(tmp_path: Path) -> None:
    life = begin(tmp_path / "live")

    def look(moment: Moment) -> None:
        for dice in range(3) if moment.is_torn else ():
            check_left(life.left(tmp_path / f"torn-{moment.number}-{dice}", random.Random(dice)))

    with watched(life.files, look) as moments:
        life.take(*LIFE)
    assert sum(moment.is_torn for moment in moments) > 20


def test_a_failed_call_changes_nothing_or_stops_the_store(tmp_path: Path) -> None:
    calls = begin(tmp_path / "count", *LIFE).files.calls
    for at, call in enumerate(calls):
        life = begin(tmp_path / f"live-{at}", fault=Fault(at, error_of(call), is_torn=True))
        for step in LIFE:
            retry(life, step)
            if life.files.n_calls > at and step != "close":
                life.take(*APPENDS, "flush", "close")
                break
        check_grown(life)


def test_an_interrupt_at_any_call_leaves_a_store_that_is_right_or_stopped(tmp_path: Path) -> None:
    at, was_interrupted = 0, True
    while was_interrupted:
        life = begin(tmp_path / str(at), "open", "append 0")
        life.fail(Fault(at, is_torn=True, is_interrupt=True))
        was_interrupted = False
        for step in ("append 1", "flush", "append 2"):
            try:
                life.take(step)
            except KeyboardInterrupt:
                was_interrupted = True
                check(life.ring, life.acknowledged, life.attempted)
                if is_stopped(life.ring):
                    life.open_again()
                life.take(step)
        life.files.fault = None
        check(life.ring, BOUNDS[3], BOUNDS[3])
        life.open_again()
        check(life.ring, BOUNDS[3], BOUNDS[3])
        life.take("close")
        at += 1
    assert at > 50


def test_a_full_disk_keeps_the_store_readable_and_takes_appends_again_once_there_is_room(
    tmp_path: Path,
) -> None:
    life = begin(tmp_path / "live", "open", "append 0")
    full = Fault(0, errno.ENOSPC, is_torn=True, among=("write",))
    for _ in range(3):
        life.fail(full)
        with pytest.raises(StoreError, match=r"append failed.*nothing was changed"):
            life.take("append 1")
        assert check(life.ring, 4, 4 + 5) == 4
        life.fail(full)
        with pytest.raises(
            StoreError, match=r"flush failed.*events up to number 3 are acknowledged.*only the flush"
        ):
            life.take("flush")
    life.files.fault = None
    life.take("append 1", "flush")
    assert check(life.ring, 9, 9) == 9


@pytest.mark.parametrize("step", ["append 1", "flush"])
def test_a_failed_fsync_stops_the_store_until_it_is_opened_again(tmp_path: Path, step: str) -> None:
    life = begin(tmp_path / "live", "open", "append 0")
    life.fail(Fault(0, errno.EIO, among=("sync",)))
    with pytest.raises(StoreError, match="close the store and open it again"):
        life.take(step)
    for again in ("append 1", "flush", "fold"):
        with pytest.raises(StoreError, match="stopped after"):
            life.take(again)
    check(life.ring, 4, 4)
    life.take("close")
    go_on(Life(life.path, life.files, None, 4, 9), "flush", "fill")


# -- what an opening finds -------------------------------------------------------------------------------------------


def test_what_an_opening_finds_in_the_log_is_durable_from_then_on(tmp_path: Path) -> None:
    """Also a frame whose writer died before its fsync: a source may go on from the position in it."""
    life = begin(tmp_path / "live", "open", "append 0")
    life.fail(Fault(0, errno.EIO, among=("sync",)))
    with pytest.raises(StoreError, match="append failed"):
        life.take("append 1")
    life.open_again()
    assert check(life.ring, 4, 9) == 9
    life.take("close")
    life.acknowledged = 9
    check_left(life.left(tmp_path / "left", None))


def test_a_version_that_an_opening_finds_is_durable_from_then_on(tmp_path: Path) -> None:
    """Also one whose writer died between the link and the fsync of its directory."""
    life = died_behind_a_new_name(tmp_path / "live", "_manifest/*.json", *LIFE[:5])
    life.take("open")
    assert check(life.ring, 9, 9) == 9
    with life.ring.snapshot() as snapshot:
        seen = snapshot.version
    left = life.left(tmp_path / "left", None)
    with Ring.open(left.path, "r", decoder=decode) as reader, reader.snapshot() as snapshot:
        assert snapshot.version == seen


def test_a_log_file_that_an_opening_finds_is_durable_from_then_on(tmp_path: Path) -> None:
    """Also one whose writer died between making it and the fsync of its directory."""
    life = died_behind_a_new_name(tmp_path / "live", "wal/*.wal", *LIFE[:3])
    life.take("open", "append 1")
    check_left(life.left(tmp_path / "left", None))


def died_behind_a_new_name(place: Path, pattern: str, *steps: str) -> Life:
    """Give a life that ended in a flush, with a new file of a pattern whose directory was not synced yet."""
    place.mkdir()
    for at in itertools.count():
        life = begin(place / str(at), *steps)
        before = set(life.path.glob(pattern))
        life.fail(Fault(at, among=("fsync_dir",)))
        with pytest.raises(PowerLoss):
            life.take("flush")
        fresh = set(life.path.glob(pattern)) - before
        if fresh and not any(life.files.is_durable(path) for path in fresh):
            break
    life.die()
    return life


# -- what somebody looked at before ------------------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [{0, 1, 2, 3, 4, 5}, {1, 3, 5}, {1, 4}, {0, 2, 5}])
def test_a_flush_that_fails_at_any_call_hides_no_event_from_the_looks_that_follow(
    tmp_path: Path, looks: set[int]
) -> None:
    """Rejects without events stand between tables; looks: the steps after which somebody looks."""
    at, has_failed = 0, True
    while has_failed:
        root = tmp_path / str(at)
        root.mkdir()
        files = FaultyFiles(root)
        ring = Ring.open(root / "ring", decoder=decode, files=files)
        steps = ("table 20", "rejects", "rejects", "table 22", "rejects", "records 23")
        for place, step in enumerate(steps):
            add(ring, step)
            if place in looks:
                look(ring, ring.next_seq)
        files.fault, files.n_calls, has_failed = Fault(at, errno.ENOSPC, is_torn=True), 0, False
        try:
            ring.flush()
        except StoreError:
            has_failed = True
        files.fault = None
        look(ring, 23, 3)
        try:
            add(ring, "table 25")
        except StoreError:
            ring.close()
            ring = Ring.open(root / "ring", decoder=decode, files=files)
            look(ring, 23, 3)
            add(ring, "table 25")
        for step in ("records 28", "rejects", "table 29"):
            look(ring, ring.next_seq)
            add(ring, step)
        ring.flush()
        look(ring, 29, 4)
        ring.close()
        at += 1
    assert at > 30


def add(ring: Ring, step: str) -> None:
    """Append the numbers up to that of the step, or the next reject."""
    kind, _, end = step.partition(" ")
    if kind == "rejects":
        ring.append(raw_batch([]), rejects=[reject(len(list(ring.rejects())))])
        return
    raw = raw_batch(range(ring.next_seq, int(end)))
    if kind == "table":
        ring.append_columns(decode(raw, 0))
    else:
        ring.append(raw)


def look(ring: Ring, n_rows: int, n_rejects: int | None = None) -> None:
    with ring.snapshot() as snapshot:
        assert numbers_in(snapshot) == list(range(n_rows))
        assert n_rejects is None or snapshot.n_rejected == n_rejects
    if n_rejects is not None:
        assert list(ring.rejects()) == [reject(i) for i in range(n_rejects)]
