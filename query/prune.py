"""What can be left unread: parts by what is told of their values, rows by time, leaves by minima and maxima.

Pruning never changes an answer; it only says of parts and leaves that no row, some rows or all rows match.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.storage.part import FieldStats, Part
from treering.storage.tree import Tree

from .ast import Scalar
from .bound import BAnd, BCompare, BCond, BExists, BHas, BIn, BMatches, BNot, BOr, BPhrase
from .compare import EXACT_FLOAT, compare_numbers, is_number
from .kinds import NUMBERS, kind_of
from .rows import Choice, Interval, holds, value_count
from .scan import level_code, matching
from .text_evidence import ALL, CANNOT, MANY, MAY, filter_answer, listed_answer

LEAF_SHARE = 0.05
"""Reading single leaves pays up to this share of the leaves; beyond it the column is read in order.

Source: measured, a leaf-wise read of many leaves is 7 to 8 times slower than a column scan.
"""

SUMMARISED = frozenset(("int", "float", "ts", "level"))
"""Kinds whose leaf minima and maxima are compared with a literal."""

MIN_LEAVES = 16
"""Trees with fewer leaves are not worth asking."""


class Evidence(IntEnum):
    """What an answer is made of, the cheap first; each takes in those before it.

    STATISTICS: counts, minima and maxima. PARTITIONS: listed values; both stand in the manifest. BLOOMS:
    filters over ids, for which one file of a segment is opened.
    """

    STATISTICS = 0
    PARTITIONS = 1
    BLOOMS = 2


Answers = npt.NDArray[np.int8]
Atom = Callable[[BCond], Answers]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows of a part that may match; is_certain: all of them do, no condition needs to be evaluated."""

    choice: Choice
    is_certain: bool

    def scanned(self, where: BCond | None) -> Choice:
        """Give the rows that match `where`, which is evaluated only where it has to be."""
        if self.is_certain or where is None:
            return self.choice
        return self.choice.where(matching(where, self.choice))


def candidates(
    part: Part,
    where: BCond | None,
    start_ns: int | None,
    end_ns: int | None,
    *,
    leaf_share: float = LEAF_SHARE,
) -> Candidates | None:
    """Give the rows of `part` in `[start_ns, end_ns)` that may match `where`; None when no row can."""
    if not in_time(part, start_ns, end_ns):
        return None
    answer = ALL if where is None else int(part_answer(where, part))
    intervals = [] if answer == CANNOT else time_intervals(part, start_ns, end_ns)
    return cut_to_leaves(part, where, answer, intervals, leaf_share=leaf_share)


def in_time(part: Part, start_ns: int | None, end_ns: int | None) -> bool:
    """Whether a part spans some of `[start_ns, end_ns)`."""
    if not part.n_rows:
        return False
    return (start_ns is None or part.t_max >= start_ns) and (end_ns is None or part.t_min < end_ns)


def cut_to_leaves(
    part: Part,
    where: BCond | None,
    answer: int,
    intervals: list[Interval],
    *,
    leaf_share: float = LEAF_SHARE,
) -> Candidates | None:
    """Give the rows of the intervals that may match, where the part answers so; None when no row can."""
    if not intervals:
        return None
    if answer == MAY and where is not None and _names_summary(where, part):
        intervals = _leaf_intervals(part, where, intervals, leaf_share)
    choice = Choice.of(part, intervals)
    return Candidates(choice, answer == ALL) if len(choice) else None


def time_intervals(part: Part, start_ns: int | None, end_ns: int | None) -> list[Interval]:
    """Rows of `[start_ns, end_ns)`, one interval a slice.

    A binary search in the sorted times of each slice is as narrow as a descent of the tree and exact at both
    ends.
    """
    from_start = start_ns is None or start_ns <= part.t_min
    to_end = end_ns is None or end_ns > part.t_max
    if from_start and to_end:
        return [(0, part.n_rows)]
    out = []
    for s in part.slices:
        times = part.ts[s.lo : s.hi]
        lo = 0 if from_start or start_ns is None else int(np.searchsorted(times, np.int64(start_ns)))
        hi = len(times) if to_end or end_ns is None else int(np.searchsorted(times, np.int64(end_ns)))
        if lo < hi:
            out.append((s.lo + lo, s.lo + hi))
    return out


def part_answer(where: BCond, part: Part, evidence: Evidence = Evidence.BLOOMS) -> Answers:
    """What is told of a part's values, as one answer."""
    return fold(where, lambda cond: np.array(_of_part(cond, part, evidence), np.int8))


