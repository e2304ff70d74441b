"""Becoming the writer of a store where no lock keeps another one away (`docs/objects.md`)."""

from __future__ import annotations

from contextlib import suppress

from .catalog import Catalog, Change, Committer, load
from .errors import DamageError, StoreError
from .files import Files
from .layout import Layout
from .manifest import root_versions
from .remote import Remote, is_remote
from .wal import WalWriter, wal_numbers, wal_path

TRIES = 20
"""How often a take-over begins again because another writer committed meanwhile."""


def take_over(files: Files, layout: Layout, catalog: Catalog) -> tuple[Catalog, int]:
    """Give the version that the writer begins with, and its epoch.

    On a disk the lock has decided, and that is the catalog as it is. Elsewhere the log is sealed, so that an
    older writer can acknowledge nothing more, a new file of it is begun, and a version committed; whoever commits
    is the writer. Raises StoreError where others go on committing meanwhile.
    """
    if not is_remote(files):
        return catalog, catalog.root.epoch + 1
    for _ in range(TRIES):
        epoch = catalog.root.epoch + 1
        if _begin_log(files, layout, catalog):
            committer = Committer(files, layout, catalog, epoch=epoch)
            if is_committed(committer, Change()):
                return committer.catalog, epoch
        catalog = load(files, layout, root_versions(files, layout.manifest)[-1])
    raise StoreError(f"{layout.path}: others go on opening it for writing; end them, or open it to read")


def is_committed(committer: Committer, change: Change) -> bool:
    """Commit, and say whether that was done: not where another writer took the version."""
    try:
        committer.commit(change)
    except StoreError as error:
        if not isinstance(error.__cause__, FileExistsError):
            raise
        return False
    return True


def _begin_log(files: Remote, layout: Layout, catalog: Catalog) -> bool:
    """Seal the newest file of the log and begin the next; False where another writer did so."""
    floor = catalog.root.wal_floor
    numbers = [number for number in wal_numbers(files, layout.wal) if number >= floor]
    if not numbers:
        if root_versions(files, layout.manifest)[-1] != catalog.root.version:
            return False
        raise DamageError(
            f"{wal_path(layout.wal, floor)}: missing, the newest manifest counts on it; restore it from a copy"
        )
    files.seal(wal_path(layout.wal, numbers[-1]))
    with suppress(FileExistsError):
        WalWriter.create(files, layout.wal, numbers[-1] + 1).close()
        return True
    return False
