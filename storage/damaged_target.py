"""A backup that is damaged, recognised by what is left of it: then a backup that reads it whole brings it anew.

Its record says of which store it is and at which states it may be; of a damaged record, what of it can be read and
agrees with the rest. Nothing is written over that may have come there from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .backup_record import BackupRecord, LogFile, StateRecord
from .blame import past_damage
from .blocks import read_past
from .catalog import Catalog
from .check_catalog import Held, read_held
from .errors import StoreError
from .files import Files, crc32c
from .layout import Layout
from .log_copy import has_frames, held_log
from .log_scan import scan_log
from .manifest import root_path, root_versions
from .recognition import HeldState, Recognition


@dataclass(frozen=True, slots=True)
class DamagedTarget:
    """A directory that is held, of which something is damaged that says what it holds."""

    files: Files
    layout: Layout
    recognition: Recognition

    def held(self) -> tuple[HeldState | None, Catalog | None]:
        """Give what it holds and what it names, as `Target.held`. Raises StoreError where it is not recognised."""
        record, is_whole = self._record()
        versions = root_versions(self.files, self.layout.manifest)
        if not versions:
            if record.store_id != self.recognition.store_id:
                raise self._unknown("what it says of itself is damaged, and there is no manifest")
            self.expect_own_log(record)
            return None, None
        held = read_held(self.files, self.layout, versions[-1])
        state = self._state(record, held, is_whole=is_whole)
        self.recognition.expect_root(state.version, state.crc32c)
        log = None if held.root is None else self._log(held.root.wal_floor)
        if log is None:
            self.expect_own_log(record)
        elif not all(self._is_own(file, record) for file in filter(has_frames, log)):
            raise self.recognition.grown()
        catalog = None if held.root is None else Catalog(held.root, **held.lists, model=held.model)
        return HeldState(state, log or (), held.root is None, log is None), catalog

    def _record(self) -> tuple[BackupRecord, bool]:
        """Give the record, or what is left of it, and whether it is whole."""
        with past_damage():
            return self.recognition.expect_record(BackupRecord.read(self.files, self.layout)), True
        with past_damage():
            return BackupRecord.claimed(read_past(self.files, self.layout.backup)), False
        return BackupRecord("", ()), False

    def _state(self, record: BackupRecord, held: Held, *, is_whole: bool) -> StateRecord:
        """Give the state that it is at. Raises StoreError where that is none that a backup made."""
        version, new = held.version, self.recognition.new
        recorded = {state.version: state for state in record.states}.get(version)
        if held.root is None:
            if recorded is None or record.store_id != self.recognition.store_id:
                raise self._unknown("its manifest is damaged, and it does not say that a backup made it")
            return recorded
        checksum = crc32c(self.files.read(root_path(self.layout.manifest, version)))
        if held.root.store_id != self.recognition.store_id:
            raise self._unknown(f"it is damaged, and its manifest is of another store: {held.root.store_id}")
        if record.has_root(version, checksum):
            return recorded or StateRecord(version, checksum, ())
        if is_whole:
            raise self.recognition.written_to(version)
        if (version, checksum) != (new.version, new.crc32c):
            raise self._unknown("what it says of itself is damaged, and the store has gone on since")
        return new

    def _log(self, floor: int) -> tuple[LogFile, ...] | None:
        """Give the log from its floor on, None where it is damaged."""
        with past_damage():
            return held_log(self.files, self.layout.wal, floor)
        return None

    def _is_own(self, file: LogFile, record: BackupRecord) -> bool:
        """Whether a backup put these frames there, as its record says or as the copying will find out."""
        return record.has_log([file]) or any(file.number == one.number for one in self.recognition.new.log)

    def expect_own_log(self, record: BackupRecord) -> None:
        """Raise StoreError where a whole frame stands behind those that a backup put there."""
        ends = self._ends(record)
        for scanned in scan_log(self.files, self.layout.wal, min(ends, default=0)):
            end = ends.get(scanned.number, 0)
            if any(frame.end > end for frame in scanned.frames):
                raise self.recognition.grown()

    def _ends(self, record: BackupRecord) -> Mapping[int, int]:
        ends: dict[int, int] = {}
        for state in record.states or (self.recognition.new,):
            for file in state.log:
                ends[file.number] = max(file.n_bytes, ends.get(file.number, 0))
        return ends

    def _unknown(self, reason: str) -> StoreError:
        return self.recognition.refused(reason)
