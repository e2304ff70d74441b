"""Copies that go on where a process was killed: what it left is made durable before anything counts on it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.aged_store import content
from tests.storage.backup_situations import SITUATIONS, bench, changes_of, restore, run
from tests.storage.faults import CHANGES, Fault, FaultyFiles


@pytest.mark.parametrize("situation", [SITUATIONS[0], SITUATIONS[1], SITUATIONS[3]])
def test_a_backup_that_says_it_is_done_is_on_the_disk_whatever_was_left_by_a_killed_one(
    tmp_path: Path, situation: Callable[[Path], None]
) -> None:
    place = bench(tmp_path, situation)
    for at in range(len(changes_of(place, CHANGES))):
        root, left = place.set_up(f"live-{at}"), tmp_path / f"left-{at}"
        left.mkdir()
        files = FaultyFiles(root, Fault(at, is_interrupt=True, among=CHANGES))
        with suppress(KeyboardInterrupt):
            run(root, files)
        run(root, files)
        files.after_power_loss(left, None)
        assert content(left / "copy") == content(root / "ring")


def test_a_restore_that_says_it_is_done_is_on_the_disk_whatever_was_left_by_a_killed_one(
    tmp_path: Path,
) -> None:
    place = bench(tmp_path, SITUATIONS[0])
    root = place.set_up("count")
    files = FaultyFiles(root)
    restore(root, files)
    for at in range(sum(call in CHANGES for call in files.calls)):
        root, left = place.set_up(f"live-{at}"), tmp_path / f"left-{at}"
        left.mkdir()
        files = FaultyFiles(root, Fault(at, is_interrupt=True, among=CHANGES))
        with suppress(KeyboardInterrupt):
            restore(root, files)
            continue
        if not (root / "copy" / "_manifest").exists() or not list((root / "copy/_manifest").glob("*.json")):
            restore(root, files)
            files.after_power_loss(left, None)
            assert content(left / "copy") == content(root / "ring")
            assert not (left / "copy/backup.json").exists()
