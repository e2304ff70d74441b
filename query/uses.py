"""Which vectors the chosen rows use, and for which text of the event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treering.storage.part import VectorTable
from treering.storage.postings import PartsTable

from .rows import Choice, RowIds
from .scores import Floats, VecIds

Fields = tuple[int, ...] | None
"""Indexes into PART_FIELDS that count, None: all."""

LOOK_UP_SHARE = 1 / 16
"""Scattered rows are looked up one by one up to this share of all texts; beyond it a mask is quicker."""

FEW = 1024
"""Up to one id in so many vectors a sort finds the distinct ones sooner than a mark on each."""


@dataclass(frozen=True, slots=True)
class Uses:
    """Uses of vectors by rows, one a (row, text), rows ascending: `vec[i]` is used by `row[i]`."""

    vec: VecIds
    row: npt.NDArray[np.int32]

    def where(self, mask: npt.NDArray[np.bool_]) -> Uses:
        """The uses where the mask is true."""
        return Uses(self.vec[mask], self.row[mask])

    def best_by_row(self, scores: Floats) -> tuple[RowIds, Floats]:
        """Rows and the best score of each, from scores by use."""
        rows = self.row.astype(np.intp)
        is_first = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
        if is_first.all():
            return rows, scores
        first = np.flatnonzero(is_first)
        return rows[first], np.maximum.reduceat(scores, first)


def uses_of(choice: Choice, fields: Fields, table: VectorTable) -> Uses:
    """Uses of vectors that are there, by the chosen rows, in texts of these fields."""
    texts = choice.part.parts_table()
    at = _texts_of(choice, texts)
    uses = Uses(texts.vec[at], texts.row[at])
    if fields is not None:
        in_fields = np.isin(texts.field[at], fields)
        uses = uses if in_fields.all() else uses.where(in_fields)
    return uses.where(table.have[uses.vec]) if choice.part.pending else uses


def _texts_of(choice: Choice, texts: PartsTable) -> slice | RowIds:
    """Places of the chosen rows' texts."""
    if choice.is_whole:
        return slice(0, len(texts))
    if isinstance(choice.rows, slice):
        ends = np.array([choice.rows.start, choice.rows.stop], texts.row.dtype)
        start, stop = np.searchsorted(texts.row, ends)
        return slice(int(start), int(stop))
    if len(choice) > LOOK_UP_SHARE * len(texts):
        mask = choice.mask()
        return np.flatnonzero(np.ones(len(texts), np.bool_) if mask is None else mask[texts.row])
    rows = choice.rows.astype(texts.row.dtype)
    start, stop = np.searchsorted(texts.row, rows), np.searchsorted(texts.row, rows, side="right")
    counts = stop - start
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(start, counts) + within, np.intp)


def distinct(vec: VecIds, n_vectors: int) -> VecIds:
    """Distinct vector ids, ascending."""
    if len(vec) * FEW < n_vectors:
        return np.unique(vec)
    used = np.zeros(n_vectors, np.bool_)
    used[vec] = True
    return np.flatnonzero(used).astype(np.int32)
