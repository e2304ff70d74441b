"""Files that nothing counts on: what a crash left, what readers of older versions keep, what a salvage put aside."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from .check_catalog import Held
from .errors import StoreError
from .files import Files
from .findings import Finding, Severity
from .layout import SEGMENT_FILE, Layout
from .manifest import read_root, root_path, root_versions
from .meta import SegmentMeta
from .remote import is_remote
from .wal import wal_numbers, wal_path

_HARMLESS = "nothing: it is harmless, and goes when the store is next opened for writing and nobody reads it"


def check_leftovers(files: Files, layout: Layout, held: Held) -> Iterator[Finding]:
    """List what the version does not name; nothing where the version itself is damaged, which may yet be wanted."""
    yield from _put_aside(files, layout)
    yield from _shadow(files, layout)
    if not held.is_whole or held.root is None:
        return
    newer = _newer_names(files, layout, held.version)
    for path in sorted({*_unnamed(files, layout, held)}):
        if path.name not in newer:
            what = (
                "nothing counts on it: a crash left it, it is of an older version, or it is being written now"
            )
            yield Finding(Severity.LEFTOVER, str(path.relative_to(layout.path)), what, _HARMLESS)


def _put_aside(files: Files, layout: Layout) -> Iterator[Finding]:
    if is_remote(files) or layout.salvaged.name not in names_below(files, layout.path):
        return
    for name in names_below(files, layout.salvaged):
        path = layout.salvaged / name
        what = "what a salvage put aside; deleted events may be in it"
        todo = f"nothing, or when you are done with it: rm -r {path}"
        yield Finding(Severity.NOTE, str(path.relative_to(layout.path)), what, todo)


def _shadow(files: Files, layout: Layout) -> Iterator[Finding]:
    if not is_remote(files) and layout.reembed.name in names_below(files, layout.path):
        what = "a move to another model is under way; nothing of the store depends on it, and it is not looked at"
        yield Finding(
            Severity.NOTE, layout.reembed.name, what, "nothing, or `treering reembed` goes on with it"
        )


def _unnamed(files: Files, layout: Layout, held: Held) -> Iterator[Path]:
    assert held.root is not None
    known = {root_path(layout.manifest, held.version).name}
    yield from (layout.manifest / name for name in _others(files, layout.manifest, known))
    yield from (layout.lists / name for name in _others(files, layout.lists, held.root.names()))
    yield from (layout.rejects / name for name in _others(files, layout.rejects, held.rejects))
    yield from (layout.segments / name for name in _others(files, layout.segments, held.segments))
    old = (number for number in wal_numbers(files, layout.wal) if number < held.root.wal_floor)
    yield from (wal_path(layout.wal, number) for number in old)
    # Elsewhere, looking into each directory would be a request.
    for meta in () if is_remote(files) else held.segments.values():
        directory = layout.segment(meta.id)
        yield from (directory / name for name in _others(files, directory, named_in(meta)))


def named_in(meta: SegmentMeta) -> set[str]:
    """Name the files that a segment's directory should have."""
    return {SEGMENT_FILE, *(stored.name for stored in meta.all_files())}


def _newer_names(files: Files, layout: Layout, version: int) -> set[str]:
    """Name what a newer version has by now: its manifest, lists and segments are no leftovers."""
    newer = [one for one in root_versions(files, layout.manifest) if one > version]
    names: set[str] = {root_path(layout.manifest, one).name for one in newer}
    with suppress(OSError, StoreError):
        for one in newer:
            names |= read_root(files, layout.manifest, one).names()
    return names


def _others(files: Files, directory: Path, known: Collection[str]) -> list[str]:
    return [name for name in names_below(files, directory) if name not in known]


def names_below(files: Files, directory: Path) -> list[str]:
    """Name what is in a directory; nothing where there is none."""
    try:
        return files.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
