"""Each file operation of folds and compactions fails or is the last before a power loss: nothing is lost."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.faults import CHANGES, Fault, FaultyFiles, PowerLoss
from tests.storage.records import decode, fill, vectors_of
from tests.storage.test_faults import BOUNDS, Life, check, leftovers_in, retry
from treering.storage.errors import StoreError
from treering.storage.ring import Ring

LIFE = (
    *("open", "model", "append 0", "flush", "append 1", "flush", "finish", "fold"),
    *("append 2", "flush", "append 3", "compact", "close"),
)
"""Two finished segments become one by a fold, two that wait become one by a compaction."""


class LongLife(Life):
    """A store that is compacted as well."""

    def change(self, name: str) -> None:
        assert self.ring is not None
        if name == "finish":
            for segment in self.ring.unfinished():
                table = segment.vectors()
                wanted = table.key[~table.have]
                self.ring.add_late(segment.id, vectors=vectors_of(wanted), signals_done=True)
        elif name == "fold":
            self.ring.fold()
        elif name == "compact":
            self.ring.compact()
        else:
            super().change(name)


def begin(root: Path, fault: Fault | None = None) -> LongLife:
    root.mkdir()
    return LongLife(root / "ring", FaultyFiles(root, fault))


def calls(root: Path, among: tuple[str, ...]) -> list[str]:
    """The calls of a whole life; it ends as the docstring of LIFE says."""
    life = begin(root)
    for name in LIFE[:-1]:
        life.step(name)
    assert life.ring is not None
    sizes = {meta.n_rows: meta.is_finished for meta in life.ring._view.catalog.segments.entries.values()}
    assert sizes == {BOUNDS[2]: True, BOUNDS[4] - BOUNDS[2]: False}
    life.step("close")
    assert isinstance(life.files, FaultyFiles)
    return [call for call in life.files.calls if not among or call in among]


def compacting_steps(root: Path, steps: tuple[str, ...] = ("fold", "compact")) -> Iterator[int]:
    """Places, among the changes of a life, of those that a fold or compaction makes."""
    life = begin(root)
    assert isinstance(life.files, FaultyFiles)
    n_before = 0
    for name in LIFE:
        life.step(name)
        n_after = sum(call in CHANGES for call in life.files.calls)
        yield from range(n_before, n_after) if name in steps else ()
        n_before = n_after


def go_on(root: Path, acknowledged: int, attempted: int) -> None:
    """Open what is left, check it, and live on with it to the end."""
    files = FaultyFiles(root)
    with Ring.open(root / "ring", decoder=decode, files=files) as ring:
        check(ring, acknowledged, attempted)
        life = LongLife(root / "ring", files, ring, acknowledged, attempted)
        for name in ("model", "append 0", "append 1", "append 2", "append 3", "flush", "finish", "compact"):
            life.change(name)
        fill(ring)
        ring.compact()
        check(ring, BOUNDS[-1], BOUNDS[-1])
        assert len(ring._view.catalog.segments.entries) == 1
        assert leftovers_in(root / "ring", ring) == set()


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_power_loss_before_or_in_any_change_of_a_compaction_loses_nothing(
    tmp_path: Path, is_torn: bool
) -> None:
    made = calls(tmp_path / "count", CHANGES)
    steps = [at for at in compacting_steps(tmp_path / "steps") if not is_torn or made[at] == "write"]
    assert len(steps) > (40 if not is_torn else 10)
    for at in steps:
        life = begin(tmp_path / f"live-{at}", Fault(at, is_torn=is_torn, among=CHANGES))
        with suppress(PowerLoss):
            for name in LIFE:
                life.step(name)
        assert isinstance(life.files, FaultyFiles)
        assert life.files.is_off
        root = tmp_path / f"left-{at}"
        root.mkdir()
        life.files.after_power_loss(root, random.Random(at) if is_torn or at % 2 else None)
        go_on(root, life.acknowledged, life.attempted)


def test_a_failed_call_of_a_compaction_changes_nothing_or_stops_the_store(tmp_path: Path) -> None:
    made = calls(tmp_path / "count", CHANGES)
    for at in compacting_steps(tmp_path / "steps"):
        error = errno.ENOSPC if made[at] in ("create", "write", "link", "mkdir") else errno.EIO
        life = begin(tmp_path / f"live-{at}", Fault(at, error, is_torn=True, among=CHANGES))
        for name in LIFE:
            retry(life, name)
        with Ring.open(life.path, decoder=decode, files=FaultyFiles(life.path.parent)) as ring:
            check(ring, BOUNDS[-1], BOUNDS[-1])
            assert leftovers_in(life.path, ring) == set()


def test_an_interrupted_compaction_leaves_a_store_that_is_right(tmp_path: Path) -> None:
    for at in compacting_steps(tmp_path / "steps", ("fold",)):
        life = begin(tmp_path / str(at), Fault(at, is_torn=True, is_interrupt=True, among=CHANGES))
        for name in LIFE:
            try:
                life.step(name)
            except KeyboardInterrupt:
                assert name == "fold"
                assert life.ring is not None
                check(life.ring, life.acknowledged, life.attempted)
                life.ring.close()
                life.open()
                life.step(name)
        with Ring.open(life.path, decoder=decode) as ring:
            check(ring, BOUNDS[-1], BOUNDS[-1])
            assert leftovers_in(life.path, ring) == set()


def test_a_full_disk_leaves_the_segments_as_they_were_until_there_is_room(tmp_path: Path) -> None:
    life = begin(tmp_path / "live")
    for name in ("open", "model", "append 0", "flush", "append 1", "flush"):
        life.step(name)
    assert life.ring is not None
    assert isinstance(life.files, FaultyFiles)
    names = set(life.ring._view.catalog.segments.entries)
    life.files.fault, life.files.n_calls = Fault(0, errno.ENOSPC, is_torn=True, among=("write",)), 0
    with pytest.raises(StoreError, match=r"fold failed.*nothing was changed"):
        life.ring.compact()
    assert set(life.ring._view.catalog.segments.entries) == names
    life.files.fault = None
    assert life.ring.compact().made == 1
    check(life.ring, BOUNDS[2], BOUNDS[2])
