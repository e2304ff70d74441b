"""A copy of a live store: consistent, checked on the way, and a store itself at every moment.

What is immutable is copied once; the log grows at its end; the root comes when all that it names is durable.
A crash leaves the target at its state before, or at the new one up to some frame at the end of the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .backup_record import BackupRecord, StateRecord
from .backup_target import Target
from .blame import as_damage, past_damage
from .catalog import Catalog
from .copying import PART, Copier, CopyProgress, Tally
from .document import unpack
from .files import Files, crc32c, write_file
from .layout import SEGMENT_FILE, Layout
from .log_copy import LogCopy, log_files
from .manifest import publish, root_path, staged_path
from .opening import make_directories, sync_parent
from .retired import Retired, leftovers, unnamed_in
from .stored_file import StoredFile
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

    The caller holds it (`writing_to`), and since before it took the state. verify: read what is there, too, and
    bring anew what is not as it was written, whatever that is, as long as the rest says that it is a backup of this
    store. Raises DamageError for a file of the store that is damaged, StoreError
    for a directory that is no backup of this store, that was written to or that is newer; then the backup is at the
    state that it was at.
    """
    started_s = time.monotonic()
    tally = Tally(progress=progress)
    _Copy(files, state, target, verify=verify, tally=tally).update()
    return _report(state, target, tally, started_s)


def restore(
    files: Files, state: StateToCopy, target: Layout, *, progress: CopyProgress | None = None
) -> BackupReport:
    """Copy this state into a new or empty directory, as a store that is no backup any more.

    The caller holds it (`writing_to`). Raises DamageError for a damaged file, after which there is no store.
    """
    started_s = time.monotonic()
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
        found = Target(files, target, self._root.store_id, self._new)
        self._held, catalog = found.held(mends=verify)
        known = {} if catalog is None else dict(_named(catalog))
        self._copier = Copier(files, state.files, self._source.path, target.path, known, verify, tally)
        self._log = LogCopy(self._copier, () if self._held is None else self._held.log, wanted)

    def update(self) -> None:
        """Do it."""
        held = self._held
        self._log.check(() if held is None else held.recorded)
        self._tally.n_bytes_total = self._n_bytes()
        if held is None:
            self._begin()
        else:
            self._make_missing()
        self._copy_files()
        self._log.stage()
        staged = self._stage_root()
        if held is not None:
            self._write_record()
            if held.is_log_lost:
                self._log.clear(held.recorded)
        self._log.make_room()
        if self._log.goes_on:
            self._log.bring()
        self._commit(staged)
        if not self._log.goes_on:
            self._log.bring()
        self._sweep()

    def _n_bytes(self) -> int:
        files = sum(file.n_bytes for _, file in _named(self._state.catalog))
        return files + sum(file.n_bytes for file in self._new.log) + len(self._root_bytes)

    def _begin(self) -> None:
        """Say what this will be before anything else is there, so that an unfinished one can be told."""
        self._write_record()
        make_directories(self._files, self._target)
        sync_parent(self._files, self._target.path)
        # Of an earlier run that was not finished: no root counts on them yet, but the coming one would.
        for number in wal_numbers(self._files, self._target.wal):
            self._files.unlink(wal_path(self._target.wal, number))
        self._files.fsync_dir(self._target.wal)

    def _make_missing(self) -> None:
        there = {self._target.path / name for name in self._files.listdir(self._target.path)}
        if not there.issuperset(self._target.directories):
            make_directories(self._files, self._target)

    def _write_record(self) -> None:
        states = [self._new] if self._held is None else [self._new, self._held.state]
        record = BackupRecord(self._root.store_id, tuple(states))
        self._copier.put(_BELOW.backup, [record.packed()])

    def _copy_files(self) -> None:
        catalog, is_new = self._state.catalog, False
        for meta in catalog.segments.entries.values():
            directory = _BELOW.segment(meta.id)
            is_fresh = self._copier.copy(directory, meta.all_files())
            self._copy_facts(directory, is_fresh=is_fresh)
            is_new |= is_fresh
        if is_new:
            self._files.fsync_dir(self._target.segments)
        self._copier.copy(_BELOW.rejects, [file.file for file in catalog.rejects.entries.values()])
        self._copier.copy(_BELOW.lists, sorted(catalog.root.files(), key=_name))

    def _copy_facts(self, directory: Path, *, is_fresh: bool) -> None:
        """Bring what a segment's directory says of itself; no manifest names it, it has its own checksum."""
        path = directory / SEGMENT_FILE
        try:
            with as_damage(self._source.path / path):
                data = self._state.files.read(self._source.path / path)
        except FileNotFoundError:
            return
        there = b""
        with past_damage():
            there = self._files.read(self._target.path / path)
        self._tally.n_bytes_total += len(data)
        if there == data:
            if is_fresh:
                self._files.fsync_dir(self._target.path / directory)
            return self._tally.present(len(data))
        unpack("segment", data, str(self._source.path / path))
        self._tally.n_mended += bool(there) and not _is_document(there)
        self._copier.put(path, [data])
        self._tally.copied(len(data), n_files=1)

    @property
    def _root_place(self) -> Path:
        return root_path(_BELOW.manifest, self._root.version)

    def _stage_root(self) -> Path | None:
        """Write the root, None where the target has it."""
        held = self._held
        if held is not None and held.state.version == self._root.version:
            if not held.is_root_lost:
                return None
            self._copier.stage(self._root_place, [self._root_bytes])
            return self._target.path / self._root_place
        staged = staged_path(self._target.manifest, self._root.version)
        if staged.name in self._files.listdir(self._target.manifest):
            self._files.unlink(staged)
        write_file(self._files, staged, [self._root_bytes])
        return staged

    def _commit(self, staged: Path | None) -> None:
        if staged is None:
            # A run that was killed may have linked it and not more.
            return self._files.fsync_dir(self._target.manifest)
        if staged.suffix == self._root_place.suffix:
            # A damaged one lies there.
            self._copier.name(_BELOW.manifest, [self._root_place.name])
            self._tally.n_mended += 1
            return self._tally.copied(len(self._root_bytes), n_files=1)
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
            yield from unnamed_in(self._files, self._target, meta)


def _named(catalog: Catalog) -> Iterator[tuple[Path, StoredFile]]:
    """Give every immutable file that a version names, with its path below the store."""
    yield from ((_BELOW.lists / file.name, file) for file in sorted(catalog.root.files(), key=_name))
    yield from ((_BELOW.rejects / name, file.file) for name, file in catalog.rejects.entries.items())
    for meta in catalog.segments.entries.values():
        yield from ((_BELOW.segment(meta.id) / file.name, file) for file in meta.all_files())


def _is_document(data: bytes) -> bool:
    """Whether this is a segment.json as it was written, perhaps before a repair of the store wrote another one."""
    with past_damage():
        unpack("segment", data, SEGMENT_FILE)
        return True
    return False


def _name(file: StoredFile) -> str:
    return file.name


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
