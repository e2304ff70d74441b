"""A backup that reads its target whole brings anew whatever is damaged there, and nothing that is not its own."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.aged_store import add, content, files_of, reader, writer
from tests.storage.checking import look
from tests.storage.faults import FaultyFiles, losing_power
from tests.storage.odd_files import FailingFiles, put_dangling_link, put_directory, put_pipe
from tests.storage.records import stored_numbers
from tests.storage.whole_store import cut, flip, lose
from treering.storage.errors import DamageError, StoreError
from treering.storage.files import OS_FILES, Files

HARM: dict[str, Callable[[Path], None]] = {
    "flipped": lambda path: flip(path, 0.4),
    "cut": cut,
    "emptied": lambda path: cut(path, 0.0),
    "missing": lose,
    "a directory": put_directory,
    "a link to nothing": put_dangling_link,
    "a named pipe": put_pipe,
}

PLACES = (
    "_manifest/",
    "meta/segments",
    "meta/ledger",
    "meta/rejects",
    "meta/model",
    "wal/",
    "rejects/",
    "seg/",
)


def backed_up(aged: Path, files: Files = OS_FILES) -> Path:
    copy = aged.parent / "copy"
    with reader(aged, files) as ring:
        ring.backup(copy)
    return copy


def verified(aged: Path, copy: Path, files: Files = OS_FILES) -> int:
    """Bring a backup to the state of the store, and give how many files were mended."""
    with reader(aged, files) as ring:
        return ring.backup(copy, verify=True).files_mended


def is_as(copy: Path, aged: Path) -> None:
    """Check that a backup is what the store is, and that nothing is left to mend."""
    assert look(copy, deep=True).is_clean
    assert content(copy) == content(aged)
    with reader(aged) as ring:
        report = ring.backup(copy, verify=True)
    assert (report.files_copied, report.files_mended) == (0, 0)


def go_on(aged: Path, how: str) -> None:
    """Let a store live on: nothing, only its log, or whole versions and another file of the log."""
    if how != "as it was":
        with writer(aged) as ring:
            add(ring, 33)
            if how == "versions later":
                ring.flush()
                add(ring, 36)


@pytest.mark.parametrize("since", ["as it was", "frames later", "versions later"])
@pytest.mark.parametrize("harm", HARM)
def test_whatever_is_damaged_in_a_backup_is_brought_anew(aged: Path, harm: str, since: str) -> None:
    copy = backed_up(aged)
    go_on(aged, since)
    shutil.copytree(copy, aged.parent / "whole")
    for place in PLACES:
        victim = next(name for name in files_of(copy) if name.startswith(place))
        HARM[harm](copy / victim)
        verified(aged, copy)
        is_as(copy, aged)
        shutil.rmtree(copy)
        shutil.copytree(aged.parent / "whole", copy)


def test_all_of_it_at_once_is_brought_anew_and_counted(aged: Path) -> None:
    copy = backed_up(aged)
    for name in files_of(copy):
        if name != "backup.json":
            flip(copy / name, 0.3)
    assert verified(aged, copy) == len(files_of(copy)) - 1
    is_as(copy, aged)


@pytest.mark.parametrize("name", ["_manifest", "meta", "wal", "seg", "rejects"])
@pytest.mark.parametrize("since", ["as it was", "versions later"])
def test_a_directory_that_is_missing_is_brought_anew(aged: Path, name: str, since: str) -> None:
    copy = backed_up(aged)
    go_on(aged, since)
    shutil.rmtree(copy / name)
    verified(aged, copy)
    is_as(copy, aged)


def test_without_reading_it_whole_a_damaged_backup_is_named_and_stays(aged: Path) -> None:
    copy = backed_up(aged)
    for place in (*PLACES[:6], "backup.json"):
        victim = copy / next(name for name in files_of(copy) if name.startswith(place))
        held = victim.read_bytes()
        victim.write_bytes(held[:30] + bytes([held[30] ^ 1]) + held[31:])
        with reader(aged) as ring, pytest.raises(DamageError) as refused:
            ring.backup(copy)
        assert victim.name in str(refused.value) and "`treering backup --verify`" in str(refused.value)
        assert "\n" not in str(refused.value)
        victim.write_bytes(held)


# -- what tells that it is a backup of this store -----------------------------------------------------------------


def test_a_damaged_record_is_believed_where_the_rest_agrees(aged: Path) -> None:
    copy = backed_up(aged)
    go_on(aged, "versions later")
    whole = (copy / "backup.json").read_bytes()
    for share in (0.02, 0.1, 0.99):  # its checksum, its kind, its end: what it tells is all there
        (copy / "backup.json").write_bytes(whole)
        flip(copy / "backup.json", share)
        before = shutil.copytree(copy, aged.parent / f"at-{share}")
        verified(aged, copy)
        is_as(copy, aged)
        shutil.rmtree(copy)
        before.rename(copy)


@pytest.mark.parametrize("harm", ["emptied", "a directory", "a named pipe"])
def test_without_a_record_it_is_recognised_by_the_manifest_of_the_store_as_it_is(
    aged: Path, harm: str
) -> None:
    copy = backed_up(aged)
    HARM[harm](copy / "backup.json")
    verified(aged, copy)
    is_as(copy, aged)


@pytest.mark.parametrize("harm", ["emptied", "missing", "a named pipe"])
def test_what_cannot_be_recognised_is_refused_and_stays_as_it_is(aged: Path, harm: str) -> None:
    copy = backed_up(aged)
    go_on(aged, "versions later")
    HARM[harm](copy / "backup.json")
    _refuses(aged, copy)
    shutil.rmtree(copy / "_manifest")
    _refuses(aged, copy)


def test_a_restored_store_never_becomes_a_backup_by_being_damaged(aged: Path) -> None:
    copy = aged.parent / "copy"
    with reader(aged) as ring:
        ring.restore(copy)
    for place in ("_manifest/", "meta/segments", "wal/"):
        victim = copy / next(name for name in files_of(copy) if name.startswith(place))
        held = victim.read_bytes()
        flip(victim, 0.4)
        _refuses(aged, copy)
        victim.write_bytes(held)


@pytest.mark.parametrize("place", ["_manifest/", "meta/segments", "wal/", "backup.json", "all manifests"])
def test_events_that_were_written_to_a_backup_are_never_written_over(aged: Path, place: str) -> None:
    copy = backed_up(aged)
    with writer(copy) as ring:
        add(ring, 31)
        assert stored_numbers(ring) == list(range(31))
    go_on(aged, "versions later")
    if place == "all manifests":
        shutil.rmtree(copy / "_manifest")
    else:
        victims = [name for name in files_of(copy) if name.startswith(place)]
        # Of the log what a backup put there, before the frame of somebody else.
        flip(copy / victims[-1], 0.1 if place == "wal/" else 0.4)
    _refuses(aged, copy)


def test_a_version_that_was_made_in_a_backup_is_never_written_over(aged: Path) -> None:
    copy = backed_up(aged)
    with writer(copy) as ring:
        add(ring, 31)
        ring.flush()
    go_on(aged, "versions later")
    newest = sorted((copy / "_manifest").iterdir())[-1]
    held = newest.read_bytes()
    flip(newest, 0.4)
    _refuses(aged, copy)
    newest.write_bytes(held)
    victim = copy / next(name for name in files_of(copy) if name.startswith("meta/rejects"))
    held = victim.read_bytes()
    flip(victim, 0.4)
    assert "it was written to since the last backup" in _refuses(aged, copy)
    victim.write_bytes(held)
    flip(copy / "backup.json", 0.1)
    assert "the store has gone on since" in _refuses(aged, copy)


def test_a_damaged_backup_of_another_store_is_refused(aged: Path, tmp_path: Path) -> None:
    copy = backed_up(aged)
    with writer(tmp_path / "other") as other:
        add(other, 50)
        other.flush()
        add(other, 52)
    flip(copy / next(name for name in files_of(copy) if name.startswith("meta/segments")), 0.4)
    _refuses(tmp_path / "other", copy)
    flip(copy / "backup.json", 0.1)
    _refuses(tmp_path / "other", copy)


def test_a_damaged_backup_that_is_newer_or_of_another_history_is_refused(aged: Path) -> None:
    earlier = Path(shutil.copytree(aged, aged.parent / "earlier"))
    with writer(aged) as ring:
        ring.flush()
    copy = backed_up(aged)
    victims = [next(n for n in files_of(copy) if n.startswith(place)) for place in ("_manifest/", "meta/seg")]
    for victim in victims:
        held = (copy / victim).read_bytes()
        flip(copy / victim, 0.4)
        _refuses(earlier, copy)
        (copy / victim).write_bytes(held)
    with writer(earlier) as ring:
        add(ring, 33)
        ring.flush()
    flip(copy / victims[0], 0.4)
    _refuses(earlier, copy)


def _refuses(aged: Path, copy: Path) -> str:
    """Check that a backup refuses a directory and changes nothing in it, and give what it says."""
    held = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "LOCK"}
    with reader(aged) as ring, pytest.raises(StoreError) as refused:
        ring.backup(copy, verify=True)
    assert "give an empty or a new directory" in str(refused.value) and "\n" not in str(refused.value)
    assert {path: path.read_bytes() for path in held} == held
    return str(refused.value)


# -- while it is being mended -------------------------------------------------------------------------------------


@pytest.mark.parametrize("since", ["as it was", "versions later"])
def test_a_power_loss_while_a_backup_is_mended_leaves_one_that_can_be_mended(
    aged: Path, tmp_path: Path, since: str
) -> None:
    live = tmp_path / "live"
    live.mkdir()
    copy = backed_up(aged)
    go_on(aged, since)
    for place in ("_manifest/", "meta/segments", "wal/"):
        flip(copy / next(name for name in files_of(copy) if name.startswith(place)), 0.4)
    copy.rename(live / "copy")
    aged.rename(live / "ring")
    expected, done = content(live / "ring"), 0

    def is_mended(root: Path) -> None:
        nonlocal done
        verified(root / "ring", root / "copy")
        assert content(root / "copy") == expected
        done += 1

    files = FaultyFiles(live)
    with losing_power(files, tmp_path, is_mended, every=2):
        verified(live / "ring", live / "copy", files)
    assert done > 5
    is_mended(files.after_power_loss(tmp_path / "after", random.Random(1)))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("place", ["_manifest/", "meta/segments", "wal/", "seg/", "backup.json"])
def test_what_may_not_be_read_in_a_backup_is_not_brought_anew(aged: Path, place: str, number: int) -> None:
    copy = backed_up(aged)
    victim = copy / next(name for name in files_of(copy) if name.startswith(place))
    held = {path: path.stat().st_ino for path in copy.rglob("*") if path.is_file() and path.name != "LOCK"}
    with reader(aged, FailingFiles(victim, number)) as ring, pytest.raises(StoreError) as refused:
        ring.backup(copy, verify=True)
    assert victim.name in str(refused.value) and "\n" not in str(refused.value)
    assert {path: path.stat().st_ino for path in held if path.name != "backup.json"} == {
        path: inode for path, inode in held.items() if path.name != "backup.json"
    }


@pytest.mark.parametrize("place", PLACES)
def test_what_the_disk_does_not_give_of_a_backup_is_brought_anew(aged: Path, place: str) -> None:
    copy = backed_up(aged)
    victim = copy / next(name for name in files_of(copy) if name.startswith(place))
    inode = victim.stat().st_ino
    verified(aged, copy, FailingFiles(victim, errno.EIO))
    assert victim.stat().st_ino != inode
    is_as(copy, aged)
