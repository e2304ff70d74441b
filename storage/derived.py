"""What follows from other files of a segment: made of them in memory, or written anew where it was damaged."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .blooms import bloom_columns
from .columns import Placed
from .description import find_description, write_description
from .errors import DamageError
from .files import Files
from .layout import SEGMENT_FILE
from .meta import SegmentMeta, StoredFile
from .post_file import write_post
from .segment_files import DERIVED, kind_of
from .sums import Sums, block_sums
from .tree_file import write_tree

if TYPE_CHECKING:
    from .segment import Segment


def rewrite_derived(
    files: Files, directory: Path, segment: Segment, *, also: Collection[str] = ()
) -> SegmentMeta:
    """Write the derived files that are missing or damaged anew, under the next number; durable on return.

    also: names of derived files that are as they were written, but wrong.

    Gives what the manifest has to say now; the caller commits it, and removes what it names no more. What it
    gives is the segment's own meta where nothing was wrong. segment.json is replaced where it is not of these
    files. Raises DamageError where a file is damaged that does not follow from the others.
    """
    meta = segment.meta
    fresh = {
        stored.name: _rewrite(files, directory, segment, kind_of(stored.name))
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


def _rewrite(files: Files, directory: Path, segment: Segment, kind: str) -> StoredFile:
    path = directory / _next_name(files.listdir(directory), kind)
    if kind == "patt":
        return write_tree(files, path, segment.made_tree(), len(segment.slices))
    return write_post(files, path, segment, filters=bloom_columns(_placed(segment), segment.meta.partitions))


def _next_name(names: Collection[str], kind: str) -> str:
    """Give a name that no file of this kind had: `post.arrow`, `post-0001.arrow`, ..."""
    used = [
        stem.partition("-")[2] for name in names if kind_of(name) == kind and (stem := name.partition(".")[0])
    ]
    return f"{kind}-{1 + max((int(number) for number in used if number.isdigit()), default=0):04d}.arrow"


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
    waiting = f"{SEGMENT_FILE}.tmp"
    with suppress(FileNotFoundError):
        files.unlink(directory / waiting)
    as_written = replace(
        meta,
        pending=segment.own_pending,
        signals_pending=meta.signals_pending or bool(meta.late),
    )
    write_description(files, directory, as_written, sums, name=waiting)
    files.rename(directory / waiting, directory / SEGMENT_FILE)
    files.fsync_dir(directory)
