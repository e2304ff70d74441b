"""Backups of a live store: whole, refused where they should be, and readable whatever happens while they are made."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.faults import CHANGES, Fault, FaultyFiles, PowerLoss
from tests.storage.records import (
    MODEL,
    decode,
    fill,
    numbers_in,
    position,
    raw_batch,
    reject,
    stored_numbers,
    vectors_of,
)
from treering.storage.backup_record import BackupRecord, LogFile, StateRecord
from treering.storage.batch import ColumnBatch, ModelInfo, RawBatch
from treering.storage.catalog import Catalog, load
from treering.storage.document import pack
from treering.storage.errors import ConfigError, DamageError, StoreError
from treering.storage.files import OS_FILES, Files
from treering.storage.layout import Layout
from treering.storage.ledger import Position
from treering.storage.manifest import root_path, root_versions
from treering.storage.rejects import Reject
from treering.storage.ring import Ring

REPOSITORY = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("records.py")


def writer(path: Path, files: Files = OS_FILES) -> Ring:
    return Ring.open(path, decoder=decode, files=files)


def reader(path: Path, files: Files = OS_FILES) -> Ring:
    return Ring.open(path, "r", decoder=decode, files=files)


def add(ring: Ring, end: int) -> None:
    """Append the numbers up to `end`, and a reject with them."""
    start = ring.next_seq
    ring.append(raw_batch(range(start, end)), positions=[position(end)], rejects=[reject(start)])


@dataclass(frozen=True)
class Content:
    """All that a store gives."""

    numbers: list[int]
    rejects: list[Reject]
    position: Position | None
    model: ModelInfo | None
    n_vectors: int
    signals: list[float | None]


def content(path: Path) -> Content:
    with reader(path) as ring, ring.snapshot() as snapshot:
        signals = [
            value
            for part in snapshot.parts
            for value in (part.column("surprise").to_pylist() if "surprise" in part.fields else [None])
        ]
        return Content(
            numbers_in(snapshot),
            list(ring.rejects()),
            ring.position("source"),
            ring.model,
            sum(int(part.vectors().have.sum()) for part in snapshot.parts),
            sorted(signals, key=str),
        )


def names(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def age(ring: Ring) -> None:
    """Give a store all that a store can have but deletions: a model, sidecars, folds, rejects, an open log."""
    ring.set_model(MODEL)
    for end in (4, 9, 12, 15, 19):
        add(ring, end)
        ring.flush()
    fill(ring)
    add(ring, 23)
    ring.flush()
    fill_one(ring)
    add(ring, 25)
    add(ring, 30)


def fill_one(ring: Ring) -> None:
    """Leave a sidecar: vectors and a signal of one segment, others still to come."""
    segment = ring.unfinished()[-1]
    table = segment.vectors()
    signal = pa.array(np.arange(segment.n_rows, dtype=np.float64))
    ring.add_late(segment.id, vectors=vectors_of(table.key[~table.have]), signals={"surprise": signal})


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with writer(tmp_path / "ring") as ring:
        age(ring)
    return tmp_path / "ring"


@pytest.mark.parametrize("open_ring", [writer, reader])
def test_a_backup_gives_what_the_store_gives(old: Path, open_ring: Callable[[Path], Ring]) -> None:
    copy = old.parent / "deep" / "copy"
    with open_ring(old) as ring:
        report = ring.backup(copy)
    assert content(copy) == content(old)
    assert (report.events, report.version) == (30, load_newest(old).root.version)
    assert (report.bytes_present, report.files_mended) == (0, 0)
    assert names(copy) - {"backup.json", "LOCK"} == names(old) - {"LOCK"}
    sizes = {name: (copy / name).stat().st_size for name in names(copy) - {"backup.json", "LOCK"}}
    assert (report.files_copied, report.bytes_copied) == (len(sizes), sum(sizes.values()))
    for name in sizes:
        assert (copy / name).read_bytes() == (old / name).read_bytes()
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


def test_many_versions_later_the_backup_follows_and_keeps_nothing_old(old: Path) -> None:
    copy = old.parent / "copy"
    with writer(old) as ring:
        ring.backup(copy)
        for end in range(31, 60):
            add(ring, end)
            if end % 4 == 0:
                ring.flush()
        fill(ring)
        ring.backup(copy)
        assert content(copy) == content(old)
        assert names(copy) - {"backup.json"} == names(old)


def test_a_backup_is_a_store_that_can_be_written_and_is_no_backup_then(old: Path) -> None:
    copy = old.parent / "copy"
    with reader(old) as ring:
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
    assert content(old).numbers == list(range(30))


def test_an_event_that_came_to_the_log_of_a_backup_is_never_lost(old: Path) -> None:
    copy = old.parent / "copy"
    with writer(old) as ring:
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


def test_opening_a_backup_for_writing_without_writing_leaves_it_a_backup(old: Path) -> None:
    copy = old.parent / "copy"
    with writer(old) as ring:
        ring.backup(copy)
        writer(copy).close()
        add(ring, 33)
        ring.backup(copy)
    assert content(copy) == content(old)


def test_a_backup_of_another_store_is_refused(old: Path, tmp_path: Path) -> None:
    with reader(old) as ring:
        ring.backup(tmp_path / "copy")
    with writer(tmp_path / "other") as other, pytest.raises(StoreError, match="a backup of another store"):
        other.backup(tmp_path / "copy")
    assert content(tmp_path / "copy") == content(old)


def test_a_newer_backup_is_refused_and_so_is_one_of_another_history(old: Path, tmp_path: Path) -> None:
    shutil.copytree(old, tmp_path / "earlier")
    with writer(old) as ring:
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
    assert content(tmp_path / "copy") == content(old)


def test_logs_that_parted_are_another_history(old: Path, tmp_path: Path) -> None:
    shutil.copytree(old, tmp_path / "twin")
    with writer(old) as ring:
        add(ring, 33)
        ring.backup(tmp_path / "copy")
    with writer(tmp_path / "twin") as twin:
        twin.append(raw_batch(range(30, 36)))
        with pytest.raises(StoreError, match="another history"):
            twin.backup(tmp_path / "copy")
    assert content(tmp_path / "copy") == content(old)


@pytest.mark.parametrize("kind", ["store", "letter", "file"])
def test_what_is_no_backup_is_left_alone(old: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "store":
        writer(target).close()
    elif kind == "letter":
        target.mkdir()
        (target / "letter.txt").write_text("dear")
    else:
        target.write_text("dear")
    before = names(target)
    with reader(old) as ring, pytest.raises(StoreError, match=r"no backup made|is no backup|is a file"):
        ring.backup(target)
    assert names(target) == before


@pytest.mark.parametrize("place", [".", "seg", "below/it", ".."])
def test_a_backup_never_lies_in_its_store_or_around_it(old: Path, place: str) -> None:
    before = names(old.parent)
    with reader(old) as ring, pytest.raises(ConfigError, match="lies in the store"):
        ring.backup(old / place)
    assert names(old.parent) == before


def test_a_symbolic_link_into_the_store_is_seen_through(old: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(old)
    with reader(old) as ring, pytest.raises(ConfigError, match="lies in the store"):
        ring.backup(tmp_path / "link")


def test_two_backups_to_one_place_do_not_mix(old: Path, tmp_path: Path) -> None:
    with (
        writer(tmp_path / "copy"),
        reader(old) as ring,
        pytest.raises(StoreError, match=r"writes to it|no backup"),
    ):
        ring.backup(tmp_path / "copy")
    with reader(old) as ring:
        ring.backup(tmp_path / "twice")
        with writer(tmp_path / "twice"), pytest.raises(StoreError, match="writes to it"):
            ring.backup(tmp_path / "twice")


def files_of(path: Path) -> list[str]:
    return sorted(names(path) - {"LOCK"})


def damage_one(path: Path, how: str, rng: random.Random) -> None:
    """Put a damaged file in place of one: maps of the old one stay good, as on a disk that lost bytes."""
    data = bytearray(path.read_bytes())
    path.unlink()
    if how == "missing":
        return
    if how == "flipped":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes({"short": data[: rng.randrange(len(data))], "long": data + b"\0"}.get(how, data))


@pytest.mark.parametrize("how", ["flipped", "short", "long", "missing"])
def test_a_damaged_file_is_named_and_the_backup_stays_as_it_was(old: Path, tmp_path: Path, how: str) -> None:
    """The store is open while it is damaged, so that only the copying can find it."""
    copy, rng = tmp_path / "copy", random.Random(how)
    with writer(old) as ring:
        ring.backup(copy)
        shutil.copytree(copy, tmp_path / "first")
        before = content(copy)
        add(ring, 35)
        ring.flush()
        fill_one(ring)
        add(ring, 36)
        victims = sorted(names(old) - names(copy))
        kinds = {Path(name).name.partition("-")[0] for name in victims}
        assert kinds >= {"hot.arrow", "text.arrow", "late", "segments", "ledger", "rejects", "segment.json"}
        for name in victims:
            if (name.startswith("wal/") and how == "long") or (
                name.endswith("segment.json") and how == "missing"
            ):
                continue  # that is a torn end, and a file that no manifest names
            whole = (old / name).read_bytes()
            shutil.rmtree(copy)  # it has what the run before brought
            shutil.copytree(tmp_path / "first", copy)
            damage_one(old / name, how, rng)
            with pytest.raises(StoreError) as caught:
                ring.backup(copy)
            assert Path(name).name in str(caught.value), name
            assert "\n" not in str(caught.value)
            with reader(copy) as backup:
                assert stored_numbers(backup) == before.numbers
            (old / name).unlink(missing_ok=True)
            (old / name).write_bytes(whole)
        assert content(copy) == before
        ring.backup(copy)
    assert content(copy) == content(old)


def test_reading_a_backup_whole_mends_what_is_damaged_in_it(old: Path, tmp_path: Path) -> None:
    copy, rng = tmp_path / "copy", random.Random(5)
    with reader(old) as ring:
        ring.backup(copy)
        victims = [n for n in files_of(copy) if n.endswith(".arrow")]
        for name in victims:
            damage_one(copy / name, "flipped", rng)
        careless = ring.backup(copy)
        assert (careless.files_copied, careless.files_mended) == (0, 0)
        report = ring.backup(copy, verify=True)
    assert report.files_mended == report.files_copied == len(victims)
    assert all((copy / name).read_bytes() == (old / name).read_bytes() for name in victims)


def test_a_file_that_vanished_from_a_backup_is_brought_again(old: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with reader(old) as ring:
        ring.backup(copy)
        victims = [n for n in files_of(copy) if n.startswith("seg/")][:2]
        for name in victims:
            (copy / name).unlink()
        assert ring.backup(copy).files_mended == len(victims)
    assert content(copy) == content(old)


def test_a_damaged_backup_is_named_and_not_built_upon(old: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for place in ("_manifest", "meta", "wal", "backup.json"):
        with reader(old) as ring:
            ring.backup(copy)
            victim = next(n for n in files_of(copy) if n.startswith(place))
            data = bytearray((copy / victim).read_bytes())
            data[30] ^= 1
            (copy / victim).write_bytes(data)
            with pytest.raises(DamageError, match=Path(victim).name):
                ring.backup(copy)
        shutil.rmtree(copy)


def test_readers_of_a_backup_keep_what_they_read(old: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with writer(old) as ring:
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
            assert [first, *rejects] == content(old).rejects[: len(content(old).rejects) - 1]
            snapshot.close()
            assert stored_numbers(looking) == list(range(40))
        ring.backup(copy)
        assert names(copy) - {"backup.json"} == names(old)


def test_other_threads_write_while_a_backup_is_made(old: Path, tmp_path: Path) -> None:
    """A backup lets go of the store while it copies: here its progress appends, flushes and folds."""
    with writer(old) as ring:

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
    assert content(tmp_path / "copy") == content(old)


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


# -- power loss, torn writes and failing calls ------------------------------------------------------------------------


def nothing_yet(root: Path) -> None:
    with writer(root / "ring") as ring:
        add(ring, 4)
        ring.flush()
        fill_one(ring)
        add(ring, 9)


def only_the_log_grew(root: Path) -> None:
    with writer(root / "ring") as ring:
        add(ring, 4)
        ring.backup(root / "copy")
        add(ring, 9)
        add(ring, 12)


def one_flush_later(root: Path) -> None:
    with writer(root / "ring") as ring:
        add(ring, 4)
        ring.backup(root / "copy")
        add(ring, 9)
        ring.flush()
        add(ring, 12)


def many_versions_later(root: Path) -> None:
    with writer(root / "ring") as ring:
        ring.set_model(MODEL)
        for end in (4, 6):
            add(ring, end)
            ring.flush()
        add(ring, 11)
        ring.backup(root / "copy")
        for end in (14, 16):
            add(ring, end)
            ring.flush()
        fill(ring)
        add(ring, 22)
        add(ring, 23)


SITUATIONS = (nothing_yet, only_the_log_grew, one_flush_later, many_versions_later)


@dataclass
class Bench:
    """A situation that can be set up again and again; n_before: events in the backup, None: there is none."""

    home: Path
    n_before: int | None
    n_all: int

    def set_up(self, name: str) -> Path:
        shutil.copytree(self.home / "start", self.home / name)
        return self.home / name


def bench(tmp_path: Path, situation: Callable[[Path], None]) -> Bench:
    start = tmp_path / "start"
    start.mkdir()
    situation(start)
    n_before = len(content(start / "copy").numbers) if (start / "copy").exists() else None
    return Bench(tmp_path, n_before, len(content(start / "ring").numbers))


def run(root: Path, files: Files) -> None:
    with reader(root / "ring", files) as ring:
        ring.backup(root / "copy")


def changes_of(bench: Bench, among: tuple[str, ...]) -> list[str]:
    root = bench.set_up("count")
    files = FaultyFiles(root)
    run(root, files)
    return [call for call in files.calls if not among or call in among]


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


def assert_same_files(copy: Path, ring: Path) -> None:
    assert names(copy) - {"backup.json", "LOCK"} == names(ring) - {"LOCK"}
    for name in names(ring) - {"LOCK"}:
        assert (copy / name).read_bytes() == (ring / name).read_bytes()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_power_loss_before_any_change_leaves_a_backup_that_can_be_read(
    tmp_path: Path, situation: Callable[[Path], None]
) -> None:
    place = bench(tmp_path, situation)
    calls = changes_of(place, CHANGES)
    assert len(calls) > 10
    for at in range(len(calls)):
        root = place.set_up(f"live-{at}")
        files = FaultyFiles(root, Fault(at, among=CHANGES))
        with pytest.raises(PowerLoss):
            run(root, files)
        for dice in (None, random.Random(at))[at % 2 :]:
            left = tmp_path / "left"
            left.mkdir()
            check_what_is_left(place, files.after_power_loss(left, dice))
            shutil.rmtree(left)
        shutil.rmtree(root)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_power_loss_in_the_middle_of_any_write_leaves_a_backup_that_can_be_read(
    tmp_path: Path, situation: Callable[[Path], None]
) -> None:
    place = bench(tmp_path, situation)
    calls = changes_of(place, CHANGES)
    for at in [at for at, call in enumerate(calls) if call == "write"]:
        root = place.set_up(f"live-{at}")
        files = FaultyFiles(root, Fault(at, is_torn=True, among=CHANGES))
        with suppress(PowerLoss):
            run(root, files)
        for dice in range(2):
            left = tmp_path / "left"
            left.mkdir()
            check_what_is_left(place, files.after_power_loss(left, random.Random(dice)))
            shutil.rmtree(left)
        shutil.rmtree(root)


@pytest.mark.parametrize("situation", (nothing_yet, many_versions_later))
def test_a_call_that_fails_leaves_a_backup_that_can_be_read(
    tmp_path: Path, situation: Callable[[Path], None]
) -> None:
    place = bench(tmp_path, situation)
    for at, call in enumerate(changes_of(place, ())):
        root = place.set_up(f"live-{at}")
        error = errno.ENOSPC if call in ("create", "write", "link", "mkdir") else errno.EIO
        with suppress(StoreError):
            run(root, FaultyFiles(root, Fault(at, error, is_torn=True)))
        check_what_is_left(place, root)
        shutil.rmtree(root)


def test_an_interrupt_at_any_call_leaves_a_backup_that_can_be_read(tmp_path: Path) -> None:
    place = bench(tmp_path, many_versions_later)
    for at in range(len(changes_of(place, CHANGES))):
        root = place.set_up(f"live-{at}")
        files = FaultyFiles(root, Fault(at, is_torn=True, is_interrupt=True, among=CHANGES))
        with suppress(KeyboardInterrupt):
            run(root, files)
        check_what_is_left(place, root)
        shutil.rmtree(root)


def test_a_power_loss_while_restoring_leaves_nothing_or_all(tmp_path: Path) -> None:
    place = bench(tmp_path, nothing_yet)

    def restore(root: Path, files: Files) -> None:
        with reader(root / "ring", files) as ring:
            ring.restore(root / "copy")

    root = place.set_up("count")
    files = FaultyFiles(root)
    restore(root, files)
    for at in range(len([call for call in files.calls if call in CHANGES])):
        root = place.set_up(f"live-{at}")
        files = FaultyFiles(root, Fault(at, among=CHANGES))
        with pytest.raises(PowerLoss):
            restore(root, files)
        for dice in (None, random.Random(at)):
            left = tmp_path / "left"
            left.mkdir()
            files.after_power_loss(left, dice)
            if not root_versions(OS_FILES, left / "copy" / "_manifest"):
                restore(left, FaultyFiles(left))
            with reader(left / "copy") as ring:
                assert stored_numbers(ring) == list(range(9))
            left_over = {name for name in names(left / "copy") if name.endswith(".tmp")}
            assert len(left_over) <= 1  # of the commit: the next writer sweeps it
            for name in left_over:
                (left / "copy" / name).unlink()
            assert_same_files(left / "copy", left / "ring")
            shutil.rmtree(left)
        shutil.rmtree(root)


# -- restore ----------------------------------------------------------------------------------------------------------


def test_a_restored_store_is_the_same_store_and_no_backup(old: Path, tmp_path: Path) -> None:
    copy, again = tmp_path / "copy", tmp_path / "again"
    with reader(old) as ring:
        ring.backup(copy)
    shutil.rmtree(old)
    with reader(copy) as ring:
        report = ring.restore(again)
        assert report.events == 30
    assert content(again) == content(copy)
    assert names(again) == names(copy) - {"backup.json"}
    with writer(again) as ring:
        add(ring, 33)
        ring.flush()
        ring.backup(copy)
    assert content(copy).numbers == list(range(33))


@pytest.mark.parametrize("kind", ["store", "backup", "letter"])
def test_restoring_needs_an_empty_place(old: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with reader(old) as ring:
        if kind == "store":
            writer(target).close()
        elif kind == "backup":
            ring.backup(target)
        else:
            (target / "letter.txt").write_text("dear")
        before = names(target)
        with pytest.raises(StoreError, match="give an empty or a new directory"):
            ring.restore(target)
    assert names(target) == before


def test_a_damaged_backup_is_not_restored(old: Path, tmp_path: Path) -> None:
    copy, rng = tmp_path / "copy", random.Random(3)
    with reader(old) as ring:
        ring.backup(copy)
    for number, name in enumerate(sorted(names(copy) - {"backup.json", "LOCK"})):
        whole = (copy / name).read_bytes()
        damage_one(copy / name, "flipped", rng)
        target = tmp_path / f"target-{number}"
        if name.startswith("wal/"):
            continue  # its last frame may be torn: that is no damage
        with pytest.raises(DamageError, match=Path(name).name), reader(copy) as ring:
            ring.restore(target)
        with pytest.raises(StoreError):
            reader(target)
        (copy / name).write_bytes(whole)


# -- format 1 ---------------------------------------------------------------------------------------------------------


def test_a_store_of_format_1_is_backed_up_as_it_is(tmp_path: Path) -> None:
    archive = Path(__file__).parent / "data" / "format-1.tar.xz"
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    path = next(p.parent for p in tmp_path.rglob("_manifest"))

    def no_decoder(raw: RawBatch, first_seq: int) -> ColumnBatch:
        raise AssertionError("nothing of the log is decoded to copy it")

    with Ring.open(path, "r", decoder=no_decoder) as ring:
        first = ring.backup(tmp_path / "copy")
        again = ring.backup(tmp_path / "copy")
        assert again.files_copied == 0
        assert again.events == first.events > 0
    assert names(tmp_path / "copy") - {"backup.json", "LOCK"} == names(path) - {"LOCK"}
    (tmp_path / "copy" / "backup.json").write_bytes(BackupRecord("", (StateRecord(1, 2, ()),)).packed())
    with (
        Ring.open(path, "r", decoder=no_decoder) as ring,
        pytest.raises(StoreError, match="written to since the last backup"),
    ):
        ring.backup(tmp_path / "copy")


# -- the record -------------------------------------------------------------------------------------------------------


def test_the_record_of_a_backup_comes_back(tmp_path: Path) -> None:
    states = (
        StateRecord(7, 0xDEADBEEF, (LogFile(3, 24, 1), LogFile(4, 1000, 2))),
        StateRecord(6, 5, ()),
    )
    record = BackupRecord("ab" * 16, states)
    layout = Layout(tmp_path)
    assert BackupRecord.read(OS_FILES, layout) is None
    layout.backup.write_bytes(record.packed())
    assert BackupRecord.read(OS_FILES, layout) == record
    layout.backup.write_bytes(pack("model", {}))
    with pytest.raises(DamageError, match=r"backup\.json"):
        BackupRecord.read(OS_FILES, layout)


@pytest.mark.parametrize(
    ("found", "is_known"),
    [
        (LogFile(3, 24, 1), True),
        (LogFile(3, 24, 9), False),
        (LogFile(4, 500, 9), True),  # on the way to 1000
        (LogFile(4, 1000, 2), True),
        (LogFile(4, 1000, 3), False),
        (LogFile(4, 1001, 2), False),
        (LogFile(5, 24, 1), False),
    ],
)
def test_the_record_knows_the_logs_that_a_backup_can_have_made(found: LogFile, is_known: bool) -> None:
    record = BackupRecord("", (StateRecord(7, 0, (LogFile(3, 24, 1), LogFile(4, 1000, 2))),))
    assert record.has_log([found]) is is_known


def test_a_root_is_known_by_version_and_checksum(old: Path, tmp_path: Path) -> None:
    with reader(old) as ring:
        ring.backup(tmp_path / "copy")
    layout = Layout(tmp_path / "copy")
    record = BackupRecord.read(OS_FILES, layout)
    assert record is not None
    (state,) = record.states
    assert root_path(layout.manifest, state.version).exists()
    assert record.has_root(state.version, state.crc32c)
    assert not record.has_root(state.version, state.crc32c ^ 1)
    assert not record.has_root(state.version + 1, state.crc32c)
