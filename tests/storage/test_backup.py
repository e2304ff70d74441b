"""Backups of a live store: whole, and only what is new is copied again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.aged_store import add, content, fill_one, names, reader, writer
from tests.storage.records import MODEL, fill, numbers_in, stored_numbers
from treering.storage.backup_record import BackupRecord, StateRecord
from treering.storage.batch import ColumnBatch, RawBatch
from treering.storage.catalog import Catalog, load
from treering.storage.errors import StoreError
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout
from treering.storage.manifest import root_versions
from treering.storage.ring import Ring

REPOSITORY = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("records.py")


@pytest.mark.parametrize("open_ring", [writer, reader])
def test_a_backup_gives_what_the_store_gives(aged: Path, open_ring: Callable[[Path], Ring]) -> None:
    copy = aged.parent / "deep" / "copy"
    with open_ring(aged) as ring:
        report = ring.backup(copy)
    assert content(copy) == content(aged)
    assert (report.events, report.version) == (30, load_newest(aged).root.version)
    assert (report.bytes_present, report.files_mended) == (0, 0)
    assert names(copy) - {"backup.json", "LOCK"} == names(aged) - {"LOCK"}
    sizes = {name: (copy / name).stat().st_size for name in names(copy) - {"backup.json", "LOCK"}}
    assert (report.files_copied, report.bytes_copied) == (len(sizes), sum(sizes.values()))
    for name in sizes:
        assert (copy / name).read_bytes() == (aged / name).read_bytes()
        assert (copy / name).stat().st_nlink == 1


def load_newest(path: Path) -> Catalog:
    layout = Layout(path)
    return load(OS_FILES, layout, root_versions(OS_FILES, layout.manifest)[-1])


def test_every_next_backup_copies_only_what_is_new(tmp_path: Path) -> None:
    path, copy = tmp_path / "ring", tmp_path / "copy"
    with writer(path) as ring:
        ring.backup(copy)
        assert content(copy).numbers == []
        before = names(path)
        steps: tuple[Callable[[], object], ...] = (
            lambda: add(ring, 5),
            lambda: add(ring, 9),
            ring.flush,
            lambda: add(ring, 12),
            lambda: None,
            lambda: ring.set_model(MODEL),
            lambda: fill_one(ring),
            lambda: fill(ring),
        )
        for step in steps:
            step()
            report = ring.backup(copy)
            assert content(copy) == content(path)
            assert names(copy) - {"backup.json"} == names(path)
            fresh = names(path) - before
            n_fresh = sum((path / name).stat().st_size for name in fresh)
            assert report.files_copied == len(fresh)
            whole = sum((path / name).stat().st_size for name in names(path) - {"LOCK"})
            assert n_fresh <= report.bytes_copied
            assert report.bytes_copied + report.bytes_present <= whole
            before = names(path)
        assert report.bytes_copied < whole
        again = ring.backup(copy)
        assert (again.files_copied, again.bytes_copied) == (0, 0)
        assert again.events == 12


def test_many_versions_later_the_backup_follows_and_keeps_nothing_old(aged: Path) -> None:
    copy = aged.parent / "copy"
    with writer(aged) as ring:
        ring.backup(copy)
        for end in range(31, 60):
            add(ring, end)
            if end % 4 == 0:
                ring.flush()
        fill(ring)
        ring.backup(copy)
        assert content(copy) == content(aged)
        assert names(copy) - {"backup.json"} == names(aged)


def test_readers_of_a_backup_keep_what_they_read(aged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with writer(aged) as ring:
        ring.backup(copy)
        with reader(copy) as looking:
            snapshot = looking.snapshot()
            rejects = looking.rejects()
            first = next(rejects)
            held = names(copy)
            add(ring, 40)
            ring.flush()
            fill(ring)
            ring.backup(copy)
            assert held - {"backup.json"} <= names(copy)
            assert numbers_in(snapshot) == list(range(30))
            assert [first, *rejects] == content(aged).rejects[: len(content(aged).rejects) - 1]
            snapshot.close()
            assert stored_numbers(looking) == list(range(40))
        ring.backup(copy)
        assert names(copy) - {"backup.json"} == names(aged)


def test_other_threads_write_while_a_backup_is_made(aged: Path, tmp_path: Path) -> None:
    """A backup lets go of the store while it copies: here its progress appends, flushes and folds."""
    with writer(aged) as ring:

        def go_on(done: int, total: int) -> None:
            assert 0 < done <= total
            add(ring, ring.next_seq + 1)
            if ring.next_seq % 7 == 0:
                ring.flush()
                fill(ring)

        report = ring.backup(tmp_path / "copy", progress=go_on)
        assert report.events == 30
        assert content(tmp_path / "copy").numbers == list(range(30))
        assert ring.next_seq > 40
        ring.backup(tmp_path / "copy")
    assert content(tmp_path / "copy") == content(aged)


def test_a_writing_process_and_its_backups_agree(tmp_path: Path) -> None:
    path, copy = tmp_path / "ring", tmp_path / "copy"
    command = [sys.executable, str(SCRIPT), str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)}
    ) as process:
        assert process.stdout is not None
        seen = 0
        for n_lines in (1, 5, 20, 30, 1, 40):
            acknowledged = [int(process.stdout.readline()) for _ in range(n_lines)][-1]
            with reader(path) as ring:
                report = ring.backup(copy)
            with reader(copy) as backup:
                numbers = stored_numbers(backup)
            assert numbers == list(range(report.events))
            assert max(seen, acknowledged) <= report.events
            seen = report.events
        process.kill()
    with reader(path) as ring:
        ring.backup(copy)
    assert content(copy) == content(path)


def test_a_store_of_format_1_is_backed_up_as_it_is(old_store: Path, tmp_path: Path) -> None:
    def no_decoder(raw: RawBatch, first_seq: int) -> ColumnBatch:
        raise AssertionError("nothing of the log is decoded to copy it")

    with Ring.open(old_store, "r", decoder=no_decoder) as ring:
        first = ring.backup(tmp_path / "copy")
        again = ring.backup(tmp_path / "copy")
        assert again.files_copied == 0
        assert again.events == first.events > 0
    assert names(tmp_path / "copy") - {"backup.json", "LOCK"} == names(old_store) - {"LOCK"}
    (tmp_path / "copy" / "backup.json").write_bytes(BackupRecord("", (StateRecord(1, 2, ()),)).packed())
    with (
        Ring.open(old_store, "r", decoder=no_decoder) as ring,
        pytest.raises(StoreError, match="written to since the last backup"),
    ):
        ring.backup(tmp_path / "copy")
