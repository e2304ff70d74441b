"""The newest version of a store: which one it is, and keeping what it names."""

from __future__ import annotations

import re

from .blame import as_damage, past_damage
from .errors import DamageError, StoreError
from .files import Files, Lock, names_below
from .layout import Layout
from .locking import hold_shared, locked_out
from .manifest import missing_file, root_path, root_versions
from .wal import HEADER, wal_numbers, wal_path

_SEGMENT = re.compile(r"\d+-(-?\d+)-[0-9a-f]{16}")
_LIST = re.compile(r"(segments|ledger|rejects|audit|model)-\d{8,}\.json")


def newest_version(files: Files, layout: Layout) -> int:
    """Give the newest manifest version. Raises StoreError where there is none, DamageError where there was one."""
    versions = root_versions(files, layout.manifest)
    if versions:
        return versions[-1]
    if layout.backup.name in names_below(files, layout.path):
        raise unfinished(layout)
    if has_parts(files, layout):
        raise lost_manifest(layout)
    raise StoreError(f"{layout.path}: no treering store there; ingest something into it first")


def unfinished(layout: Layout) -> StoreError:
    """Give the error that says that nothing was made of a directory yet that a backup began with."""
    return StoreError(f"{layout.path}: a backup or restore that was not finished; run it again")


def lost_manifest(layout: Layout) -> DamageError:
    """Give the error that says that a store is there but for its manifests."""
    return DamageError(
        f"{layout.manifest}: no manifest, yet the store has events, or lists of what it had; restore it from a "
        "copy, or keep what is left with `treering check --salvage`",
        path=layout.manifest,
    )


def has_parts(files: Files, layout: Layout) -> bool:
    """Whether more of a store is there than a crash leaves while one is made: segments, lists, frames of a log."""
    return (
        any(map(_SEGMENT.fullmatch, names_below(files, layout.segments)))
        or any(map(_LIST.fullmatch, names_below(files, layout.lists)))
        or any(_has_frames(files, layout, number) for number in wal_numbers(files, layout.wal))
    )


def hold_newest(files: Files, layout: Layout) -> tuple[int, Lock]:
    """Hold the newest version. Raises StoreError, DamageError as `newest_version`, and where it cannot be held."""
    held_up: tuple[int, StoreError] | None = None
    while True:
        version = newest_version(files, layout)
        # One that goes while it is taken has a newer one behind it.
        if held_up is not None and held_up[0] == version:
            raise held_up[1]
        path = root_path(layout.manifest, version)
        try:
            with as_damage(path):
                lock = hold_shared(files, path)
        except FileNotFoundError as error:
            held_up = version, missing_file(version, error)
            continue
        if lock is not None:
            return version, lock
        held_up = version, locked_out(path)


def _has_frames(files: Files, layout: Layout, number: int) -> bool:
    with past_damage():
        return files.size(wal_path(layout.wal, number)) > HEADER.size
    return False
