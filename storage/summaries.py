"""What the nodes of a tree say of their rows, computed at the leaves in one pass and merged upward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .batch import Int32s, Int64s
from .signature import N_VALUES, compose, compose_all, dequantise

N_LEVELS = 7
"""Severities in a node: none, then the six of `LEVELS`."""

SIGNATURE_ROWS = 256
"""A node below the root keeps its composed signature from this many rows on."""

EXACT_INTEGERS = 2.0**53
"""Up to here float64 holds every integer; beyond it, bounds are moved outward by one step."""

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Number = tuple[npt.NDArray[Any], Bools | None]


@dataclass(slots=True)
class Leaves:
    """The row runs of leaves: run k of (leaf, slice) has the picked rows `[start[k], start[k + 1])`; none is empty.

    leaf: int32 (k), leaf of each run. start: int64 (k). rows: int64, the rows that were picked; None: all rows
    of the part, in row order.
    """

    n_leaves: int
    leaf: Int32s
    start: Int64s
    rows: Int64s | None = None

    @classmethod
    def of(cls, lo: Int32s, hi: Int32s, wanted: Bools | None = None) -> Leaves:
        """Make the runs of leaves in time order. lo, hi: int32 (leaves, slices). wanted: which leaves (None: all)."""
        n_leaves, n_slices = lo.shape
        leaf = np.tile(np.arange(n_leaves, dtype=np.int32), n_slices)
        start, end = lo.T.ravel().astype(np.int64), hi.T.ravel().astype(np.int64)
        filled = end > start
        if wanted is None or wanted.all():
            return cls(n_leaves, leaf[filled], start[filled])
        filled &= wanted[leaf]
        leaf, start, end = leaf[filled], start[filled], end[filled]
        ends = np.cumsum(end - start)
        begins = ends - (end - start)
        total = int(ends[-1]) if len(ends) else 0
        return cls(n_leaves, leaf, begins, np.arange(total) + np.repeat(start - begins, end - start))

    def pick(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Give the values at the picked rows."""
        return values if self.rows is None else values[self.rows]

    def leaf_of_row(self, n_rows: int) -> Int32s:
        """Give the leaf of each picked row. n_rows: of the part."""
        n_picked = n_rows if self.rows is None else len(self.rows)
        leaf: Int32s = np.repeat(self.leaf, np.diff(self.start, append=n_picked))
        return leaf

    def reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any], start: float) -> npt.NDArray[Any]:
        """Fold the values of the picked rows of each leaf with `ufunc`, from `start`."""
        folded = np.full(self.n_leaves, start, values.dtype)
        if len(self.start):
            with np.errstate(invalid="ignore"):  # inf and -inf add up to NaN
                ufunc.at(folded, self.leaf, ufunc.reduceat(values, self.start))
        return folded


@dataclass(slots=True)
class NumberSummary:
    """Minimum, maximum, total: float64; n: int32; one column, a value for each leaf or node.

    minimum and maximum are inf and -inf where there is no value, so that they join.
    """

    minimum: Floats
    maximum: Floats
    total: Floats
    n: Int32s

    @classmethod
    def of_nothing(cls, n_nodes: int) -> NumberSummary:
        """Give what no rows come to."""
        none = np.zeros(n_nodes)
        return cls(none + np.inf, none - np.inf, none, np.zeros(n_nodes, np.int32))

    def join(self, nodes: npt.NDArray[np.intp], other: NumberSummary) -> None:
        """Add to `nodes` what `other` says of each of them."""
        self.minimum[nodes] = np.minimum(self.minimum[nodes], other.minimum)
        self.maximum[nodes] = np.maximum(self.maximum[nodes], other.maximum)
        with np.errstate(invalid="ignore"):
            self.total[nodes] += other.total
        self.n[nodes] += other.n


def summarise_number(leaves: Leaves, number: Number) -> NumberSummary:
    """Summarise one number column at the leaves; NaN and missing values are left out."""
    values, mask = number
    values, mask = leaves.pick(values), None if mask is None else leaves.pick(mask)
    present = _present(values, mask)
    low, high = _extremes(values)
    counted = np.ones(len(values), np.int32) if present is None else present.astype(np.int32)
    floats = values.astype(np.float64)
    n = leaves.reduce(np.add, counted, 0).astype(np.int32)
    minimum = leaves.reduce(np.minimum, _where(present, values, high), high).astype(np.float64)
    maximum = leaves.reduce(np.maximum, _where(present, values, low), low).astype(np.float64)
    total = leaves.reduce(np.add, _where(present, floats, 0.0), 0).astype(np.float64)
    if values.dtype.kind in "iu":
        minimum, maximum = _outward(minimum, -np.inf), _outward(maximum, np.inf)
    return NumberSummary(np.where(n > 0, minimum, np.inf), np.where(n > 0, maximum, -np.inf), total, n)


