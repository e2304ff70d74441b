"""A copy of a live store: consistent, checked on the way, and a store itself at every moment.

What is immutable is copied once; the log grows at its end; the root comes when all that it names is durable.
A crash leaves the target at its state before, or at the new one up to some frame at the end of the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .backup_record import BackupRecord, LogFile, StateRecord
from .catalog import Catalog, load
from .copying import PART, Copier, CopyProgress, Tally
from .document import unpack
from .errors import ConfigError, DamageError, StoreError
from .files import Files, as_store_error, crc32c, write_file
from .layout import SEGMENT_FILE, Layout
from .locking import AT_ONCE, lock_for_writing
from .log_copy import LogCopy, has_frames, held_log, log_files
from .manifest import publish, root_path, root_versions
from .meta import StoredFile
from .opening import make_directory
from .retired import Retired, leftovers
from .wal import Mark, wal_numbers, wal_path

_BELOW = Layout(Path())
"""Paths below the directory of a store."""


@dataclass(frozen=True, slots=True)
class StateToCopy:
    """A state of a store, which the caller holds. end: behind its last frame. next_seq: what would come there."""

    files: Files
    layout: Layout
    catalog: Catalog
    end: Mark
    next_seq: int

    @property
    def n_rows(self) -> int:
        """Events in it."""
        segments = sum(meta.n_live for meta in self.catalog.segments.entries.values())
        return segments + self.next_seq - self.catalog.root.next_seq


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup or a restore did.

    path: the copy. files_copied, bytes_copied: what was written, but for `backup.json`. bytes_present: what was
    there before. files_mended: of those copied, files that were there damaged. events, version: of the copy.
    seconds: wall time.
    """

    path: Path
    files_copied: int
    bytes_copied: int
    bytes_present: int
    files_mended: int
    events: int
    version: int
    seconds: float


def back_up(
    files: Files,
    state: StateToCopy,
    target: Layout,
    *,
    verify: bool = False,
    progress: CopyProgress | None = None,
) -> BackupReport:
    """Bring a backup to this state of the store; its directory is made where there is none.

    verify: read what is there, too, and bring anew what is not as it was written. Raises DamageError for a
    file of the store that is damaged, StoreError for a directory that is no backup of this store, that was
    written to or that is newer; then the backup is at the state that it was at.
    """
    started_s = time.monotonic()
    with _writing(files, state.layout, target, is_restore=False):
        tally = Tally(progress=progress)
        _Copy(files, state, target, verify=verify, tally=tally).update()
    return _report(state, target, tally, started_s)


def restore(
    files: Files, state: StateToCopy, target: Layout, *, progress: CopyProgress | None = None
) -> BackupReport:
    """Copy this state into a new or empty directory, as a store that is no backup any more.

    Raises DamageError for a damaged file, after which there is no store; StoreError where something is there.
    """
    started_s = time.monotonic()
    with _writing(files, state.layout, target, is_restore=True):
        tally = Tally(progress=progress)
        _Copy(files, state, target, verify=True, tally=tally).update()
        files.unlink(target.backup)
        files.fsync_dir(target.path)
    return _report(state, target, tally, started_s)


