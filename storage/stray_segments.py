"""Segments that no list names for sure, found again by what stands in their own directories.

segment.json has the manifest's entry as it was when the segment was written. What came later is found beside it:
vectors and signals, and what was deleted. Of two segments with the same events the one that was made of the other
counts; and an event that anything says is deleted stays so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrow_file import ArrowFile, read_lists
from .batch import Int64s
from .blame import past_odd, told
from .columns import field_stats
from .deletion import Gone, read_deletion
from .description import read_description
from .errors import DamageError
from .files import Files, crc32c, names_below
from .findings import Loss
from .kept import Kept
from .late import SIGNAL, read_late
from .layout import Layout
from .meta import Deletion, LateFile, SegmentMeta
from .segment import Segment
from .seq_runs import ranges_of
from .stored_file import StoredFile
from .survivors import waiting
from .vectors import flat_view

_LATE = re.compile(r"late-\d+\.arrow")
_DELETION = re.compile(r"del-\d+\.arrow")


@dataclass(slots=True)
class Stray:
    """A segment found again. seq: of its events by row; dead: of those that its deletion file says are gone.

    Where its numbers cannot be read, seq are all that there may be.
    """

    meta: SegmentMeta
    seq: Int64s
    dead: Int64s


@dataclass(slots=True)
class Strays:
    """What was found.

    taken: segments that count, by id. hidden: sequence numbers of events of them that something else says are
    deleted. skipped: directories of which nothing is missed. aside: others that do not count, by id, and why.
    losses: what is out of reach for good.
    """

    taken: dict[str, SegmentMeta] = field(default_factory=dict)
    hidden: dict[str, Int64s] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    aside: dict[str, str] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StraySearch:
    """Looks for segments in directories.

    listed: segments that count for sure. erased: ids of segments that were erased as a whole. before_seq: numbers
    from this one on are not in segments, None: not known.
    """

    files: Files
    layout: Layout
    listed: Mapping[str, SegmentMeta]
    erased: Collection[str]
    before_seq: int | None = None

    def find(self, names: Iterable[str], known: Mapping[str, SegmentMeta]) -> Strays:
        """Find those that count among directories. known: what a list, which may be an old one, says of some."""
        found = Strays()
        strays = []
        for name in names:
            one = None if name in self.erased else self._read(name, known.get(name), found)
            if one is None and name not in found.aside:
                found.skipped.add(name)
            if one is not None:
                strays.append(one)
        dead = np.concatenate([np.empty(0, np.int64), *(one.dead for one in strays)])
        for one in self._pick(strays, found):
            found.taken[one.meta.id] = one.meta
            hidden = one.seq[np.isin(one.seq, dead) & ~np.isin(one.seq, one.dead)]
            if len(hidden):
                found.hidden[one.meta.id] = hidden
        return found

    def hide(self, strays: Strays, what: str) -> None:
        """Put aside all that was found, for a reason that is told."""
        for name, meta in strays.taken.items():
            strays.aside[name] = what
            strays.losses.append(
                self._lost(meta, meta.n_live, f"{meta.n_live:,} events of a segment: {what}")
            )
        strays.taken, strays.hidden = {}, {}

    # -- one directory ------------------------------------------------------------------------------------------

    def _read(self, name: str, known: SegmentMeta | None, found: Strays) -> Stray | None:
        """Read a directory; None where it does not count, which `found` says."""
        meta = self._described(name, known, found)
        if meta is None:
            return None
        if self.before_seq is not None and meta.seq_max >= self.before_seq:
            # It was never committed, and the log has its events.
            return None
        directory = self.layout.segment(name)
        entries = names_below(self.files, directory)
        if known is not None and _tells_all(known, entries):
            return self._known(known, found)
        meta = self._with_lates(meta, sorted(filter(_LATE.fullmatch, entries)), found)
        deletions = sorted(filter(_DELETION.fullmatch, entries))
        if deletions:
            deleted = self._deletion(directory, deletions[-1], meta)
            if deleted is None:
                self._lose_undeleted(meta, found)
                return None
            meta = replace(meta, deleted=deleted)
        gone = read_deletion(self.files, directory, meta)
        return self._stray(self._with_pending(meta, gone), gone)

    def _stray(self, meta: SegmentMeta, gone: Gone) -> Stray:
        seq = self._read_seq(meta)
        if seq is None:
            return Stray(meta, self.seq_of(meta), np.empty(0, np.int64))
        return Stray(meta, seq, seq[gone.rows])

    def _known(self, meta: SegmentMeta, found: Strays) -> Stray | None:
        """Take a segment as a list says that it is."""
        try:
            gone = read_deletion(self.files, self.layout.segment(meta.id), meta)
        except DamageError:
            self._lose_undeleted(meta, found)
            return None
        return self._stray(meta, gone)

    def _lose_undeleted(self, meta: SegmentMeta, found: Strays) -> None:
        found.aside[meta.id] = "which of its events are deleted cannot be read"
        what = f"{meta.n_live:,} events of a segment of which others are deleted, and which cannot be read"
        found.losses.append(self._lost(meta, meta.n_live, what))

    def _described(self, name: str, known: SegmentMeta | None, found: Strays) -> SegmentMeta | None:
        directory = self.layout.segment(name)
        try:
            return read_description(self.files, directory, name).meta
        except OSError as error:
            why = told(error, directory)
            if known is not None:
                return replace(known, late=(), deleted=None)
            found.aside[name] = "nothing tells what it holds"
            what = f"a segment that no list names and that does not tell what it holds ({why})"
            found.losses.append(Loss("events", f"{self.layout.segments.name}/{name}", None, what))
        return None

    def seq_of(self, meta: SegmentMeta) -> Int64s:
        """Give the numbers of a segment by row; where these cannot be read, all that there may be."""
        seq = self._read_seq(meta)
        return np.arange(meta.seq_min, meta.seq_max + 1) if seq is None else seq

    def _read_seq(self, meta: SegmentMeta) -> Int64s | None:
        with past_odd():
            return np.asarray(self._open(meta).seq)
        return None

    def _with_lates(self, meta: SegmentMeta, names: Sequence[str], found: Strays) -> SegmentMeta:
        directory = self.layout.segment(meta.id)
        lates = [one for name in names if (one := self._late(directory, name, meta)) is not None]
        if len(lates) < len(names):
            n_odd = len(names) - len(lates)
            what = f"{n_odd} files of vectors and signals that came later: `treering embed` makes them again"
            file = str(directory.relative_to(self.layout.path))
            found.losses.append(Loss("vectors", file, None, what))
        return replace(meta, late=tuple(lates))

    def _with_pending(self, meta: SegmentMeta, gone: Gone) -> SegmentMeta:
        """Give the entry with what is still to come. How far signals were is not known: they are computed again."""
        segment = self._open(meta)
        with past_odd():
            waits = ~segment.vectors().have if meta.deleted is None else waiting(segment, gone)
            is_pending = meta.signals_pending or len(gone.vectors) > 0
            return replace(meta, pending=int(np.count_nonzero(waits)), signals_pending=is_pending)
        return meta

    def _late(self, directory: Path, name: str, meta: SegmentMeta) -> LateFile | None:
        """Give the entry of a sidecar; None where it cannot be read. No list has its checksum any more."""
        with past_odd():
            file, stored = self._map(directory, name, "late")
            vectors = read_late([file], meta.n_rows).vectors[0]
            columns = read_lists(file)
            fields = {
                one.removeprefix(SIGNAL): field_stats(columns[one])
                for one in columns
                if one.startswith(SIGNAL)
            }
            return LateFile(stored, len(vectors), fields) if _have_unit_length(vectors.exact()) else None
        return None

    def _deletion(self, directory: Path, name: str, meta: SegmentMeta) -> Deletion | None:
        with past_odd():
            file, stored = self._map(directory, name, "del")
            lists = read_lists(file)
            counts = (len(flat_view(lists[one], np.int32)) for one in ("rows", "vectors"))
            deletion = Deletion(stored, *counts)
            read_deletion(self.files, directory, replace(meta, deleted=deletion))
            return deletion
        return None

    def _map(self, directory: Path, name: str, kind: str) -> tuple[ArrowFile, StoredFile]:
        buffer = self.files.map(directory / name)
        file = ArrowFile(directory / name, buffer, kind)
        return file, StoredFile(name, buffer.size, crc32c(buffer))

    def _open(self, meta: SegmentMeta) -> Segment:
        return Segment.open(self.files, self.layout.segment(meta.id), meta, kept=Kept(max_bytes=0))

    # -- all of them --------------------------------------------------------------------------------------------

    def _pick(self, strays: Sequence[Stray], found: Strays) -> list[Stray]:
        """Give those of which no event stands in another segment: those that were made of others first."""
        taken: list[Stray] = []
        for one in sorted(strays, key=_rank):
            doubled = np.zeros(len(one.seq), np.bool_)
            for seq in self._over(one.meta, taken):
                doubled |= np.isin(one.seq, seq)
            if not doubled.any():
                taken.append(one)
                continue
            found.skipped.add(one.meta.id)
            rest = np.setdiff1d(one.seq[~doubled], one.dead)
            if len(rest):
                found.aside[one.meta.id] = "its events stand in another segment, but for some"
                what = f"{len(rest):,} events of a segment that was replaced: they may have been deleted"
                loss = self._lost(one.meta, len(rest), what)
                found.losses.append(replace(loss, seqs=ranges_of(rest)))
        return taken

    def _over(self, meta: SegmentMeta, taken: Sequence[Stray]) -> Iterator[Int64s]:
        """Give the numbers of the segments that may have events of this one."""
        for other in self.listed.values():
            if other.seq_min <= meta.seq_max and meta.seq_min <= other.seq_max:
                yield self.seq_of(other)
        yield from (stray.seq for stray in taken)

    def _lost(self, meta: SegmentMeta, n: int, what: str) -> Loss:
        file = f"{self.layout.segments.name}/{meta.id}"
        return Loss("events", file, n, what, ((meta.seq_min, meta.seq_max + 1),), meta.t_min, meta.t_max)


def _tells_all(meta: SegmentMeta, entries: Sequence[str]) -> bool:
    """Whether a list's entry is of all that stands in a segment's directory."""
    lates = [late.file.name for late in meta.late]
    deletions = [] if meta.deleted is None else [meta.deleted.file.name]
    there = sorted(filter(_LATE.fullmatch, entries)), sorted(filter(_DELETION.fullmatch, entries))[-1:]
    return there == (sorted(lates), deletions)


def _rank(one: Stray) -> tuple[int, bool, str]:
    # What a segment with a deletion was rewritten as has its generation, and none.
    return -one.meta.generation, one.meta.deleted is not None, one.meta.id


def _have_unit_length(vectors: npt.NDArray[Any]) -> bool:
    # Whatever made a vector, it has unit length or is zero: what differs was not stored so.
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return bool(((lengths == 0) | (np.abs(lengths - 1) < 1e-2)).all())
