"""Dyadic cells of time: which one an instant lies in, and how a flush is split by them.

Cell (level l, c) is the time [c << (20 + l), (c + 1) << (20 + l)) in nanoseconds since 1970 UTC; level 44 is
all of time, cell 0. Source: S69, architecture section 7.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .batch import Int64s
from .tree import TICK_BITS

ROOT_LEVEL = 64 - TICK_BITS
"""Level of the one cell that holds all of int64 time; the only one with times on both sides of 1970."""

EPOCH_LEVEL = 22
"""A flush never splits a cell of this level: 2**42 ns, 73 minutes."""

SPARSE_LEVEL = 32
"""A flush never makes a segment wider than this: 2**52 ns, 52 days."""

SPARSE_ROWS = 4096
"""A cell between the two levels stays whole with at most this many rows."""

Rows = npt.NDArray[np.intp]


def time_node(ts_ns: int, level: int) -> int:
    """Give the id of the cell of `level` that holds an instant: one shift.

    Floors, so that times before 1970 work: -1 ns lies in cell -1 of every level below 44.
    """
    return ts_ns >> (TICK_BITS + level) if level < ROOT_LEVEL else 0


def covering_cell(first_ns: int, last_ns: int) -> tuple[int, int]:
    """Give level and id of the smallest cell that holds both instants."""
    if (first_ns < 0) != (last_ns < 0):
        return ROOT_LEVEL, 0
    level = ((first_ns >> TICK_BITS) ^ (last_ns >> TICK_BITS)).bit_length()
    return level, time_node(first_ns, level)


def middle_ns(level: int, cell: int) -> int:
    """Give the first instant of the second half of a cell; level must be above 0."""
    return 0 if level == ROOT_LEVEL else ((2 * cell + 1) << (TICK_BITS + level - 1))


def split_cells(ts_ns: Int64s) -> list[tuple[int, int, Rows]]:
    """Split the rows of a flush by time so that stray events never widen a segment.

    Begins with the smallest cell of all rows and halves it until it has level <= EPOCH_LEVEL, or at most
    SPARSE_ROWS rows and level <= SPARSE_LEVEL; each half is again the smallest cell of its rows. Returns
    (level, cell, rows) in time order; rows are indexes into `ts_ns`, ascending in time and, where times are
    equal, in place.
    """
    order = np.argsort(ts_ns, kind="stable")
    ordered = ts_ns[order]
    found: list[tuple[int, int, Rows]] = []
    waiting = [(0, len(ordered))] if len(ordered) else []
    while waiting:
        lo, hi = waiting.pop()
        level, cell = covering_cell(int(ordered[lo]), int(ordered[hi - 1]))
        if level <= EPOCH_LEVEL or (hi - lo <= SPARSE_ROWS and level <= SPARSE_LEVEL):
            found.append((level, cell, order[lo:hi]))
            continue
        middle = lo + int(np.searchsorted(ordered[lo:hi], middle_ns(level, cell)))
        waiting += [(middle, hi), (lo, middle)]
    return found
