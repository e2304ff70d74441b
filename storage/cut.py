"""What an erasure takes out of a store: planned over one state of it, by a choice of events, by age or by size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .batch import Int64s
from .meta import SegmentMeta
from .part import Part
from .rejects import Reject, RejectFile
from .rows import RowIndex
from .segment import Segment
from .survivors import Survivors

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class State:
    """One state of a store. version: of the manifest. metas: its segments in time order.

    memory: events that only the log holds; waiting: rejects that only the log holds. reject_files: by name.
    open: gives a segment without its deleted events. read: gives the rejects of a file. Both raise DamageError.
    """

    version: int
    metas: tuple[SegmentMeta, ...]
    memory: tuple[Part, ...]
    reject_files: Mapping[str, RejectFile]
    waiting: tuple[Reject, ...]
    open: Callable[[SegmentMeta], Segment | Survivors]
    read: Callable[[str], list[Reject]]


@dataclass(frozen=True, slots=True)
class Taken:
    """Events that go from one part. meta: of its segment, None: from the log.

    rows: of the live part, ascending; None: all of them, and nobody looked at them.
    t_min, t_max: first and last event time, inclusive; as the manifest has them where nobody looked.
    """

    meta: SegmentMeta | None
    part: Part | None
    rows: RowIndex | None
    n_rows: int
    t_min: int
    t_max: int


@dataclass(frozen=True, slots=True)
class Cut:
    """What goes.

    kept_rejects: by name of a reject file that changes, what stays of it. n_rejects: how many go.
    forgets: whether vectors made of texts of these events go as well, wherever they are. n_undated: reject
    files that stay since nobody knows when they were written.
    """

    state: State
    taken: tuple[Taken, ...]
    forgets: bool
    kept_rejects: Mapping[str, Sequence[Reject]] = field(default_factory=dict)
    n_rejects: int = 0
    n_undated: int = 0

    @property
    def n_events(self) -> int:
        """Number of events that go."""
        return sum(one.n_rows for one in self.taken)

    @property
    def is_empty(self) -> bool:
        """Whether nothing goes."""
        return not self.taken and not self.n_rejects

    def seqs(self) -> Int64s:
        """Give the sequence numbers of the events that go, ascending; of those only that somebody looked at."""
        found = [one.part.seq[one.rows] for one in self.taken if one.part is not None]
        return np.sort(np.concatenate([np.empty(0, np.int64), *found]))


Plan = Callable[[State], Cut]


class Chooser(Protocol):
    """Says which events and which rejects go."""

    def rows(self, parts: Sequence[Part]) -> Sequence[RowIndex]:
        """Give the rows of each part that go, ascending."""
        ...

    def rejects(self, rejects: Sequence[Reject]) -> Bools:
        """Give which rejects go; called after `rows`."""
        ...


def cut_chosen(state: State, chooser: Chooser) -> Cut:
    """Take what `chooser` says, and forget the vectors that were made of it."""
    metas: list[SegmentMeta | None] = [*state.metas, *[None] * len(state.memory)]
    parts: list[Part] = [*map(state.open, state.metas), *state.memory]
    taken = [
        _taken(meta, part, rows)
        for meta, part, rows in zip(metas, parts, chooser.rows(parts), strict=True)
        if len(rows)
    ]
    kept: dict[str, Sequence[Reject]] = {}
    n_rejects = int(np.count_nonzero(chooser.rejects(state.waiting)))
    for name in state.reject_files:
        rejects = state.read(name)
        goes = chooser.rejects(rejects)
        if goes.any():
            kept[name] = [one for one, is_gone in zip(rejects, goes, strict=True) if not is_gone]
            n_rejects += int(np.count_nonzero(goes))
    return Cut(state, tuple(taken), forgets=True, kept_rejects=kept, n_rejects=n_rejects)


def cut_older(state: State, before_ns: int) -> Cut:
    """Take every event before a time, and the reject files written before it.

    Segments that lie before it as a whole are not looked at. Vectors stay as long as newer events use them.
    """
    files = state.reject_files
    old = [name for name, f in files.items() if f.written_ns is not None and f.written_ns < before_ns]
    return Cut(
        state,
        tuple(_older(state, before_ns)),
        forgets=False,
        kept_rejects=dict.fromkeys(old, ()),
        n_rejects=sum(files[name].n for name in old),
        n_undated=sum(file.written_ns is None for file in files.values()),
    )


def cut_to_size(state: State, max_bytes: int) -> Cut:
    """Take whole segments, those first whose last event is the oldest, until the files of the rest fit."""
    n_bytes = sum(meta.n_bytes for meta in state.metas)
    taken = []
    for meta in sorted(state.metas, key=lambda meta: (meta.t_max, meta.id)):
        if n_bytes <= max_bytes:
            break
        n_bytes -= meta.n_bytes
        taken.append(_whole(meta))
    return Cut(state, tuple(taken), forgets=False)


def _older(state: State, before_ns: int) -> Iterator[Taken]:
    for meta in state.metas:
        if meta.t_max < before_ns:
            yield _whole(meta)
        elif meta.t_min < before_ns:
            part = state.open(meta)
            if len(rows := np.flatnonzero(part.ts < before_ns)):
                yield _taken(meta, part, rows)
    for one in state.memory:
        if len(rows := np.flatnonzero(one.ts < before_ns)):
            yield _taken(None, one, rows)


def _taken(meta: SegmentMeta | None, part: Part, rows: RowIndex) -> Taken:
    ts = part.ts[rows]
    return Taken(meta, part, rows, len(rows), int(ts.min()), int(ts.max()))


def _whole(meta: SegmentMeta) -> Taken:
    return Taken(meta, None, None, meta.n_live, meta.t_min, meta.t_max)
