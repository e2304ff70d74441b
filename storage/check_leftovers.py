"""Files that nothing counts on: what a crash left, what readers of older versions keep, what a salvage put aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .catalog import Catalog
from .check_catalog import Held
from .errors import StoreError
from .files import Files, names_below
from .findings import Finding, Severity
from .layout import Layout
from .manifest import read_root, root_path, root_versions
from .remote import is_remote
from .retired import unnamed, unnamed_in

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
    own = root_path(layout.manifest, held.version)
    yield from (
        path for name in names_below(files, layout.manifest) if (path := layout.manifest / name) != own
    )
    yield from unnamed(files, layout, Catalog(held.root, **held.lists, model=held.model))
    # Elsewhere, looking into each directory would be a request.
    for meta in () if is_remote(files) else held.segments.values():
        yield from unnamed_in(files, layout, meta)


def _newer_names(files: Files, layout: Layout, version: int) -> set[str]:
    """Name what a newer version has by now: its manifest, lists and segments are no leftovers."""
    newer = [one for one in root_versions(files, layout.manifest) if one > version]
    names: set[str] = {root_path(layout.manifest, one).name for one in newer}
    with suppress(OSError, StoreError):
        for one in newer:
            names |= read_root(files, layout.manifest, one).names()
    return names
