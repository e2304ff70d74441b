"""PATT: build the tree over a part's times, and find the nodes of a time range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .batch import Int32s, Int64s
from .cells import covering_cell, middle_ns
from .part import Slice, VectorTable
from .signature import N_VALUES
from .summaries import (
    N_LEVELS,
    Bools,
    Leaves,
    Number,
    NumberSummary,
    compose_leaves,
    compose_up,
    count_levels,
    merge_numbers,
    merge_up,
    no_signatures,
    summarise_number,
)
from .tree import LEAF_ROWS, Tree
from .tree_sources import KnownNodes, Source

Nodes = npt.NDArray[np.intp]


@dataclass(slots=True)
class _Shape:
    """Nodes in preorder while the tree grows; start, end: their events in time order."""

    level: list[int]
    cell: list[int]
    start: list[int]
    end: list[int]
    left: list[int]
    right: list[int]


def build_tree(
    ts: Int64s,
    seq: Int64s,
    slices: Sequence[Slice],
    *,
    numbers: Mapping[str, Number],
    level: Number | None = None,
    vec_of_row: Int32s | None = None,
    table: VectorTable | None = None,
    qls_scale: Sequence[float] | None = None,
    sources: Sequence[Source] = (),
) -> Tree:
    """Build the time tree of a part.

    ts, seq: int64 (n), rows in (ts, seq) order inside each slice; the slices cover all rows. numbers: the
    columns to summarise: values and which rows have one. level: severity of each row. Signatures are composed
    only where vectors and `qls_scale` (136) are given. sources: parts that these rows are merged from, all of
    them: what their trees know is taken over. A node is a leaf when it has at most LEAF_ROWS rows or one tick.
    """
    if not len(ts):
        return _empty(len(slices), tuple(numbers))
    order = None if len(slices) == 1 else np.lexsort((seq, ts))
    in_time = ts if order is None else ts[order]
    shape = _grow(in_time)
    left, right = np.array(shape.left, np.int32), np.array(shape.right, np.int32)
    start, end = np.array(shape.start), np.array(shape.end)
    t_min, t_max, count = in_time[start], in_time[end - 1], (end - start).astype(np.int32)
    lo, hi = _slice_rows(ts, slices, t_min, t_max)
    is_leaf = left < 0
    known = KnownNodes.find(sources, t_min, t_max)
    sums = _LeafSums(lo[is_leaf], hi[is_leaf], len(ts), known.only(is_leaf))
    summary = merge_numbers(left, right, [sums.number(*pair) for pair in numbers.items()])
    levels = merge_up(left, right, sums.levels(level), np.add)
    if vec_of_row is None or table is None or qls_scale is None or table.qls.shape[1] != N_VALUES:
        signature = no_signatures(len(left))
    else:
        vec_in_time = vec_of_row if order is None else vec_of_row[order]
        scale = np.asarray(qls_scale, np.float64)
        kept = known.signatures()
        at_leaves = compose_leaves(end[is_leaf], vec_in_time, table.qls, table.have, scale, kept[is_leaf])
        signature = compose_up(left, right, count, at_leaves, kept)
    return Tree(
        level=np.array(shape.level, np.uint8),
        cell=np.array(shape.cell, np.int64),
        t_min=t_min,
        t_max=t_max,
        count=count,
        left=left,
        right=right,
        lo=lo,
        hi=hi,
        signals=tuple(numbers),
        minimum=summary["minimum"],
        maximum=summary["maximum"],
        total=summary["total"],
        n=summary["n"],
        levels=levels,
        shards=(hi - lo).astype(np.int32),
        signature=signature,
    )


class _LeafSums:
    """Summaries at the leaves: taken over where the sources know them, computed from the rows elsewhere."""

    def __init__(self, lo: Int32s, hi: Int32s, n_rows: int, known: KnownNodes) -> None:
        self._lo, self._hi, self._n_rows, self._known = lo, hi, n_rows, known
        self._runs: dict[bytes, Leaves] = {}

    def number(self, name: str, number: Number) -> NumberSummary:
        summary, unread = self._known.numbers(name)
        if unread.any():
            summary.join(np.arange(len(unread)), summarise_number(self._leaves(unread), number))
        return summary

    def levels(self, level: Number | None) -> Int32s:
        counts, unread = self._known.levels()
        return counts + count_levels(self._leaves(unread), self._n_rows, level) if unread.any() else counts

    def _leaves(self, wanted: Bools) -> Leaves:
        """Give the rows of these leaves; most columns ask for the same."""
        key = wanted.tobytes()
        if key not in self._runs:
            self._runs[key] = Leaves.of(self._lo, self._hi, wanted)
        return self._runs[key]


def cover(tree: Tree, start_ns: int, end_ns: int) -> tuple[Nodes, Nodes]:
    """The fewest nodes that hold the events in `[start_ns, end_ns)`: whole ones, and leaves that stick out.

    Whole nodes lie inside the range with all their events; of a boundary leaf only some do, at most one for
    each end. Both are in time order and share no event. Visits at most 4 nodes a level.
    """
    whole: list[int] = []
    boundary: list[int] = []
    waiting = [0] if len(tree.count) else []
    while waiting:
        node = waiting.pop()
        if tree.t_max[node] < start_ns or tree.t_min[node] >= end_ns:
            continue
        if tree.t_min[node] >= start_ns and tree.t_max[node] < end_ns:
            whole.append(node)
        elif tree.left[node] < 0:
            boundary.append(node)
        else:
            waiting += [int(tree.right[node]), int(tree.left[node])]
    return np.array(whole, np.intp), np.array(boundary, np.intp)


def _grow(in_time: Int64s) -> _Shape:
    shape = _Shape([], [], [], [], [], [])
    waiting = [(0, len(in_time), -1)]
    while waiting:
        start, end, parent = waiting.pop()
        node = len(shape.level)
        if parent >= 0:
            (shape.left if shape.left[parent] < 0 else shape.right)[parent] = node
        level, cell = covering_cell(int(in_time[start]), int(in_time[end - 1]))
        shape.level.append(level)
        shape.cell.append(cell)
        shape.start.append(start)
        shape.end.append(end)
        shape.left.append(-1)
        shape.right.append(-1)
        if end - start <= LEAF_ROWS or level == 0:
            continue
        middle = start + int(np.searchsorted(in_time[start:end], middle_ns(level, cell)))
        waiting += [(middle, end, node), (start, middle, node)]
    return shape


def _slice_rows(ts: Int64s, slices: Sequence[Slice], t_min: Int64s, t_max: Int64s) -> tuple[Int32s, Int32s]:
    lo = np.empty((len(t_min), len(slices)), np.int32)
    hi = np.empty_like(lo)
    for k, piece in enumerate(slices):
        run = ts[piece.lo : piece.hi]
        lo[:, k] = piece.lo + np.searchsorted(run, t_min, side="left")
        hi[:, k] = piece.lo + np.searchsorted(run, t_max, side="right")
    return lo, hi


def _empty(n_slices: int, signals: tuple[str, ...]) -> Tree:
    none64, none32 = np.empty(0, np.int64), np.empty(0, np.int32)
    by_slice, by_signal = np.empty((0, n_slices), np.int32), np.empty((0, len(signals)))
    return Tree(
        level=np.empty(0, np.uint8),
        cell=none64,
        t_min=none64,
        t_max=none64,
        count=none32,
        left=none32,
        right=none32,
        lo=by_slice,
        hi=by_slice,
        signals=signals,
        minimum=by_signal,
        maximum=by_signal,
        total=by_signal,
        n=by_signal.astype(np.int32),
        levels=np.empty((0, N_LEVELS), np.int32),
        shards=by_slice,
        signature=no_signatures(0),
    )
