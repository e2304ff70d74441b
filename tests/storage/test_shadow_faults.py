"""A move to another model fails, tears or loses its power at each change: the old store is there or the new one."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.effort import some
from tests.storage.faults import CHANGES, Fault, FaultyFiles, error_of, losing_power
from tests.storage.move_away import (
    OTHER,
    SECRET,
    Holding,
    begun,
    build_small,
    embed_anew,
    holding,
    move,
    renew,
)
from tests.storage.words import ACT, files_with, having, open_copy, open_words, stored, without
from treering.storage.errors import StoreError

EARLY_STEP = 6
"""Of the changes before the swap every so manieth is tried, of those of the swap each in a thorough run."""


@dataclass(frozen=True)
class Outcomes:
    """before, after: the whole move. calls: its changes of the disk, the first n_early of them before the swap."""

    before: Holding
    after: Holding
    calls: list[str]
    n_early: int

    def points(self) -> list[int]:
        """Changes at which a call fails."""
        early = range(EARLY_STEP // 2, self.n_early, EARLY_STEP)
        return [*early, *some(range(self.n_early, len(self.calls)), 2)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk with a store on it; only to be read."""
    root = tmp_path_factory.mktemp("base")
    build_small(root / "ring")
    return root


@pytest.fixture(scope="module")
def outcomes(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What is in the store before and after a move, and the changes of the disk that it takes."""
    ring, files = open_copy(base, tmp_path_factory.mktemp("whole") / "root")
    before, mover = holding(ring), ring.mover(OTHER, renew)
    assert mover.catch_up()
    embed_anew(ring.shadow(mover))
    n_early = files.n_calls
    assert mover.swap()
    mover.close()
    calls = [call for call in files.calls if call in CHANGES]
    after = holding(ring)
    ring.close()
    assert before[0] == after[0] and after[1] == "other" and after[3] == {0.75} and before[3] == {0.25}
    assert calls.count("link") > 8 and "rmtree" in calls
    return Outcomes(before, after, calls, n_early)


def go_on(root: Path, before: Holding, after: Holding) -> bool:
    """See that what is left is one of the two, and do the rest; give whether it was moved already."""
    with open_words(root / "ring", mode="r") as reader:
        left = holding(reader)
        assert left in (before, after)
    with open_words(root / "ring", files=FaultyFiles(root)) as ring:
        assert holding(ring) == left
        if left == after:
            assert not (ring.path / "reembed").exists()
        else:
            move(ring)
        assert len(ring.audit()[0]) == 1
    with open_words(root / "ring") as ring:
        assert holding(ring) == after
        with ring.snapshot() as snapshot:
            named = {part.id for part in snapshot.parts if part.is_stored}
        assert {path.name for path in (ring.path / "seg").iterdir()} == named
        assert not (ring.path / "reembed").exists()
    return left == after


def test_after_a_power_loss_the_old_store_is_there_or_the_new_one(
    base: Path, outcomes: Outcomes, tmp_path: Path
) -> None:
    seen = list[bool]()

    def check(root: Path) -> None:
        seen.append(go_on(root, outcomes.before, outcomes.after))

    ring, files = open_copy(base, tmp_path / "live")
    mover = ring.mover(OTHER, renew)
    with losing_power(files, tmp_path, check, every=EARLY_STEP):
        assert mover.catch_up()
        embed_anew(ring.shadow(mover))
    assert set(seen) == {False}
    with losing_power(files, tmp_path, check):
        assert mover.swap()
    mover.close()
    assert set(seen) == {False, True}
    assert go_on(files.after_power_loss(tmp_path / "done", None), outcomes.before, outcomes.after)


def test_after_a_failed_call_the_old_store_is_there_or_the_new_one(
    base: Path, outcomes: Outcomes, tmp_path: Path
) -> None:
    for at in outcomes.points():
        call = outcomes.calls[at]
        live = tmp_path / f"live-{at}"
        fault = Fault(at, error_of(call), is_torn=call == "write", among=CHANGES)
        ring, files = open_copy(base, live, fault)
        with suppress(StoreError):
            move(ring)
        assert files.n_calls > at
        if not ring.is_stopped:
            left = holding(ring)
            assert left in (outcomes.before, outcomes.after)
            if left == outcomes.before:
                with suppress(StoreError):
                    move(ring)
        ring.close()
        go_on(live, outcomes.before, outcomes.after)
        shutil.rmtree(live)


@pytest.fixture(scope="module")
def begun_base(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a move that was begun; only to be read."""
    root = Path(shutil.copytree(base, tmp_path_factory.mktemp("begun") / "root"))
    with open_words(root / "ring") as ring:
        begun(ring).close()
    return root


def check_erased(root: Path) -> None:
    """All of it is there or nothing; the rest is done; and no file of the shadow has it."""
    with open_words(root / "ring") as ring:
        found = stored(ring)
        assert len(found) == 5 or found == without(found, SECRET)
        if len(found) < 5:
            assert files_with(ring.path, SECRET) == set()
        assert ring.erase(having(SECRET), ACT).is_erased
        assert files_with(ring.path, SECRET) == set()
        move(ring)
        assert stored(ring) == without(found, SECRET) and len(stored(ring)) == 3
        assert ring.unfinished() == []


def test_an_erasure_that_loses_its_power_leaves_nothing_in_the_shadow(
    begun_base: Path, tmp_path: Path
) -> None:
    ring, files = open_copy(begun_base, tmp_path / "live")
    with losing_power(files, tmp_path, check_erased, every=3) as moments:
        ring.erase(having(SECRET), ACT)
    assert len(moments) > 50


def test_an_erasure_that_fails_leaves_nothing_in_the_shadow(begun_base: Path, tmp_path: Path) -> None:
    ring, files = open_copy(begun_base, tmp_path / "count")
    ring.erase(having(SECRET), ACT)
    n_changes = files.n_calls
    for at in some(range(n_changes), 4):
        live = tmp_path / f"live-{at}"
        ring, _ = open_copy(begun_base, live, Fault(at, errno.EIO, among=CHANGES))
        with suppress(StoreError):
            assert ring.erase(having(SECRET), ACT).record is not None
        ring.close()
        check_erased(live)
        shutil.rmtree(live)
