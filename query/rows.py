"""Which rows: a choice of rows inside a part, and the ordered rows of an answer across parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.storage.batch import Int64s
from treering.storage.part import Part

from .table_part import TablePart

Mask = npt.NDArray[np.bool_]
RowIds = npt.NDArray[np.intp]
Interval = tuple[int, int]
"""Rows `[lo, hi)` of a part."""


class Snapshot(Protocol):
    """What is asked of one state of a store (see `storage.snapshot`)."""

    @property
    def parts(self) -> Sequence[Part]:
        """Segments and what is not in segments yet."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of events."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows of one part in ascending order: a slice (no copy is made to read it) or row numbers."""

    part: Part
    rows: slice | RowIds

    @classmethod
    def of(cls, part: Part, intervals: Sequence[Interval]) -> Choice:
        """The rows of disjoint intervals."""
        merged = _merge(intervals)
        if not merged:
            return cls(part, slice(0, 0))
        if len(merged) == 1:
            return cls(part, slice(*merged[0]))
        return cls(part, np.concatenate([np.arange(lo, hi, dtype=np.intp) for lo, hi in merged]))

    def __len__(self) -> int:
        if isinstance(self.rows, slice):
            return int(self.rows.stop - self.rows.start)
        return len(self.rows)

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the part."""
        return len(self) == self.part.n_rows

    def row_ids(self) -> RowIds:
        """Row numbers, ascending."""
        if isinstance(self.rows, slice):
            return np.arange(self.rows.start, self.rows.stop, dtype=np.intp)
        return self.rows

    def of_rows(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of these rows out of an array by row."""
        return values[self.rows]

    def column(self, name: str) -> pa.Array:
        """A column at these rows."""
        return self.part.column(name, None if self.is_whole else self.row_ids())

    def where(self, mask: Mask) -> Choice:
        """The rows where the mask (by position in this choice) is true."""
        hits = np.flatnonzero(mask)
        if len(hits) == len(self):
            return self
        if isinstance(self.rows, slice):
            return Choice(self.part, hits + self.rows.start)
        return Choice(self.part, self.rows[hits])

    def mask(self) -> Mask | None:
        """Bool by row of the part; None when all rows are chosen."""
        if self.is_whole:
            return None
        mask = np.zeros(self.part.n_rows, np.bool_)
        mask[self.rows] = True
        return mask


def _merge(intervals: Sequence[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for lo, hi in sorted(intervals):
        if lo >= hi:
            continue
        if merged and merged[-1][1] == lo:
            merged[-1] = (merged[-1][0], hi)
        else:
            merged.append((lo, hi))
    return merged


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of several parts in the order of the answer.

    part: int32 (n), index into `parts`. row: (n), row inside that part. ts, seq: int64 (n).
    score: float32 (n) of a meaning, or None.
    """

    parts: Sequence[Part]
    part: npt.NDArray[np.int32]
    row: RowIds
    ts: Int64s
    seq: Int64s
    score: npt.NDArray[np.float32] | None = None

    @classmethod
    def of(cls, choices: Sequence[Choice]) -> Rows:
        """The rows of one choice a part, part after part."""
        parts = [c.part for c in choices]
        counts = [len(c) for c in choices]
        if not choices:
            return cls(
                (), np.empty(0, np.int32), np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0, np.int64)
            )
        return cls(
            parts,
            np.repeat(np.arange(len(parts), dtype=np.int32), counts),
            np.concatenate([c.row_ids() for c in choices]),
            np.concatenate([c.of_rows(c.part.ts) for c in choices]),
            np.concatenate([c.of_rows(c.part.seq) for c in choices]),
        )

    @classmethod
    def of_part(cls, part: Part) -> Rows:
        """All rows of one part, in its order."""
        return cls.of([Choice(part, slice(0, part.n_rows))])

    def __len__(self) -> int:
        return len(self.row)

    def take(self, positions: RowIds | Mask | slice) -> Rows:
        """The rows at these positions, in that order."""
        score = None if self.score is None else self.score[positions]
        return replace(
            self,
            part=self.part[positions],
            row=self.row[positions],
            ts=self.ts[positions],
            seq=self.seq[positions],
            score=score,
        )

    def by_part(self) -> Iterator[tuple[Part, RowIds, RowIds]]:
        """For each part with rows here: the part, positions in this answer and the rows of the part."""
        if not len(self):
            return
        if len(self.parts) == 1:
            yield self.parts[0], np.arange(len(self), dtype=np.intp), self.row
            return
        order = np.argsort(self.part, kind="stable")
        bounds = np.searchsorted(self.part[order], np.arange(len(self.parts) + 1, dtype=np.int32))
        for i, part in enumerate(self.parts):
            positions = order[bounds[i] : bounds[i + 1]]
            if len(positions):
                yield part, positions, self.row[positions]

    def choices(self) -> list[tuple[Choice, RowIds]]:
        """One choice a part, with the position of each chosen row in this answer."""
        out = []
        for part, positions, rows in self.by_part():
            order = np.argsort(rows, kind="stable")
            out.append((Choice(part, rows[order]), positions[order]))
        return out

    def column(self, name: str) -> pa.Array | None:
        """A physical column in answer order, null where a part lacks it; None when every part does."""
        pieces, places = [], []
        for part, positions, rows in self.by_part():
            if holds(part, name):
                pieces.append(part.column(name, rows))
                places.append(positions)
        if not pieces:
            return None
        pieces = [p if p.type == pieces[0].type else p.cast(pieces[0].type) for p in pieces]
        whole = pa.concat_arrays(pieces)
        back = np.full(len(self), -1, np.int64)
        back[np.concatenate(places)] = np.arange(len(whole))
        if len(whole) == len(self):
            return whole if np.array_equal(back, np.arange(len(self))) else whole.take(pa.array(back))
        return whole.take(pa.array(back, mask=back < 0))


ALWAYS = frozenset(("ts", "seq"))
"""Columns that every part of a store has, whether or not its statistics name them."""


def holds(part: Part, name: str) -> bool:
    """Whether the part has a value in this physical column."""
    return name in part.fields or (name in ALWAYS and not isinstance(part, TablePart))


def value_count(part: Part, name: str) -> int:
    """How many rows have a value in this physical column."""
    if name in ALWAYS and not isinstance(part, TablePart):
        return part.n_rows
    stats = part.fields.get(name)
    return 0 if stats is None else stats.n
