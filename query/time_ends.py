"""The oldest or newest rows of a choice, without a sort: rows of a slice lie in time order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bound import BSort
from .rows import Choice, RowIds


def is_by_time(order: Sequence[BSort]) -> bool:
    """Whether an order is that of time, falling or rising, and nothing else."""
    if not order:
        return True
    column = order[0].column
    return len(order) == 1 and column is not None and column.physical[:1] == ("ts",)


def oldest_or_newest(choice: Choice, n: int, *, newest: bool) -> Choice:
    """Rows among which are the n oldest (by ts, seq), or the n newest with all that tie with the last."""
    if len(choice) <= n:
        return choice
    pieces = [_newest(choice, rows, n) if newest else rows[:n] for rows in _by_slice(choice)]
    rows = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
    return Choice(choice.part, rows)


def _by_slice(choice: Choice) -> list[RowIds]:
    rows = choice.row_ids()
    if len(choice.part.slices) <= 1:
        return [rows]
    bounds = [s.hi for s in choice.part.slices[:-1]]
    return [piece for piece in np.split(rows, np.searchsorted(rows, bounds)) if len(piece)]


def _newest(choice: Choice, rows: RowIds, n: int) -> RowIds:
    if n == 0:
        return rows[:0]
    if len(rows) <= n:
        return rows
    # Ties are ranked oldest arrival first, so all rows of the last time that counts must stay.
    last = int(rows[-n])
    lo = next(s.lo for s in choice.part.slices if s.lo <= last < s.hi)
    first = lo + int(np.searchsorted(choice.part.ts[lo : last + 1], choice.part.ts[last]))
    return rows[np.searchsorted(rows, first) :]
