"""The best N by a number: leaves of the tree by their maxima until no other leaf can do better."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from treering.storage.part import Part
from treering.storage.tree import Tree

from .bound import BCond, BSort
from .compare import EXACT_FLOAT
from .kinds import kind_of
from .prune import LEAF_SHARE, MIN_LEAVES, Candidates, leaf_rows, leaves_of
from .rows import Choice, holds
from .scan import matching, numbers

FIRST_LEAVES = 4
"""Leaves read before the first look at what is still in reach."""


def narrowed(
    one: Candidates, where: BCond | None, sort: BSort, n: int, *, leaf_share: float = LEAF_SHARE
) -> Choice | None:
    """Give few rows that hold the first n candidates by `sort`, ties included; None when that does not pay.

    Exact: a leaf is left out only when its best possible value is worse than n values that were read.
    """
    part = one.choice.part
    name = _summarised(part, sort)
    if name is None or n < 1 or not isinstance(one.choice.rows, slice):
        return None
    tree = part.tree
    leaves = leaves_of(tree)
    best = _best_of(tree, leaves, name, descending=sort.descending)
    order = np.argsort(-best, kind="stable")
    order = order[best[order] > -math.inf]
    budget = int(leaf_share * len(leaves))
    taken, worst = FIRST_LEAVES, -math.inf
    while taken <= budget:
        choice = _rows_of(one.choice, tree, leaves[order[:taken]])
        worst = _nth_best(choice, where, name, n, descending=sort.descending)
        reach = int(np.searchsorted(-best[order], -worst, side="right"))
        if worst > -math.inf and reach <= budget:
            return _rows_of(one.choice, tree, leaves[order[: max(reach, taken)]])
        if taken >= len(order):
            return None
        taken *= 4
    return None


def best_rows(choice: Choice, sort: BSort, n: int) -> tuple[Choice, int] | None:
    """Give the chosen rows that reach the n-th best value, and how many have a value.

    None where the key is more than one column of numbers here, or fewer than n rows have a value.
    """
    name = _one_number(choice.part, sort)
    if name is None or n < 1 or len(choice) <= n:
        return None
    values, is_valued = _values(choice, name)
    if not sort.descending:
        values = -values
    n_valued = len(values) if is_valued is None else int(np.count_nonzero(is_valued))
    if n_valued < n:
        return None
    valued = values if is_valued is None else values[is_valued]
    worst = np.partition(valued, len(valued) - n)[len(valued) - n]
    reached = values >= worst if is_valued is None else is_valued & (values >= worst)
    return choice.where(reached), n_valued


def _values(choice: Choice, name: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_] | None]:
    """Nearest float of each chosen row's number, and which rows have one that is not NaN (None: all).

    Rounding keeps the order, so that rows that reach a rounded value include all that reach the true one.
    """
    stored, valid = numbers(choice.part, name)
    values = choice.of_rows(stored).astype(np.float64)
    is_valued = None if valid is None else choice.of_rows(valid)
    missing = np.isnan(values)
    if missing.any():
        is_valued = ~missing if is_valued is None else is_valued & ~missing
    return values, is_valued


def _summarised(part: Part, sort: BSort) -> str | None:
    """The one stored column of the key, when the tree knows its bounds."""
    name = _one_number(part, sort)
    is_known = name in part.tree.signals and len(part.tree.count) >= 2 * MIN_LEAVES
    return name if is_known else None


def _one_number(part: Part, sort: BSort) -> str | None:
    """The only column of the key that the part holds, when that is one of numbers."""
    if sort.column is None:
        return None
    held = [name for name in sort.column.physical if holds(part, name)]
    return held[0] if len(held) == 1 and kind_of(part, held[0]) in ("int", "float", "level") else None


def _best_of(
    tree: Tree, leaves: npt.NDArray[np.intp], name: str, *, descending: bool
) -> npt.NDArray[np.float64]:
    """Best value of each leaf where higher is better, rounded up; -inf where it has none."""
    i = tree.signals.index(name)
    best = tree.maximum[leaves, i] if descending else -tree.minimum[leaves, i]
    best = np.where(np.isnan(best), -math.inf, best)
    return np.where(np.abs(best) >= EXACT_FLOAT, np.nextafter(best, math.inf), best)


def _rows_of(choice: Choice, tree: Tree, leaves: npt.NDArray[np.intp]) -> Choice:
    rows = choice.rows
    intervals = [(rows.start, rows.stop)] if isinstance(rows, slice) else []
    return Choice.of(choice.part, leaf_rows(tree, leaves, intervals))


def _nth_best(choice: Choice, where: BCond | None, name: str, n: int, *, descending: bool) -> float:
    """The n-th best value of the rows that match, rounded down; -inf when there are fewer."""
    if where is not None:
        choice = choice.where(matching(where, choice))
    mine, is_valued = _values(choice, name)
    mine = mine if is_valued is None else mine[is_valued]
    if len(mine) < n:
        return -math.inf
    mine = mine if descending else -mine
    worst = float(np.partition(mine, len(mine) - n)[len(mine) - n])
    return math.nextafter(worst, -math.inf) if abs(worst) >= EXACT_FLOAT else worst