def merge_up(
    left: Int32s,
    right: Int32s,
    at_leaves: npt.NDArray[Any],
    join: Callable[..., npt.NDArray[Any]],
    known: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Give node values from leaf values: an inner node's is `join(left's, right's)`.

    Nodes are in preorder, leaves in the same order, so children stand behind their parent. known: (nodes,
    values), those of inner nodes that are known already, NaN for the others.
    """
    is_leaf = left < 0
    values = np.zeros((len(left), *at_leaves.shape[1:]), at_leaves.dtype)
    values[is_leaf] = at_leaves
    is_known = np.zeros(len(left), np.bool_) if known is None else ~np.isnan(known[:, 0]) & ~is_leaf
    if known is not None:
        values[is_known] = known[is_known]
    with np.errstate(invalid="ignore"):
        for node in np.flatnonzero(~is_leaf & ~is_known)[::-1]:
            values[node] = join(values[left[node]], values[right[node]])
    return values


def count_levels(leaves: Leaves, n_rows: int, level: Number | None) -> Int32s:
    """Count the picked rows by severity at the leaves, int32 (leaves, 7); rows without one count as 0."""
    key = leaves.leaf_of_row(n_rows).astype(np.int64) * N_LEVELS
    if level is not None:
        values, mask = level
        values, mask = leaves.pick(values), None if mask is None else leaves.pick(mask)
        key += np.minimum(_where(mask, values, 0), N_LEVELS - 1).astype(np.int64)
    counts = np.bincount(key, minlength=leaves.n_leaves * N_LEVELS)
    return counts.reshape(leaves.n_leaves, N_LEVELS).astype(np.int32)


def compose_leaves(
    ends: Int64s,
    vec_in_time: Int32s,
    qls: npt.NDArray[np.int8],
    have: Bools,
    scale: Floats,
    known: Floats,
) -> Floats:
    """Compose the signatures of the events of each leaf, float64 (leaves, 136).

    ends: int64, end of each leaf among the events in (ts, seq) order. vec_in_time: vector of each of these
    events; -1 counts as the identity. A leaf with a vector that is still to come is NaN. known: (leaves, 136),
    signatures that need not be composed, NaN for the others.
    """
    composed = known.copy()
    start = 0
    for leaf, end in enumerate(ends):
        vectors = vec_in_time[start:end]
        start = int(end)
        if np.isnan(known[leaf, 0]):
            composed[leaf] = _compose_events(vectors[vectors >= 0], qls, have, scale)
    return composed


def compose_up(
    left: Int32s, right: Int32s, count: Int32s, at_leaves: Floats, known: Floats
) -> npt.NDArray[np.float32]:
    """Give the signature of every node, float32, NaN where it is not kept: small nodes below the root.

    known: (nodes, 136), signatures of inner nodes that are known already, NaN for the others.
    """
    values = merge_up(left, right, at_leaves, compose, known)
    small = count < SIGNATURE_ROWS
    small[0] = False
    values[small] = np.nan
    return values.astype(np.float32)


def _compose_events(vectors: Int32s, qls: npt.NDArray[np.int8], have: Bools, scale: Floats) -> Floats:
    if not len(vectors):
        return np.zeros(N_VALUES)
    return compose_all(dequantise(qls[vectors], scale)) if have[vectors].all() else np.full(N_VALUES, np.nan)


def no_signatures(n_nodes: int) -> npt.NDArray[np.float32]:
    """Give a signature of NaN for every node."""
    return np.full((n_nodes, N_VALUES), np.nan, np.float32)


def merge_numbers(left: Int32s, right: Int32s, leaves: list[NumberSummary]) -> Mapping[str, npt.NDArray[Any]]:
    """Merge the summaries of all number columns up the tree; arrays (nodes, columns), NaN without a value."""
    n_leaves = int(np.count_nonzero(left < 0))

    def up(name: str, ufunc: np.ufunc, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        columns = [getattr(summary, name) for summary in leaves]
        table = np.stack(columns, axis=1) if columns else np.empty((n_leaves, 0))
        return merge_up(left, right, table.astype(dtype), ufunc)

    n = up("n", np.add, np.int32)
    minimum, maximum = up("minimum", np.minimum, np.float64), up("maximum", np.maximum, np.float64)
    total = up("total", np.add, np.float64)
    for values in (minimum, maximum, total):
        values[n == 0] = np.nan
    return {"minimum": minimum, "maximum": maximum, "total": total, "n": n}


def _present(values: npt.NDArray[Any], mask: Bools | None) -> Bools | None:
    if values.dtype.kind != "f":
        return mask
    numbers: Bools = ~np.isnan(values)
    return numbers if mask is None else numbers & mask


def _where(present: Bools | None, values: npt.NDArray[Any], other: float | np.generic) -> npt.NDArray[Any]:
    return values if present is None else np.where(present, values, np.asarray(other, values.dtype))


def _extremes(values: npt.NDArray[Any]) -> tuple[float | int, float | int]:
    if values.dtype.kind == "f":
        return -np.inf, np.inf
    info = np.iinfo(values.dtype)
    return int(info.min), int(info.max)


def _outward(bounds: Floats, direction: float) -> Floats:
    # An int64 rounded to float64 may lie on the wrong side of the true bound and prune a row that matches.
    return np.where(np.abs(bounds) > EXACT_INTEGERS, np.nextafter(bounds, direction), bounds)
