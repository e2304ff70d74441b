"""Opening a store for writing: the lock, the first files of a new store, the newest version of an old one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .catalog import Catalog, Change, Committer, load
from .errors import StoreError
from .files import Files, Lock
from .layout import Layout
from .locking import AT_ONCE, Patience, lock_for_writing
from .manifest import Root, missing_file, root_versions
from .newest import has_parts, lost_manifest, newest_version, unfinished
from .remote import Remote, is_remote
from .takeover import is_committed
from .wal import WalWriter, wal_numbers, wal_path

NOTHING = Catalog(Root(version=0, epoch=0, wal_floor=0, next_seq=0))
"""What a store holds before its first version."""


def take_lock(files: Files, layout: Layout, patience: Patience = AT_ONCE) -> Lock:
    """Become the one writer of a store, which is made if the directory is missing or empty.

    Raises StoreError where another process writes, and where something else lies in the directory.
    """
    _check_directory(files, layout)
    make_directory(files, layout.path)
    return lock_for_writing(files, layout, patience)


def open_catalog(files: Files, layout: Layout) -> Catalog:
    """Give the newest version, made if there is none; the caller holds the lock."""
    make_directories(files, layout)
    if not root_versions(files, layout.manifest):
        _make_store(files, layout)
    version = newest_version(files, layout)
    # Its writer may have died between the link and the fsync that makes it last; what comes builds on it.
    files.fsync_dir(layout.manifest)
    try:
        return load(files, layout, version)
    except FileNotFoundError as error:
        raise missing_file(version, error) from error


def _check_directory(files: Files, layout: Layout) -> None:
    try:
        names = files.listdir(layout.path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise StoreError(f"{layout.path}: is a file, a store is a directory; give another path") from None
    own = {layout.lock.name, layout.salvaged.name, *(directory.name for directory in layout.directories)}
    others = [name for name in names if name not in own]
    if others and not root_versions(files, layout.manifest):
        if others == [layout.backup.name]:
            raise unfinished(layout)
        raise StoreError(
            f"{layout.path}: holds {others[0]!r} and is no treering store; give an empty or a new directory"
        )


def make_directory(files: Files, path: Path) -> None:
    """Make a directory and its parents; durable on return."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for directory in reversed(missing):
        files.mkdir(directory)
        files.fsync_dir(directory.parent)


def make_directories(files: Files, layout: Layout) -> None:
    """Make the directories in a store that are not there; durable on return. Copies may leave out empty ones."""
    for directory in layout.directories:
        try:
            files.mkdir(directory)
        except FileExistsError:
            raise StoreError(f"{directory}: is no directory; move away what lies there") from None
    files.fsync_dir(layout.path)


def sync_parent(files: Files, path: Path) -> None:
    """Make the entry of a directory durable that somebody else made, who may have died behind that."""
    # Who may not read the parent cannot have made it.
    with suppress(PermissionError):
        files.fsync_dir(path.parent)


def _make_store(files: Files, layout: Layout) -> None:
    """Make the first version: the log's first file, then the manifest."""
    sync_parent(files, layout.path)
    _check_unborn(files, layout)
    if is_remote(files):
        _make_remote_store(files, layout)
        return
    for number in wal_numbers(files, layout.wal):
        files.unlink(wal_path(layout.wal, number))
    WalWriter.create(files, layout.wal, 1).close()
    Committer(files, layout, NOTHING, epoch=0).commit(Change(wal_floor=1))


def _make_remote_store(files: Remote, layout: Layout) -> None:
    # Another process may make the same store at this moment: what is there stays, whoever made it.
    with suppress(FileExistsError):
        WalWriter.create(files, layout.wal, 1).close()
    is_committed(Committer(files, layout, NOTHING, epoch=0), Change(wal_floor=1))


def _check_unborn(files: Files, layout: Layout) -> None:
    # A crash while a store is made leaves an empty log and no manifest; one that lost its manifests has more.
    if has_parts(files, layout) and not root_versions(files, layout.manifest):
        raise lost_manifest(layout)