def fold(cond: BCond, atom: Atom) -> Answers:
    """Answers of a whole condition from those of its atoms; single answers and arrays of them alike."""
    match cond:
        case BNot():
            return np.asarray(2 - fold(cond.item, atom), np.int8)
        case BAnd():
            return np.asarray(reduce(np.minimum, [fold(item, atom) for item in cond.items]), np.int8)
        case BOr():
            return np.asarray(reduce(np.maximum, [fold(item, atom) for item in cond.items]), np.int8)
    return atom(cond)


def _of_part(cond: BCond, part: Part, evidence: Evidence) -> int:
    match cond:
        case BExists():
            counts = [value_count(part, name) for name in cond.columns]
            return ALL if part.n_rows in counts else (MAY if any(counts) else CANNOT)
        case BPhrase():
            return MAY if any(holds(part, name) for name in cond.columns) else CANNOT
        case BHas() | BMatches() | BCompare() | BIn():
            held = [name for name in cond.column.physical if holds(part, name)]
            answers = [_of_column_told(cond, name, part, evidence) for name in held]
            # Only the first column speaks for every row, and only when every row has a value there.
            return CANNOT if not any(answers) else ALL if answers[0] == ALL else MAY
    return MAY


def _of_column_told(cond: BHas | BMatches | BCompare | BIn, name: str, part: Part, evidence: Evidence) -> int:
    """The answer of one physical column; what costs more is asked only where the cheaper left it open."""
    op, values = _comparison(cond)
    answer = MAY if op is None else _of_any(name, op, values, part)
    if cond.column.type == "level":  # its words are no texts where they are compared by order
        return answer
    if answer == MAY and evidence >= Evidence.PARTITIONS:
        answer = listed_answer(cond, name, part)
    if answer == MAY and evidence >= Evidence.BLOOMS and op == "=":
        answer = filter_answer(values, name, part)
    return answer


def _comparison(cond: BCond) -> tuple[str | None, tuple[Scalar, ...]]:
    match cond:
        case BCompare():
            return cond.op, (cond.value,)
        case BIn():
            return "=", cond.values
    return None, ()


def _of_any(name: str, op: str, values: Sequence[Scalar], part: Part) -> int:
    """The best answer of several values; of many numbers only what their smallest and largest tell."""
    kind = kind_of(part, name)
    if kind == "text":
        return MAY if any(isinstance(value, str) for value in values) else CANNOT
    if len(values) <= MANY:
        return max((_of_column(kind, name, op, v, part) for v in values), default=CANNOT)
    if kind in NUMBERS:
        figures = [v for v in values if is_number(v) and not isinstance(v, str)]
        ends = _ends(figures, lambda op, v: _of_column(kind, name, op, v, part)) if figures else (CANNOT,)
        return min(MAY, *ends)
    by_type = {type(v): v for v in values}.values() if kind != "level" else values
    return min(MAY, max(_of_column(kind, name, op, v, part) for v in by_type))


def _ends(figures: Sequence[int | float], answer: Callable[[str, int | float], Any]) -> tuple[Any, Any]:
    """Answers to lying at or above the smallest, and at or below the largest of the figures."""
    return answer(">=", min(figures)), answer("<=", max(figures))


def _of_column(kind: str, name: str, op: str, value: Scalar, part: Part) -> int:
    """What the statistics of a column that is no text say of a comparison."""
    if kind == "level":
        code = level_code(value)
        return CANNOT if code is None else _of_stats(kind, name, op, code, part)
    if kind in NUMBERS:
        if isinstance(value, str) or not is_number(value):
            return CANNOT
        return _of_stats(kind, name, op, value, part)
    if kind == "bool":
        return MAY if isinstance(value, bool) and op == "=" else CANNOT
    return CANNOT if kind == "object" else MAY


def _of_stats(kind: str, name: str, op: str, value: int | float, part: Part) -> int:
    stats = FieldStats(part.n_rows, part.t_min, part.t_max) if name == "ts" else part.fields.get(name)
    if stats is None or stats.minimum is None or stats.maximum is None or kind == "decimal":
        return MAY
    # Statistics of a float column leave NaN out, so that they never prove that every row matches.
    whole = kind != "float" and stats.n == part.n_rows
    lo, hi = _widened(np.array([stats.minimum]), -1), _widened(np.array([stats.maximum]), 1)
    answer = int(range_answers(lo, hi, op, value)[0])
    return answer if answer != ALL or whole else MAY


