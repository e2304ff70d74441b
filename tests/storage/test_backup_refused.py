"""A backup is refused where it would lie in its store, or in the place of something else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.storage.aged_store import add, content, names, reader, writer
from tests.storage.records import raw_batch, stored_numbers
from treering.storage.errors import ConfigError, StoreError


def test_a_backup_is_a_store_that_can_be_written_and_is_no_backup_then(aged: Path) -> None:
    copy = aged.parent / "copy"
    with reader(aged) as ring:
        ring.backup(copy)
        with writer(copy) as other:
            assert stored_numbers(other) == list(range(30))
            add(other, 33)
            other.flush()
        before = names(copy)
        with pytest.raises(StoreError, match=r"written to since the last backup: it is at version"):
            ring.backup(copy)
        assert names(copy) == before
    assert content(copy).numbers == list(range(33))
    assert content(aged).numbers == list(range(30))


def test_an_event_that_came_to_the_log_of_a_backup_is_never_lost(aged: Path) -> None:
    copy = aged.parent / "copy"
    with writer(aged) as ring:
        ring.backup(copy)
        with writer(copy) as other:
            add(other, 31)  # stays in the log: nothing is flushed
        with pytest.raises(StoreError, match="events came to its log since the last backup"):
            ring.backup(copy)
        add(ring, 34)
        ring.flush()
        with pytest.raises(StoreError, match="events came to its log since the last backup"):
            ring.backup(copy)
    assert content(copy).numbers == list(range(31))


def test_opening_a_backup_for_writing_without_writing_leaves_it_a_backup(aged: Path) -> None:
    copy = aged.parent / "copy"
    with writer(aged) as ring:
        ring.backup(copy)
        writer(copy).close()
        add(ring, 33)
        ring.backup(copy)
    assert content(copy) == content(aged)


def test_a_backup_of_another_store_is_refused(aged: Path, tmp_path: Path) -> None:
    with reader(aged) as ring:
        ring.backup(tmp_path / "copy")
    with writer(tmp_path / "other") as other, pytest.raises(StoreError, match="a backup of another store"):
        other.backup(tmp_path / "copy")
    assert content(tmp_path / "copy") == content(aged)


def test_a_newer_backup_is_refused_and_so_is_one_of_another_history(aged: Path, tmp_path: Path) -> None:
    shutil.copytree(aged, tmp_path / "earlier")
    with writer(aged) as ring:
        ring.flush()
        ring.backup(tmp_path / "copy")
    with writer(tmp_path / "earlier") as earlier:
        with pytest.raises(StoreError, match=r"is newer: at version \d+, the store at \d+"):
            earlier.backup(tmp_path / "copy")
        add(earlier, 33)
        earlier.flush()
        with pytest.raises(StoreError, match="another history"):
            earlier.backup(tmp_path / "copy")
        add(earlier, 34)
        earlier.flush()
        with pytest.raises(StoreError, match="another history"):
            earlier.backup(tmp_path / "copy")
    assert content(tmp_path / "copy") == content(aged)


def test_logs_that_parted_are_another_history(aged: Path, tmp_path: Path) -> None:
    shutil.copytree(aged, tmp_path / "twin")
    with writer(aged) as ring:
        add(ring, 33)
        ring.backup(tmp_path / "copy")
    with writer(tmp_path / "twin") as twin:
        twin.append(raw_batch(range(30, 36)))
        with pytest.raises(StoreError, match="another history"):
            twin.backup(tmp_path / "copy")
    assert content(tmp_path / "copy") == content(aged)


@pytest.mark.parametrize("kind", ["store", "letter", "file"])
def test_what_is_no_backup_is_left_alone(aged: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "store":
        writer(target).close()
    elif kind == "letter":
        target.mkdir()
        (target / "letter.txt").write_text("dear")
    else:
        target.write_text("dear")
    before = names(target)
    with reader(aged) as ring, pytest.raises(StoreError, match=r"no backup made|is no backup|is a file"):
        ring.backup(target)
    assert names(target) == before


@pytest.mark.parametrize("place", [".", "seg", "below/it", ".."])
def test_a_backup_never_lies_in_its_store_or_around_it(aged: Path, place: str) -> None:
    before = names(aged.parent)
    with reader(aged) as ring, pytest.raises(ConfigError, match="lies in the store"):
        ring.backup(aged / place)
    assert names(aged.parent) == before


def test_a_symbolic_link_into_the_store_is_seen_through(aged: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(aged)
    with reader(aged) as ring, pytest.raises(ConfigError, match="lies in the store"):
        ring.backup(tmp_path / "link")


def test_two_backups_to_one_place_do_not_mix(aged: Path, tmp_path: Path) -> None:
    with (
        writer(tmp_path / "copy"),
        reader(aged) as ring,
        pytest.raises(StoreError, match=r"writes to it|no backup"),
    ):
        ring.backup(tmp_path / "copy")
    with reader(aged) as ring:
        ring.backup(tmp_path / "twice")
        with writer(tmp_path / "twice"), pytest.raises(StoreError, match="writes to it"):
            ring.backup(tmp_path / "twice")
