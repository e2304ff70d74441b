"""PATT, the position-aware temporal tree: a path-compressed binary trie over time bits whose nodes summarise rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .batch import Int32s, Int64s

TICK_BITS = 20
"""A tick is 2**20 ns (1.05 ms); cell (level l, i) is the time [i << (20 + l), (i + 1) << (20 + l))."""

LEAF_ROWS = 1024
"""A node with at most this many rows is a leaf."""


@dataclass(slots=True)
class Tree:
    """The nodes of one part in preorder; node 0 is the root. Arrays have one row a node.

    level: uint8, cell: int64: the dyadic cell. t_min, t_max: int64, first and last event time (both inclusive).
    count: int32 rows. left, right: int32 child or -1 (a leaf has none). lo, hi: int32 (n, slices), the rows
    `[lo, hi)` of each slice of the part that lie in the node.
    signals: names of the summarised number columns; minimum, maximum, total: float64 (n, signals), over rows that have
    a value, NaN left out (NaN where there is none); n: int32 (n, signals), how many have one (NaN left out).
    levels: int32 (n, 7), rows by severity (0: none). shards: int32 (n, slices), rows by slice.
    signature: float32 (n, 136) composed log-signature of the node's events in (ts, seq) order; rows of NaN where it is
    not kept.
    """

    level: npt.NDArray[np.uint8]
    cell: Int64s
    t_min: Int64s
    t_max: Int64s
    count: Int32s
    left: Int32s
    right: Int32s
    lo: Int32s
    hi: Int32s
    signals: tuple[str, ...]
    minimum: npt.NDArray[np.float64]
    maximum: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    n: Int32s
    levels: Int32s
    shards: Int32s
    signature: npt.NDArray[np.float32]