class _Copy:
    """One run: from what is in the target to a state of the source."""

    def __init__(
        self, files: Files, state: StateToCopy, target: Layout, *, verify: bool, tally: Tally
    ) -> None:
        self._files, self._state, self._target, self._tally = files, state, target, tally
        self._source, self._root = state.layout, state.catalog.root
        self._root_bytes = state.files.read(root_path(self._source.manifest, self._root.version))
        unpack("manifest", self._root_bytes, str(root_path(self._source.manifest, self._root.version)))
        wanted = log_files(state.files, self._source.wal, self._root.wal_floor, state.end)
        self._new = StateRecord(self._root.version, crc32c(self._root_bytes), wanted)
        self._record = BackupRecord.read(files, target)
        self._old, self._held = self._newest()
        known = {} if self._old is None else dict(_named(self._old))
        self._copier = Copier(files, state.files, self._source.path, target.path, known, verify, tally)
        self._log = LogCopy(self._copier, self._held, wanted)

    def update(self) -> None:
        """Do it."""
        self._log.check()
        self._tally.n_bytes_total = self._n_bytes()
        if self._old is None:
            self._begin()
        self._copy_files()
        self._log.stage()
        staged = self._stage_root()
        if self._old is not None:
            self._write_record(self._held)
        self._log.make_room()
        if self._log.goes_on:
            self._log.bring()
        self._commit(staged)
        if not self._log.goes_on:
            self._log.bring()
        self._sweep()

    def _newest(self) -> tuple[Catalog | None, tuple[LogFile, ...]]:
        """Give what the target holds. Raises StoreError unless a backup of this store made it."""
        versions = root_versions(self._files, self._target.manifest)
        if not versions:
            return None, ()
        version, path = versions[-1], root_path(self._target.manifest, versions[-1])
        data = self._files.read(path)
        unpack("manifest", data, str(path))
        self._check_history(version, crc32c(data))
        try:
            catalog = load(self._files, self._target, version)
            catalog.ledger.load()
        except FileNotFoundError as error:
            raise DamageError(
                f"{error.filename}: missing, the backup's manifest {version} names it; give a new directory"
            ) from error
        held = held_log(self._files, self._target.wal, catalog.root.wal_floor)
        if self._record is None or not self._record.has_log(filter(has_frames, held)):
            raise self._refused("events came to its log since the last backup")
        return catalog, held

    def _check_history(self, version: int, checksum: int) -> None:
        record, store_id = self._record, self._root.store_id
        is_same = (version, checksum) == (self._new.version, self._new.crc32c)
        if record is None:
            raise self._refused("it is a store that no backup made")
        if record.store_id != store_id:
            told, own = (name or "of format 1, which has no id," for name in (record.store_id, store_id))
            raise self._refused(f"it is a backup of another store: {told}; this one is {own}")
        if not record.has_root(version, checksum):
            raise self._refused(f"it was written to since the last backup: it is at version {version}")
        if version > self._new.version:
            raise self._refused(f"it is newer: at version {version}, the store at {self._new.version}")
        if not is_same and (version == self._new.version or not store_id):
            raise self._refused(f"its version {version} has another history than the store's")

    def _refused(self, reason: str) -> StoreError:
        return StoreError(
            f"{self._target.path}: cannot back up to it: {reason}; give an empty or a new directory"
        )

    def _n_bytes(self) -> int:
        files = sum(file.n_bytes for _, file in _named(self._state.catalog))
        return files + sum(file.n_bytes for file in self._new.log) + len(self._root_bytes)

    def _begin(self) -> None:
        """Say what this will be before anything else is there, so that an unfinished one can be told."""
        self._write_record(())
        for directory in self._target.directories:
            self._files.mkdir(directory)
        self._files.fsync_dir(self._target.path)
        # Of an earlier run that was not finished: no root counts on them yet, but the coming one would.
        for number in wal_numbers(self._files, self._target.wal):
            self._files.unlink(wal_path(self._target.wal, number))
        self._files.fsync_dir(self._target.wal)

    def _write_record(self, held: tuple[LogFile, ...]) -> None:
        states = [self._new]
        if self._old is not None:
            root = self._old.root
            path = root_path(self._target.manifest, root.version)
            states.append(StateRecord(root.version, crc32c(self._files.read(path)), held))
        record = BackupRecord(self._root.store_id, tuple(states))
        self._copier.put(_BELOW.backup, [record.packed()])

    def _copy_files(self) -> None:
        catalog, is_new = self._state.catalog, False
        for meta in catalog.segments.entries.values():
            directory = _BELOW.segment(meta.id)
            is_new |= self._copier.copy(directory, meta.all_files())
            self._copy_facts(directory)
        if is_new:
            self._files.fsync_dir(self._target.segments)
        self._copier.copy(_BELOW.rejects, [file.file for file in catalog.rejects.entries.values()])
        self._copier.copy(_BELOW.lists, sorted(catalog.root.files(), key=_name))

    def _copy_facts(self, directory: Path) -> None:
        """Bring what a segment's directory says of itself; no manifest names it, it has its own checksum."""
        path = directory / SEGMENT_FILE
        try:
            data = self._state.files.read(self._source.path / path)
        except FileNotFoundError:
            return
        try:
            is_there = self._files.read(self._target.path / path) == data
        except FileNotFoundError:
            is_there = False
        self._tally.n_bytes_total += len(data)
        if is_there:
            return self._tally.present(len(data))
        unpack("segment", data, str(self._source.path / path))
        self._copier.put(path, [data])
        self._tally.copied(len(data), n_files=1)

    def _stage_root(self) -> Path | None:
        """Write the root, None where the target has it."""
        if self._old is not None and self._old.root.version == self._root.version:
            return None
        staged = self._target.manifest / f"{self._root.version:020d}.tmp"
        if staged.name in self._files.listdir(self._target.manifest):
            self._files.unlink(staged)
        write_file(self._files, staged, [self._root_bytes])
        return staged

    def _commit(self, staged: Path | None) -> None:
        if staged is not None:
            publish(self._files, self._target.manifest, staged, self._root.version)
            self._tally.copied(len(self._root_bytes), n_files=1)

    def _sweep(self) -> None:
        """Remove what the newest root does not name; what readers of an older one need waits for the next run."""
        retired = Retired(self._files, self._target)
        retired.add(leftovers(self._files, self._target, self._state.catalog), self._root.version)
        retired.add(self._surplus(), self._root.version)
        retired.collect(self._root.version)

    def _surplus(self) -> Iterator[Path]:
        for directory in (self._target.path, self._target.wal):
            names = self._files.listdir(directory)
            yield from (directory / name for name in names if name.endswith(PART))
        for meta in self._state.catalog.segments.entries.values():
            directory = self._target.segment(meta.id)
            known = {SEGMENT_FILE, *(file.name for file in meta.all_files())}
            yield from (directory / name for name in self._files.listdir(directory) if name not in known)


