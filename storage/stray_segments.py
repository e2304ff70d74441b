"""Segments that no list names any more, found again by what stands in their own directories.

segment.json has the manifest's entry as it was when the segment was written. What came later is found beside it:
vectors and signals, and what was deleted. Of two segments with the same events the one that was made of the other
counts; and an event that anything says is deleted stays so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from .arrow_file import ArrowFile, read_lists
from .batch import Int64s
from .columns import field_stats
from .deletion import Gone, read_deletion
from .description import read_description
from .errors import DamageError
from .files import Files, crc32c
from .findings import Loss
from .kept import Kept
from .late import SIGNAL, read_late
from .layout import Layout
from .meta import Deletion, LateFile, SegmentMeta, StoredFile
from .segment import Segment
from .seq_runs import ranges_of
from .survivors import waiting
from .vectors import flat_view

_LATE = re.compile(r"late-\d+\.arrow")
_DELETION = re.compile(r"del-\d+\.arrow")

_UNREADABLE = (pa.ArrowException, OSError, ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(slots=True)
class Stray:
    """A segment found again. seq: of its events by row; dead: of those that its deletion file says are gone."""

    meta: SegmentMeta
    seq: Int64s
    dead: Int64s


@dataclass(slots=True)
class Strays:
    """What was found.

    taken: segments that count, by id. hidden: sequence numbers of events of them that something else says are
    deleted. aside: directories that do not count, by id, and why. losses: what is out of reach for good.
    """

    taken: dict[str, SegmentMeta] = field(default_factory=dict)
    hidden: dict[str, Int64s] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)


def find_strays(
    files: Files,
    layout: Layout,
    names: Collection[str],
    listed: Mapping[str, SegmentMeta],
    *,
    before_seq: int | None,
    n_expected: int | None,
    may_be_dropped: bool,
) -> Strays:
    """Find the segments that count among directories that no list names.

    listed: the segments that lists name. before_seq: numbers from this one on are not in segments, None: not
    known. n_expected: how many there were, None: not known. may_be_dropped: whole segments were erased once, so
    that one too many may be such a one.
    """
    found = Strays()
    strays = [one for name in names if (one := _read(files, layout, name, found)) is not None]
    if before_seq is not None:
        for one in [one for one in strays if one.meta.seq_max >= before_seq]:
            strays.remove(one)
            found.aside[one.meta.id] = "it was never committed, and the log has its events"
    dead = np.concatenate([np.empty(0, np.int64), *(one.dead for one in strays)])
    taken = _pick(files, layout, strays, listed, found)
    if may_be_dropped and (n_expected is None or len(taken) > n_expected):
        _hide_all(layout, taken, found)
        return found
    for one in taken:
        found.taken[one.meta.id] = one.meta
        hidden = one.seq[np.isin(one.seq, dead) & ~np.isin(one.seq, one.dead)]
        if len(hidden):
            found.hidden[one.meta.id] = hidden
    return found


def _read(files: Files, layout: Layout, name: str, found: Strays) -> Stray | None:
    """Read a directory; None where it does not count, which `found` says."""
    directory, file = layout.segment(name), f"{layout.segments.name}/{name}"
    try:
        meta = read_description(files, directory, name).meta
    except OSError as error:
        found.aside[name] = "nothing tells what it holds"
        what = f"a segment that no list names and that does not tell what it holds ({_line(error)})"
        found.losses.append(Loss("events", file, None, what))
        return None
    entries = files.listdir(directory)
    lates = [
        late
        for one in sorted(filter(_LATE.fullmatch, entries))
        if (late := _late(files, directory, one, meta)) is not None
    ]
    n_odd = len(list(filter(_LATE.fullmatch, entries))) - len(lates)
    if n_odd:
        what = f"{n_odd} files of vectors and signals that came later: `treering embed` makes them again"
        found.losses.append(Loss("vectors", file, None, what))
    meta = replace(meta, late=tuple(lates))
    deletions = sorted(filter(_DELETION.fullmatch, entries))
    if deletions:
        deleted = _deletion(files, directory, deletions[-1], meta)
        if deleted is None:
            found.aside[name] = "which of its events are deleted cannot be read"
            what = f"{meta.n_rows:,} events of which some are deleted, and {deletions[-1]} cannot tell which"
            found.losses.append(_lost(file, meta, meta.n_rows, what))
            return None
        meta = replace(meta, deleted=deleted)
    seq, gone = _seq_of(files, directory, meta)
    meta = _with_pending(files, directory, meta, gone)
    return Stray(meta, seq, seq[gone.rows] if len(seq) == meta.n_rows else np.empty(0, np.int64))


def _seq_of(files: Files, directory: Path, meta: SegmentMeta) -> tuple[Int64s, Gone]:
    """Give the numbers by row; where these cannot be read, all that there may be."""
    gone = read_deletion(files, directory, meta)
    try:
        return np.asarray(Segment.open(files, directory, meta, kept=Kept(max_bytes=0)).seq), gone
    except _UNREADABLE:
        return np.arange(meta.seq_min, meta.seq_max + 1), gone


def _with_pending(files: Files, directory: Path, meta: SegmentMeta, gone: Gone) -> SegmentMeta:
    """Give the entry with what is still to come. How far signals were is not known: they are computed again."""
    segment = Segment.open(files, directory, meta, kept=Kept(max_bytes=0))
    try:
        waits = ~segment.vectors().have if meta.deleted is None else waiting(segment, gone)
    except _UNREADABLE:
        return meta
    is_pending = meta.signals_pending or len(gone.vectors) > 0
    return replace(meta, pending=int(np.count_nonzero(waits)), signals_pending=is_pending)


def _late(files: Files, directory: Path, name: str, meta: SegmentMeta) -> LateFile | None:
    """Give the entry of a sidecar; None where it cannot be read. No list has its checksum any more."""
    try:
        file, stored = _open(files, directory, name, "late")
        vectors = read_late([file], meta.n_rows).vectors[0]
        columns = read_lists(file)
        fields = {
            one.removeprefix(SIGNAL): field_stats(columns[one]) for one in columns if one.startswith(SIGNAL)
        }
    except _UNREADABLE:
        return None
    return LateFile(stored, len(vectors), fields) if _have_unit_length(vectors.exact()) else None


def _have_unit_length(vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bool:
    # Whatever made a vector, it has unit length or is zero: what differs was not stored so.
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return bool(((lengths == 0) | (np.abs(lengths - 1) < 1e-2)).all())


def _deletion(files: Files, directory: Path, name: str, meta: SegmentMeta) -> Deletion | None:
    try:
        file, stored = _open(files, directory, name, "del")
        lists = read_lists(file)
        counts = (len(flat_view(lists[one], np.int32)) for one in ("rows", "vectors"))
        deletion = Deletion(stored, *counts)
        read_deletion(files, directory, replace(meta, deleted=deletion))
    except _UNREADABLE:
        return None
    return deletion


def _open(files: Files, directory: Path, name: str, kind: str) -> tuple[ArrowFile, StoredFile]:
    buffer = files.map(directory / name)
    return ArrowFile(directory / name, buffer, kind), StoredFile(name, buffer.size, crc32c(buffer))


def _pick(
    files: Files, layout: Layout, strays: Sequence[Stray], listed: Mapping[str, SegmentMeta], found: Strays
) -> list[Stray]:
    """Give the strays of which no event stands in another segment: those that were made of others first."""
    taken: list[Stray] = []
    ranked = sorted(strays, key=lambda one: (-one.meta.generation, one.meta.deleted is not None, one.meta.id))
    for one in ranked:
        doubled = np.zeros(len(one.seq), np.bool_)
        for seq in _over(files, layout, one.meta, listed, taken):
            doubled |= np.isin(one.seq, seq)
        if not doubled.any():
            taken.append(one)
            continue
        found.aside[one.meta.id] = "its events stand in another segment"
        rest = np.setdiff1d(one.seq[~doubled], one.dead)
        if len(rest):
            what = f"{len(rest):,} events of a segment that was replaced: they may have been deleted"
            file = f"{layout.segments.name}/{one.meta.id}"
            found.losses.append(replace(_lost(file, one.meta, len(rest), what), seqs=ranges_of(rest)))
    return taken


def _over(
    files: Files,
    layout: Layout,
    meta: SegmentMeta,
    listed: Mapping[str, SegmentMeta],
    taken: Sequence[Stray],
) -> Iterator[Int64s]:
    """Give the numbers of the segments that may have events of this one."""
    for other in listed.values():
        if other.seq_min <= meta.seq_max and meta.seq_min <= other.seq_max:
            segment = Segment.open(files, layout.segment(other.id), other, kept=Kept(max_bytes=0))
            try:
                yield np.asarray(segment.seq)
            except _UNREADABLE:
                yield np.arange(other.seq_min, other.seq_max + 1)
    yield from (stray.seq for stray in taken)


def _hide_all(layout: Layout, taken: Sequence[Stray], found: Strays) -> None:
    for one in taken:
        n_live = one.meta.n_live
        found.aside[one.meta.id] = "it may be one that was erased"
        what = (
            f"{n_live:,} events of a segment that may have been erased: more are there than there should be"
        )
        found.losses.append(_lost(f"{layout.segments.name}/{one.meta.id}", one.meta, n_live, what))


def _lost(file: str, meta: SegmentMeta, n: int, what: str) -> Loss:
    return Loss("events", file, n, what, ((meta.seq_min, meta.seq_max + 1),), meta.t_min, meta.t_max)


def _line(error: OSError) -> str:
    if isinstance(error, DamageError) and error.what is not None:
        return error.what
    return str(error).split("\n", 1)[0]
