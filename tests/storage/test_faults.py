"""Each file operation in a store's life fails, tears or is the last before a power loss: nothing is lost."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.storage.faults import CHANGES, Fault, FaultyFiles, PowerLoss
from tests.storage.records import MODEL, decode, fill, numbers_in, position, raw_batch, reject
from treering.storage.errors import StoreError
from treering.storage.files import Files
from treering.storage.ring import Ring

BOUNDS = (0, 4, 9, 10, 16)
"""Append i holds the numbers [BOUNDS[i], BOUNDS[i + 1])."""

LIFE = ("open", "model", "append 0", "flush", "append 1", "append 2", "flush", "fill", "append 3", "close")


@dataclass
class Life:
    """A store that lives through `LIFE`, and what was acknowledged to its user."""

    path: Path
    files: Files
    ring: Ring | None = None
    acknowledged: int = 0
    attempted: int = 0
    done: list[str] = field(default_factory=list)

    def step(self, name: str) -> None:
        if name == "open":
            self.open()
        elif name == "close":
            assert self.ring is not None
            self.ring.close()
        else:
            self.change(name)

    def open(self) -> None:
        self.ring = Ring.open(self.path, decoder=decode, files=self.files)

    def change(self, name: str) -> None:
        assert self.ring is not None
        if name == "model":
            self.ring.set_model(MODEL)
        elif name == "flush":
            self.ring.flush()
        elif name == "fill":
            fill(self.ring)
        else:
            self.append(int(name.removeprefix("append ")))

    def append(self, index: int) -> None:
        assert self.ring is not None
        start, end = BOUNDS[index : index + 2]
        # A call that failed and stopped the store may have kept its records all the same.
        if self.ring.next_seq < end:
            self.attempted = end
            raw = raw_batch(range(start, end))
            self.ring.append(raw, positions=[position(end)], rejects=[reject(index)])
        self.acknowledged = end


def run(life: Life) -> None:
    for name in LIFE:
        life.step(name)


def check(ring: Ring, acknowledged: int, attempted: int) -> int:
    """Check that a store holds all acknowledged appends exactly once, and whole ones only; give its size."""
    with ring.snapshot() as snapshot:
        numbers = numbers_in(snapshot)
        assert numbers == list(range(len(numbers)))
        assert acknowledged <= len(numbers) <= attempted
        assert len(numbers) in BOUNDS
        n_appends = BOUNDS.index(len(numbers))
        assert snapshot.n_rejected == n_appends
    assert list(ring.rejects()) == [reject(i) for i in range(n_appends)]
    assert ring.position("source") == (position(len(numbers)) if numbers else None)
    assert ring.next_seq == len(numbers)
    return len(numbers)


def calls_of_a_life(root: Path, among: tuple[str, ...]) -> list[str]:
    root.mkdir()
    files = FaultyFiles(root)
    run(Life(root / "ring", files))
    return [call for call in files.calls if not among or call in among]


def go_on(root: Path, acknowledged: int, attempted: int) -> None:
    """Open what is left, check it, and live on with it to the end."""
    files = FaultyFiles(root)
    path = root / "ring"
    with Ring.open(path, decoder=decode, files=files) as ring:
        check(ring, acknowledged, attempted)
        life = Life(path, files, ring, acknowledged, attempted)
        for name in ("model", "append 0", "append 1", "append 2", "append 3", "flush", "fill"):
            life.change(name)
        check(ring, BOUNDS[-1], BOUNDS[-1])
        assert not ring.unfinished()
    with Ring.open(path, "r", decoder=decode) as reader:
        check(reader, BOUNDS[-1], BOUNDS[-1])
        assert leftovers_in(path, reader) == set()


def leftovers_in(path: Path, ring: Ring) -> set[str]:
    """Names of segment directories and log files that the store no longer needs."""
    with ring.snapshot() as snapshot:
        named = {part.id for part in snapshot.parts}
    return {p.name for p in (path / "seg").iterdir()} - named


def cut_power(root: Path, at: int, *, is_torn: bool) -> Life:
    """Live until the power goes before change `at`."""
    root.mkdir()
    life = Life(root / "ring", FaultyFiles(root, Fault(at, is_torn=is_torn, among=CHANGES)))
    with suppress(PowerLoss):
        run(life)
    assert isinstance(life.files, FaultyFiles)
    assert life.files.is_off
    return life


def test_a_power_loss_before_any_change_loses_nothing_acknowledged(tmp_path: Path) -> None:
    calls = calls_of_a_life(tmp_path / "count", CHANGES)
    assert len(calls) > 100
    for at in range(len(calls)):
        life = cut_power(tmp_path / f"live-{at}", at, is_torn=False)
        check_what_is_left(life, tmp_path / f"synced-{at}", None)
        go_on(lay_out(life, tmp_path / f"partly-{at}", random.Random(at)), life.acknowledged, life.attempted)


def test_a_power_loss_in_the_middle_of_any_write_loses_nothing_acknowledged(tmp_path: Path) -> None:
    calls = calls_of_a_life(tmp_path / "count", CHANGES)
    for at in [at for at, call in enumerate(calls) if call == "write"]:
        life = cut_power(tmp_path / f"live-{at}", at, is_torn=True)
        for dice in range(3):
            check_what_is_left(life, tmp_path / f"torn-{at}-{dice}", random.Random(dice))


def check_what_is_left(life: Life, root: Path, dice: random.Random | None) -> None:
    path = lay_out(life, root, dice) / "ring"
    with Ring.open(path, decoder=decode, files=FaultyFiles(root)) as ring:
        check(ring, life.acknowledged, life.attempted)


def lay_out(life: Life, root: Path, dice: random.Random | None) -> Path:
    assert isinstance(life.files, FaultyFiles)
    root.mkdir()
    return life.files.after_power_loss(root, dice)


def test_a_failed_call_changes_nothing_or_stops_the_store(tmp_path: Path) -> None:
    for at, call in enumerate(calls_of_a_life(tmp_path / "count", ())):
        live = tmp_path / f"live-{at}"
        live.mkdir()
        error = errno.ENOSPC if call in ("create", "write", "link", "mkdir") else errno.EIO
        life = Life(live / "ring", FaultyFiles(live, Fault(at, error, is_torn=True)))
        for name in LIFE:
            retry(life, name)
        with Ring.open(life.path, decoder=decode, files=FaultyFiles(live)) as ring:
            check(ring, BOUNDS[-1], BOUNDS[-1])
            assert leftovers_in(life.path, ring) == set()


def retry(life: Life, name: str) -> None:
    """Take a step, and after a failure see that the store is right, then take the step again."""
    for _ in range(3):
        try:
            return life.step(name)
        except StoreError:
            if life.ring is None:
                continue
            check(life.ring, life.acknowledged, life.attempted)
            if is_stopped(life.ring):
                life.ring.close()
                life.open()
                check(life.ring, life.acknowledged, life.attempted)
    pytest.fail(f"{name} does not succeed after one failed call")


def is_stopped(ring: Ring) -> bool:
    try:
        ring.flush()
    except StoreError as error:
        assert "close the store and open it again" in str(error)
        return True
    return False


def test_an_interrupt_at_any_call_leaves_a_store_that_is_right_or_stopped(tmp_path: Path) -> None:
    changes = ("append 1", "flush", "append 2")
    at, was_interrupted = 0, True
    while was_interrupted:
        root = tmp_path / str(at)
        root.mkdir()
        files = FaultyFiles(root)
        life = Life(root / "ring", files)
        life.step("open")
        life.step("append 0")
        assert life.ring is not None
        files.fault, files.n_calls = Fault(at, is_torn=True, is_interrupt=True), 0
        was_interrupted = False
        for name in changes:
            try:
                life.step(name)
            except KeyboardInterrupt:
                was_interrupted = True
                check(life.ring, life.acknowledged, life.attempted)
                if is_stopped(life.ring):
                    life.ring.close()
                    life.open()
                life.step(name)
        files.fault = None
        check(life.ring, BOUNDS[3], BOUNDS[3])
        life.ring.close()
        with Ring.open(life.path, decoder=decode, files=files) as ring:
            check(ring, BOUNDS[3], BOUNDS[3])
        at += 1
    assert at > 50


def test_a_full_disk_keeps_the_store_readable_and_takes_appends_again_once_there_is_room(
    tmp_path: Path,
) -> None:
    files = FaultyFiles(tmp_path)
    life = Life(tmp_path / "ring", files)
    life.step("open")
    life.step("append 0")
    assert life.ring is not None
    for _ in range(3):
        files.fault, files.n_calls = Fault(0, errno.ENOSPC, is_torn=True, among=("write",)), 0
        with pytest.raises(StoreError, match=r"append failed.*nothing was changed"):
            life.step("append 1")
        assert check(life.ring, 4, 4 + 5) == 4
        files.fault, files.n_calls = Fault(0, errno.ENOSPC, is_torn=True, among=("write",)), 0
        with pytest.raises(StoreError, match=r"flush failed.*nothing was changed"):
            life.ring.flush()
    files.fault = None
    life.step("append 1")
    life.ring.flush()
    assert check(life.ring, 9, 9) == 9


@pytest.mark.parametrize("step", ["append 1", "flush"])
def test_a_failed_fsync_stops_the_store_until_it_is_opened_again(tmp_path: Path, step: str) -> None:
    files = FaultyFiles(tmp_path)
    life = Life(tmp_path / "ring", files)
    life.step("open")
    life.step("append 0")
    assert life.ring is not None
    files.fault, files.n_calls = Fault(0, errno.EIO, among=("sync",)), 0
    with pytest.raises(StoreError, match="close the store and open it again"):
        life.step(step)
    for again in (lambda: life.step("append 1"), life.ring.flush, life.ring.fold):
        with pytest.raises(StoreError, match="stopped after"):
            again()
    check(life.ring, 4, 4)
    life.ring.close()
    go_on(tmp_path, 4, 9)


def test_what_an_opening_finds_in_the_log_is_durable_from_then_on(tmp_path: Path) -> None:
    """Also a frame whose writer died before its fsync: a source may go on from the position in it."""
    live, left = tmp_path / "live", tmp_path / "left"
    live.mkdir()
    files = FaultyFiles(live)
    life = Life(live / "ring", files)
    life.step("open")
    life.step("append 0")
    assert life.ring is not None
    files.fault, files.n_calls = Fault(0, errno.EIO, among=("sync",)), 0
    with pytest.raises(StoreError, match="append failed"):
        life.step("append 1")
    life.ring.close()
    with Ring.open(life.path, decoder=decode, files=files) as ring:
        seen = check(ring, 4, 9)
    assert seen == 9
    check_what_is_left(Life(life.path, files, acknowledged=seen, attempted=seen), left, None)


def test_a_version_that_an_opening_finds_is_durable_from_then_on(tmp_path: Path) -> None:
    """Also one whose writer died between the link and the fsync of its directory."""
    live, left = tmp_path / "live", tmp_path / "left"
    live.mkdir()
    files = FaultyFiles(live)
    life = Life(live / "ring", files)
    for name in ("open", "append 0", "flush", "append 1"):
        life.step(name)
    assert life.ring is not None
    links = calls_until(files, life, "flush", "link")
    assert links == 1
    with Ring.open(life.path, decoder=decode, files=files) as ring:
        assert check(ring, 9, 9) == 9
        with ring.snapshot() as snapshot:
            seen = snapshot.version
    path = lay_out(Life(life.path, files, acknowledged=9, attempted=9), left, None) / "ring"
    with Ring.open(path, "r", decoder=decode) as reader, reader.snapshot() as snapshot:
        assert snapshot.version == seen


def test_a_log_file_that_an_opening_finds_is_durable_from_then_on(tmp_path: Path) -> None:
    """Also one whose writer died between making it and the fsync of its directory."""
    live, left = tmp_path / "live", tmp_path / "left"
    live.mkdir()
    files = FaultyFiles(live)
    life = Life(live / "ring", files)
    for name in ("open", "append 0"):
        life.step(name)
    assert life.ring is not None
    n_before = len(list((life.path / "wal").iterdir()))
    at = 0
    while len(list((life.path / "wal").iterdir())) == n_before:
        files.fault, files.n_calls = Fault(at, errno.EIO, among=("fsync_dir",)), 0
        with suppress(StoreError):
            life.step("flush")
        files.fault, at = None, at + 1
        life.ring.close()
        if len(list((life.path / "wal").iterdir())) == n_before:
            life.open()
    life.open()
    life.step("append 1")
    check_what_is_left(Life(life.path, files, acknowledged=9, attempted=9), left, None)


def calls_until(files: FaultyFiles, life: Life, step: str, call: str) -> int:
    """Take a step in which the first fsync of a directory after `call` fails, and give how often it was made."""
    start = len(files.calls)
    at = 0
    while call not in files.calls[start:]:
        files.fault, files.n_calls = Fault(at, errno.EIO, among=("fsync_dir",)), 0
        with suppress(StoreError):
            life.step(step)
        if call not in files.calls[start:]:
            assert life.ring is not None
            life.ring.close()
            files.fault = None
            life.open()
            start, at = len(files.calls), at + 1
    files.fault = None
    assert life.ring is not None
    life.ring.close()
    return files.calls[start:].count(call)


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
