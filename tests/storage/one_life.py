"""A short life of a store on a disk that can fail: its steps, and what was acknowledged in them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.storage.faults import Fault, FaultyFiles
from tests.storage.records import MODEL, decode, fill, numbers_in, position, raw_batch, reject, vectors_of
from treering.storage.errors import StoreError
from treering.storage.ring import Ring

BOUNDS = (0, 4, 9, 10, 16)
"""Append i holds the numbers [BOUNDS[i], BOUNDS[i + 1])."""

APPENDS = ("append 0", "append 1", "append 2", "append 3")


@dataclass
class Life:
    """A store that is changed step by step, and what was acknowledged to its user."""

    path: Path
    files: FaultyFiles
    opened: Ring | None = None
    acknowledged: int = 0
    attempted: int = 0

    @property
    def ring(self) -> Ring:
        assert self.opened is not None
        return self.opened

    def take(self, *steps: str) -> None:
        for step in steps:
            if step == "open":
                self.open()
            elif step.startswith("append "):
                self.append(int(step.removeprefix("append ")))
            else:
                self.change(step)

    def open(self) -> None:
        self.opened = Ring.open(self.path, decoder=decode, files=self.files)

    def open_again(self) -> None:
        self.ring.close()
        self.open()

    def change(self, step: str) -> None:
        if step == "model":
            self.ring.set_model(MODEL)
        elif step == "fill":
            fill(self.ring)
        elif step == "finish":
            finish(self.ring)
        else:
            assert step in ("flush", "fold", "compact", "close")
            getattr(self.ring, step)()

    def append(self, index: int) -> None:
        start, end = BOUNDS[index : index + 2]
        # A call that failed and stopped the store may have kept its records all the same.
        if self.ring.next_seq < end:
            self.attempted = end
            raw = raw_batch(range(start, end))
            self.ring.append(raw, positions=[position(end)], rejects=[reject(index)])
        self.acknowledged = end

    def die(self) -> None:
        """End as a killed process does: its lock goes, and what it wrote stays, synced or not."""
        assert self.ring._writer is not None
        self.ring._writer.claim.release()
        self.files.is_off, self.files.fault = False, None

    def fail(self, fault: Fault) -> None:
        """Let a call fail, counted from here on."""
        self.files.fault, self.files.n_calls = fault, 0

    def left(self, root: Path, dice: random.Random | None) -> Life:
        """Give what a power loss leaves now, below a new directory, for others to open."""
        self.files.after_power_loss(root, dice)
        place = root / self.path.name
        return Life(place, FaultyFiles(root), None, self.acknowledged, self.attempted)


def begin(root: Path, *steps: str, fault: Fault | None = None) -> Life:
    """Begin a life below a new directory, which is its disk."""
    root.mkdir()
    life = Life(root / "ring", FaultyFiles(root, fault))
    life.take(*steps)
    return life


def finish(ring: Ring) -> None:
    """Add all vectors that are still to come, without a fold."""
    for segment in ring.unfinished():
        table = segment.vectors()
        ring.add_late(segment.id, vectors=vectors_of(table.key[~table.have]), signals_done=True)


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


def leftovers_in(path: Path, ring: Ring) -> set[str]:
    """Names of segment directories that the store no longer needs."""
    with ring.snapshot() as snapshot:
        named = {part.id for part in snapshot.parts}
    return {p.name for p in (path / "seg").iterdir()} - named


def check_left(left: Life) -> None:
    """Open what a power loss left and check it."""
    with Ring.open(left.path, decoder=decode, files=left.files) as ring:
        check(ring, left.acknowledged, left.attempted)


def check_grown(life: Life) -> None:
    """Check a store that lived to the end, opened anew."""
    with Ring.open(life.path, decoder=decode, files=FaultyFiles(life.path.parent)) as ring:
        check(ring, BOUNDS[-1], BOUNDS[-1])
        assert leftovers_in(life.path, ring) == set()


def retry(life: Life, step: str) -> None:
    """Take a step, and after a failure see that the store is right, then take the step again."""
    for _ in range(3):
        try:
            return life.take(step)
        except StoreError:
            if life.opened is None:
                continue
            check(life.ring, life.acknowledged, life.attempted)
            if is_stopped(life.ring):
                life.open_again()
                check(life.ring, life.acknowledged, life.attempted)
    pytest.fail(f"{step} does not succeed after one failed call")


def is_stopped(ring: Ring) -> bool:
    """Whether a store refuses to go on until it is opened again."""
    try:
        ring.flush()
    except StoreError as error:
        assert "close the store and open it again" in str(error)
        return True
    return False
