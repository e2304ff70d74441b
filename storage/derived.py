"""What follows from other files of a segment: made of them in memory, or written anew where it was damaged."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .blooms import bloom_columns
from .columns import Placed
from .description import find_description, write_description
from .errors import DamageError
from .files import Files, names_below
from .layout import SEGMENT_FILE
from .meta import SegmentMeta
from .post_file import write_post
from .segment_files import DERIVED, kind_of, next_number
from .stored_file import StoredFile
from .sums import Sums, block_sums
from .tree_file import write_tree

if TYPE_CHECKING:
    from .segment import Segment

_WAITING = f"{SEGMENT_FILE}.tmp"


def rewrite_derived(
    files: Files,
    directory: Path,
    segment: Segment,
    *,
    also: Collection[str] = (),
    begun: Callable[[Path], None] = lambda path: None,
) -> SegmentMeta:
    """Write the derived files that are missing or damaged anew, under the next number; durable on return.

    also: names of derived files that are as they were written, but wrong. begun: is told each new file before it is
    written, so that whoever fails can remove it.

    Gives what the manifest has to say now; the caller commits it, and removes what it names no more. What it
    gives is the segment's own meta where nothing was wrong. segment.json is replaced where it is not of these
    files. Raises DamageError where a file is damaged that does not follow from the others.
    """
    meta = segment.meta
    fresh = {
        stored.name: _rewrite(files, directory, segment, kind_of(stored.name), begun)
        for stored in meta.files
        if kind_of(stored.name) in DERIVED and (stored.name in also or not _is_whole(segment, stored))
    }
    changed = (
        replace(meta, files=tuple(fresh.get(stored.name, stored) for stored in meta.files)) if fresh else meta
    )
    described = find_description(files, directory, meta.id)
    has_parts = any(kind_of(stored.name) == "parts" for stored in meta.files)
    if has_parts and (
        described is None or any(described.sums_of(f.name, changed) is None for f in changed.files)
    ):
        begun(directory / _WAITING)
        _describe_anew(files, directory, segment, changed)
    if fresh:
        files.fsync_dir(directory)
    return changed


def _is_whole(segment: Segment, stored: StoredFile) -> bool:
    try:
        segment.verify_file(stored)
    except DamageError:
        return False
    return True


def _rewrite(
    files: Files, directory: Path, segment: Segment, kind: str, begun: Callable[[Path], None]
) -> StoredFile:
    names = {*names_below(files, directory), *(stored.name for stored in segment.meta.files)}
    path = directory / f"{kind}-{next_number(names, kind):04d}.arrow"
    begun(path)
    if kind == "patt":
        return write_tree(files, path, segment.made_tree(), len(segment.slices))
    return write_post(files, path, segment, filters=bloom_columns(_placed(segment), segment.meta.partitions))


def _placed(segment: Segment) -> Placed:
    """Give the segment's own columns, equal ones as one object."""
    owners, rare = segment.owners(), segment.overflow()
    names = [name for name in segment.meta.fields if name not in rare and not segment.is_late(name)]
    read: dict[str, pa.Array] = {owner: segment.raw(owner) for owner in {owners.get(n, n) for n in names}}
    columns = {name: read[owners.get(name, name)] for name in names}
    return Placed(columns, {}, None, frozenset(), dict(segment.meta.fields))


def _describe_anew(files: Files, directory: Path, segment: Segment, meta: SegmentMeta) -> None:
    for stored in segment.meta.files:
        if stored in meta.files:
            segment.verify_file(stored)
    sums: dict[str, Sums] = {f.name: block_sums(files.map(directory / f.name)) for f in meta.files}
    with suppress(FileNotFoundError):
        files.unlink(directory / _WAITING)
    as_written = replace(
        meta,
        pending=segment.own_pending,
        signals_pending=meta.signals_pending or bool(meta.late),
    )
    write_description(files, directory, as_written, sums, name=_WAITING)
    files.rename(directory / _WAITING, directory / SEGMENT_FILE)
    files.fsync_dir(directory)
