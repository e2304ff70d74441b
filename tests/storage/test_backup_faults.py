"""Whatever fails while a backup is made or restored, what is there can be read and is completed by the next run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.effort import some
from tests.storage.aged_store import assert_same_files, content, names, reader
from tests.storage.backup_situations import (
    SITUATIONS,
    Bench,
    bench,
    changes_of,
    many_versions_later,
    nothing_yet,
    restore,
    run,
)
from tests.storage.faults import CHANGES, Fault, FaultyFiles, error_of, losing_power
from tests.storage.records import stored_numbers
from treering.storage.errors import StoreError
from treering.storage.files import OS_FILES
from treering.storage.manifest import root_versions


def check_what_is_left(bench: Bench, root: Path) -> None:
    """The backup is at its state before, or at the new one up to a frame; the next run makes it whole."""
    copy = root / "copy"
    if bench.n_before is None and not root_versions(OS_FILES, copy / "_manifest"):
        with pytest.raises(StoreError, match=r"no treering store there|was not finished"):
            reader(copy)
    else:
        with reader(copy) as ring:
            numbers = stored_numbers(ring)
        assert numbers == list(range(len(numbers)))
        n_before = bench.n_all if bench.n_before is None else bench.n_before
        assert n_before <= len(numbers) <= bench.n_all
    run(root, FaultyFiles(root))
    assert_same_files(copy, root / "ring")


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_power_loss_before_or_in_any_change_leaves_a_backup_that_can_be_read(
    tmp_path: Path, situation: Callable[[Path], None]
) -> None:
    place = bench(tmp_path, situation)
    root = place.set_up("live")
    files = FaultyFiles(root)
    with losing_power(files, tmp_path, lambda left: check_what_is_left(place, left)) as moments:
        run(root, files)
    assert len(moments) > 10
    done = files.after_power_loss(tmp_path / "done", None)
    assert content(done / "copy").numbers == list(range(place.n_all))
    check_what_is_left(place, done)


@pytest.mark.parametrize("situation", (nothing_yet, many_versions_later))
def test_a_call_that_fails_leaves_a_backup_that_can_be_read(
    tmp_path: Path, situation: Callable[[Path], None]
) -> None:
    place = bench(tmp_path, situation)
    for at, call in enumerate(changes_of(place, ())):
        root = place.set_up(f"live-{at}")
        with suppress(StoreError):
            run(root, FaultyFiles(root, Fault(at, error_of(call), is_torn=True)))
        check_what_is_left(place, root)
        shutil.rmtree(root)


def test_an_interrupt_at_any_call_leaves_a_backup_that_can_be_read(tmp_path: Path) -> None:
    place = bench(tmp_path, many_versions_later)
    for at in some(range(len(changes_of(place, CHANGES))), 2):
        root = place.set_up(f"live-{at}")
        files = FaultyFiles(root, Fault(at, is_torn=True, is_interrupt=True, among=CHANGES))
        with suppress(KeyboardInterrupt):
            run(root, files)
        check_what_is_left(place, root)
        shutil.rmtree(root)


def test_a_power_loss_while_restoring_leaves_nothing_or_all(tmp_path: Path) -> None:
    place = bench(tmp_path, nothing_yet)
    root = place.set_up("live")
    files = FaultyFiles(root)
    with losing_power(files, tmp_path, check_what_is_restored) as moments:
        restore(root, files)
    assert len(moments) > 10
    done = files.after_power_loss(tmp_path / "done", None)
    assert root_versions(OS_FILES, done / "copy" / "_manifest")
    check_what_is_restored(done)


def check_what_is_restored(root: Path) -> None:
    """There is nothing, so that it can be restored, or all of it."""
    copy = root / "copy"
    if not root_versions(OS_FILES, copy / "_manifest"):
        restore(root, FaultyFiles(root))
    with reader(copy) as ring:
        assert stored_numbers(ring) == list(range(9))
    left_over = {name for name in names(copy) if name.endswith(".tmp")}
    assert len(left_over) <= 1  # of the commit: the next writer sweeps it
    for name in left_over:
        (copy / name).unlink()
    assert_same_files(copy, root / "ring")
