"""Each file operation of folds and compactions fails or is the last before a power loss: nothing is lost."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.storage.faults import CHANGES, Fault, FaultyFiles, error_of, losing_power
from tests.storage.one_life import APPENDS, BOUNDS, Life, begin, check, check_grown, leftovers_in, retry
from treering.storage.errors import StoreError

BEFORE = {
    "fold": ("open", "model", "append 0", "flush", "append 1", "flush", "finish"),
    "compact": ("fold", "append 2", "flush", "append 3"),
}
"""Two finished segments become one by a fold, then two that wait become one by a compaction."""

LIFE = (*BEFORE["fold"], *BEFORE["compact"], "compact", "close")


def check_left(root: Path, acknowledged: int, attempted: int) -> None:
    """Open what is left, check it, and live on with it to the end."""
    life = Life(root / "ring", FaultyFiles(root), None, acknowledged, attempted)
    life.take("open")
    check(life.ring, acknowledged, attempted)
    life.take("model", *APPENDS, "flush", "finish", "compact", "fill", "compact")
    check(life.ring, BOUNDS[-1], BOUNDS[-1])
    assert len(segments(life)) == 1
    assert leftovers_in(life.path, life.ring) == set()
    life.take("close")


def segments(life: Life) -> dict[int, bool]:
    """Rows of each segment, and whether it waits for nothing."""
    metas = life.ring._view.catalog.segments.entries.values()
    return {meta.n_rows: meta.is_finished for meta in metas}


def test_a_power_loss_before_or_in_any_change_of_a_compaction_loses_nothing(tmp_path: Path) -> None:
    life = begin(tmp_path / "live")

    def look(root: Path) -> None:
        check_left(root, life.acknowledged, life.attempted)

    for step, before in BEFORE.items():
        life.take(*before)
        with losing_power(life.files, tmp_path, look) as moments:
            life.take(step)
        assert len(moments) > 25
    assert segments(life) == {BOUNDS[2]: True, BOUNDS[4] - BOUNDS[2]: False}
    check_left(life.files.after_power_loss(tmp_path / "done", None), BOUNDS[-1], BOUNDS[-1])


def changes(place: Path) -> list[tuple[int, str, str]]:
    """The changes that a fold or compaction makes: place among the changes of a life, step, call."""
    life, found = begin(place), []
    for step in LIFE:
        first = life.files.n_changes
        calls = len(life.files.calls)
        life.take(step)
        if step in BEFORE:
            made = [call for call in life.files.calls[calls:] if call in CHANGES]
            found += [(first + at, step, call) for at, call in enumerate(made)]
    return found


def test_a_failed_call_of_a_compaction_changes_nothing_or_stops_the_store(tmp_path: Path) -> None:
    for at, _, call in changes(tmp_path / "count"):
        life = begin(tmp_path / f"live-{at}", fault=Fault(at, error_of(call), is_torn=True, among=CHANGES))
        for step in LIFE:
            retry(life, step)
        check_grown(life)


def test_an_interrupted_compaction_leaves_a_store_that_is_right(tmp_path: Path) -> None:
    steps = (*BEFORE["fold"], "fold", "append 2", "append 3", "close")
    for at, _, _ in [one for one in changes(tmp_path / "count") if one[1] == "fold"]:
        fault = Fault(at, is_torn=True, is_interrupt=True, among=CHANGES)
        life = begin(tmp_path / f"live-{at}", fault=fault)
        for step in steps:
            try:
                life.take(step)
            except KeyboardInterrupt:
                assert step == "fold"
                check(life.ring, life.acknowledged, life.attempted)
                life.open_again()
                life.take(step)
        assert life.files.n_calls > at
        check_grown(life)


def test_a_full_disk_leaves_the_segments_as_they_were_until_there_is_room(tmp_path: Path) -> None:
    life = begin(tmp_path / "live", "open", "model", "append 0", "flush", "append 1", "flush")
    names = set(life.ring._view.catalog.segments.entries)
    life.fail(Fault(0, errno.ENOSPC, is_torn=True, among=("write",)))
    with pytest.raises(StoreError, match=r"fold failed.*nothing was changed"):
        life.ring.compact()
    assert set(life.ring._view.catalog.segments.entries) == names
    life.files.fault = None
    assert life.ring.compact().made == 1
    check(life.ring, BOUNDS[2], BOUNDS[2])
