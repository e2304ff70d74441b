"""The directory of a backup or a restore: whether it may be written to, and what an earlier backup left there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .backup_record import BackupRecord, StateRecord
from .blame import as_damage, is_damage, told
from .catalog import Catalog, load
from .claim import Claim
from .claimed_files import claimed
from .copying import PART
from .damaged_target import DamagedTarget
from .document import unpack
from .errors import ConfigError, DamageError, StoreError
from .files import Files, as_store_error, crc32c
from .layout import Layout
from .locking import Patience, lock_for_writing
from .log_copy import has_frames, held_log
from .manifest import root_path, root_versions
from .opening import make_directory
from .recognition import HeldState, Recognition


@contextmanager
def writing_to(
    target: Layout, files: Files, source: Layout, patience: Patience, *, is_restore: bool
) -> Iterator[Files]:
    """Hold the target of a copy of `source`, once it is clear that it may be written to; made where it is missing.

    Gives the files to write to it with, which stop where it is another one by then (`Claim`). patience: how long to
    wait for another process that copies to it. Raises StoreError for a target that has something else in it,
    ConfigError for one that lies in the source.
    """
    own, other = source.path.resolve(), target.path.resolve()
    if own == other or own in other.parents or other in own.parents:
        raise ConfigError(
            f"{target.path}: lies in the store {source.path}, or that in it; give another directory"
        )
    with as_store_error(target.path, "restore to it" if is_restore else "back up to it"):
        _check_target(files, target, is_restore=is_restore)
        make_directory(files, target.path)
        lock = lock_for_writing(files, target, patience)
        try:
            _check_target(files, target, is_restore=is_restore)  # who held it may have brought something
            yield claimed(files, Claim(target, lock))
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


@dataclass(frozen=True, slots=True)
class Target:
    """A directory that is held (`writing_to`), for a copy of the store `store_id` at the state `new`."""

    files: Files
    layout: Layout
    store_id: str
    new: StateRecord

    def held(self, *, mends: bool) -> tuple[HeldState | None, Catalog | None]:
        """Give what it holds, None where a backup has not made anything yet, and what it names as far as that is known.

        mends: a damaged one may be brought anew. Raises StoreError unless a backup of this store made it, DamageError
        for a damaged one that is not to be mended.
        """
        recognition = Recognition(self.layout, self.store_id, self.new)
        try:
            return self._held(recognition)
        except OSError as error:
            if not is_damage(error):
                raise
            if not mends:
                raise self._damaged(error) from error
        return DamagedTarget(self.files, self.layout, recognition).held()

    def _held(self, recognition: Recognition) -> tuple[HeldState | None, Catalog | None]:
        record = BackupRecord.read(self.files, self.layout)
        versions = root_versions(self.files, self.layout.manifest)
        if not versions:
            if record is not None:
                DamagedTarget(self.files, self.layout, recognition).expect_own_log(record)
            return None, None
        version, path = versions[-1], root_path(self.layout.manifest, versions[-1])
        with as_damage(path):
            data = self.files.read(path)
        unpack("manifest", data, str(path))
        record, checksum = recognition.expect_record(record), crc32c(data)
        if not record.has_root(version, checksum):
            raise recognition.written_to(version)
        recognition.expect_root(version, checksum)
        catalog = load(self.files, self.layout, version)
        catalog.ledger.load()
        log = held_log(self.files, self.layout.wal, catalog.root.wal_floor)
        if not record.has_log(filter(has_frames, log)):
            raise recognition.grown()
        return HeldState(StateRecord(version, checksum, log), log), catalog

    def _damaged(self, error: OSError) -> DamageError:
        path = Path(error.filename) if isinstance(error.filename, str) else self.layout.path
        what = (
            str(error).partition("; ")[0]
            if isinstance(error, DamageError)
            else f"{path}: {told(error, path)}"
        )
        return DamageError(
            f"{what}; the backup is damaged: `treering backup --verify` brings that anew", path=path
        )