def _named(catalog: Catalog) -> Iterator[tuple[Path, StoredFile]]:
    """Give every immutable file that a version names, with its path below the store."""
    yield from ((_BELOW.lists / file.name, file) for file in sorted(catalog.root.files(), key=_name))
    yield from ((_BELOW.rejects / name, file.file) for name, file in catalog.rejects.entries.items())
    for meta in catalog.segments.entries.values():
        yield from ((_BELOW.segment(meta.id) / file.name, file) for file in meta.all_files())


def _name(file: StoredFile) -> str:
    return file.name


@contextmanager
def _writing(files: Files, source: Layout, target: Layout, *, is_restore: bool) -> Iterator[None]:
    """Hold the target's lock, once it is clear that it may be written to."""
    own, other = source.path.resolve(), target.path.resolve()
    if own == other or own in other.parents or other in own.parents:
        raise ConfigError(
            f"{target.path}: lies in the store {source.path}, or that in it; give another directory"
        )
    with as_store_error(target.path, "restore to it" if is_restore else "back up to it"):
        _check_target(files, target, is_restore=is_restore)
        make_directory(files, target.path)
        lock = lock_for_writing(files, target, AT_ONCE)
        try:
            yield
        finally:
            lock.release()


def _check_target(files: Files, target: Layout, *, is_restore: bool) -> None:
    try:
        names = set(files.listdir(target.path))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise StoreError(f"{target.path}: is a file, a store is a directory; give another path") from None
    has_root = bool(root_versions(files, target.manifest))
    if is_restore and has_root:
        raise StoreError(f"{target.path}: there is a store already; give an empty or a new directory")
    # A backup begins with these two, and what else is there came behind its record.
    begun = {target.lock.name, target.backup.name + PART}
    if has_root or target.backup.name in names or names <= begun:
        return
    raise StoreError(
        f"{target.path}: holds {min(names - begun)!r} and is no backup; give an empty or a new directory"
    )


def _report(state: StateToCopy, target: Layout, tally: Tally, started_s: float) -> BackupReport:
    return BackupReport(
        path=target.path,
        files_copied=tally.n_files,
        bytes_copied=tally.n_bytes,
        bytes_present=tally.n_bytes_present,
        files_mended=tally.n_mended,
        events=state.n_rows,
        version=state.catalog.root.version,
        seconds=time.monotonic() - started_s,
    )