def range_answers(
    minimum: npt.NDArray[Any], maximum: npt.NDArray[Any], op: str, value: int | float
) -> Answers:
    """Answers for values known to lie in `[minimum, maximum]`; bounds of NaN mean that there is no value."""
    if op == "=":
        may = compare_numbers(minimum, "<=", value) & compare_numbers(maximum, ">=", value)
        every = compare_numbers(minimum, "=", value) & compare_numbers(maximum, "=", value)
    else:
        near, far = (maximum, minimum) if op in (">", ">=") else (minimum, maximum)
        may, every = compare_numbers(near, op, value), compare_numbers(far, op, value)
    return may.astype(np.int8) + every.astype(np.int8)


def _widened(bounds: npt.NDArray[Any], sign: int) -> npt.NDArray[Any]:
    """Bounds that hold although a whole number beyond 2**53 was rounded to float64."""
    if bounds.dtype.kind != "f":
        return bounds
    return np.where(np.abs(bounds) >= EXACT_FLOAT, np.nextafter(bounds, sign * math.inf), bounds)


def _names_summary(cond: BCond, part: Part) -> bool:
    """Whether a leaf of the tree can say anything about the condition."""
    tree = part.tree
    known = set(tree.signals)
    return len(tree.count) >= 2 * MIN_LEAVES and any(name in known for name in _compared_names(cond))


def _compared_names(cond: BCond) -> Iterator[str]:
    match cond:
        case BNot():
            yield from _compared_names(cond.item)
        case BAnd() | BOr():
            for item in cond.items:
                yield from _compared_names(item)
        case BCompare() | BIn():
            yield from cond.column.physical


def leaves_of(tree: Tree) -> npt.NDArray[np.intp]:
    """Nodes without children."""
    return np.flatnonzero((tree.left < 0) & (tree.right < 0))


def _leaf_intervals(part: Part, where: BCond, intervals: list[Interval], leaf_share: float) -> list[Interval]:
    """The intervals cut down to leaves that may match, when these are few."""
    tree = part.tree
    leaves = leaves_of(tree)
    answers = np.broadcast_to(fold(where, lambda cond: _of_leaves(cond, part, tree, leaves)), len(leaves))
    kept = leaves[answers > CANNOT]
    if len(kept) > leaf_share * len(leaves):
        return intervals
    return leaf_rows(tree, kept, intervals)


def leaf_rows(tree: Tree, leaves: npt.NDArray[np.intp], intervals: Sequence[Interval]) -> list[Interval]:
    """Rows of these leaves inside disjoint intervals."""
    pieces = np.stack([tree.lo[leaves].ravel(), tree.hi[leaves].ravel()], axis=1)
    return [
        (max(int(lo), start), min(int(hi), stop))
        for start, stop in intervals
        for lo, hi in pieces[(pieces[:, 1] > start) & (pieces[:, 0] < stop) & (pieces[:, 0] < pieces[:, 1])]
    ]


def _of_leaves(cond: BCond, part: Part, tree: Tree, leaves: npt.NDArray[np.intp]) -> Answers:
    of_part = np.int8(_of_part(cond, part, Evidence.BLOOMS))
    op, values = _comparison(cond)
    if not isinstance(cond, BCompare | BIn) or op is None:
        return np.full(len(leaves), of_part, np.int8)
    held = [name for name in cond.column.physical if holds(part, name)]
    is_told = all(name in tree.signals and kind_of(part, name) in SUMMARISED for name in held)
    if of_part != MAY or not values or not is_told:
        return np.full(len(leaves), of_part, np.int8)
    columns = [_of_leaf_column(name, op, values, part, tree, leaves) for name in held]
    best: Answers = reduce(np.maximum, columns)
    return np.where(best == CANNOT, CANNOT, np.where(columns[0] == ALL, ALL, MAY)).astype(np.int8)


def _of_leaf_column(
    name: str, op: str, values: Sequence[Scalar], part: Part, tree: Tree, leaves: npt.NDArray[np.intp]
) -> Answers:
    i = tree.signals.index(name)
    lo, hi = _widened(tree.minimum[leaves, i], -1), _widened(tree.maximum[leaves, i], 1)
    figures = [n for v in values if (n := _number_for(part, name, v)) is not None]
    if not figures:
        return np.full(len(leaves), CANNOT, np.int8)
    if len(figures) > MANY:
        low, high = _ends(figures, lambda op, number: range_answers(lo, hi, op, number))
        return np.asarray(np.minimum(np.minimum(low, high), MAY), np.int8)
    best: Answers = reduce(np.maximum, [range_answers(lo, hi, op, number) for number in figures])
    every_row = tree.n[leaves, i] == tree.count[leaves]
    return np.where((best == ALL) & ~every_row, MAY, best).astype(np.int8)


def _number_for(part: Part, name: str, value: Scalar) -> int | float | None:
    if kind_of(part, name) == "level":
        return level_code(value)
    return value if is_number(value) and not isinstance(value, str) else None
