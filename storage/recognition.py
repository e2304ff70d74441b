"""Whether a directory is a backup of this store, and at which state of it: what a backup may write to."""

from __future__ import annotations

from dataclasses import dataclass

from .backup_record import BackupRecord, LogFile, StateRecord
from .errors import StoreError
from .layout import Layout


@dataclass(frozen=True, slots=True)
class Recognition:
    """Compares the directory `layout` with the store `store_id`, which is at the state `new`."""

    layout: Layout
    store_id: str
    new: StateRecord

    def expect_record(self, record: BackupRecord | None) -> BackupRecord:
        """Give the record of the directory. Raises StoreError unless it is of this store."""
        if record is None:
            raise self.refused("it is a store that no backup made")
        if record.store_id != self.store_id:
            told, own = (name or "of format 1, which has no id," for name in (record.store_id, self.store_id))
            raise self.refused(f"it is a backup of another store: {told}; this one is {own}")
        return record

    def expect_root(self, version: int, checksum: int) -> None:
        """Raise StoreError unless a root that a backup made may become that of this state."""
        is_same = (version, checksum) == (self.new.version, self.new.crc32c)
        if version > self.new.version:
            raise self.refused(f"it is newer: at version {version}, the store at {self.new.version}")
        if not is_same and (version == self.new.version or not self.store_id):
            raise self.refused(f"its version {version} has another history than the store's")

    def written_to(self, version: int) -> StoreError:
        """Give the error of a directory whose root no backup made."""
        return self.refused(f"it was written to since the last backup: it is at version {version}")

    def grown(self) -> StoreError:
        """Give the error of a directory whose log has more than backups put there."""
        return self.refused("events came to its log since the last backup")

    def refused(self, reason: str) -> StoreError:
        """Give the error that says why nothing is written to the directory."""
        return StoreError(
            f"{self.layout.path}: cannot back up to it: {reason}; give an empty or a new directory"
        )


@dataclass(frozen=True, slots=True)
class HeldState:
    """What a backup holds before the next one. state: which it is, by its record.

    log: what of its log is taken as it is. is_root_lost: its root is brought anew; is_log_lost: all of its log is.
    recorded: the log that a backup once put there.
    """

    state: StateRecord
    log: tuple[LogFile, ...]
    is_root_lost: bool = False
    is_log_lost: bool = False

    @property
    def recorded(self) -> tuple[LogFile, ...]:
        """The log that a backup put there, or that is there."""
        return self.state.log if self.is_log_lost else self.log
