"""Which segments to fold into one: a plan over the manifest, without touching a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .cells import covering_cell, middle_ns
from .meta import SegmentMeta

FOLD_ROWS = 1 << 20
"""A fold that joins cells has at most this many rows: a merge in memory, and a fair unit of parallel work."""

FOLD_BYTES = 256 << 20
"""Nor have its segments' files more bytes than this: long texts are in memory as a whole while they merge."""

FOLD_LEVEL = 28
"""A fold never joins cells into one above this level: 2**48 ns, 3.3 days, the least that retention drops."""

FAN_IN = 4
"""Folded segments are folded again once this many of a generation lie together; young ones at once."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Segments that become one of the cell (level, cell)."""

    level: int
    cell: int
    segments: tuple[SegmentMeta, ...]


def plan_folds(segments: Sequence[SegmentMeta]) -> list[Fold]:
    """Give what can be folded now; no segment stands in two folds.

    Finished segments of one generation come together if one cell of level <= FOLD_LEVEL with at most
    FOLD_ROWS rows and FOLD_BYTES bytes of files, or their own common cell, holds them.
    """
    folds = []
    finished = sorted((s for s in segments if s.is_finished), key=lambda s: (s.t_min, s.id))
    for generation in sorted({s.generation for s in finished}):
        groups = _groups([s for s in finished if s.generation == generation])
        folds += [make_fold(group) for group in groups if len(group) >= least_fold(generation)]
    return folds


def least_fold(generation: int) -> int:
    """Give from how many segments of a generation on a fold is worth while."""
    return 1 if generation == 0 else FAN_IN


def make_fold(group: Sequence[SegmentMeta]) -> Fold:
    """Give the fold of some segments into the smallest cell that holds them."""
    level, cell = _cover(group)
    return Fold(level, cell, tuple(group))


def _groups(segments: list[SegmentMeta]) -> Iterator[list[SegmentMeta]]:
    waiting = [segments]
    while waiting:
        group = waiting.pop()
        if not group:
            continue
        level, cell = _cover(group)
        if len(group) == 1 or (level <= FOLD_LEVEL and _fits(group)):
            yield group
            continue
        own = [s for s in group if (s.level, s.cell) == (level, cell)]
        yield from _chunks(own)
        rest = [s for s in group if (s.level, s.cell) != (level, cell)]
        middle = middle_ns(level, cell) if level else 0
        waiting += [[s for s in rest if s.t_min >= middle], [s for s in rest if s.t_min < middle]]


def _chunks(segments: list[SegmentMeta]) -> Iterator[list[SegmentMeta]]:
    chunk: list[SegmentMeta] = []
    for segment in segments:
        if chunk and not _fits([*chunk, segment]):
            yield chunk
            chunk = []
        chunk.append(segment)
    if chunk:
        yield chunk


def _fits(group: Sequence[SegmentMeta]) -> bool:
    return sum(s.n_rows for s in group) <= FOLD_ROWS and sum(s.n_bytes for s in group) <= FOLD_BYTES


def _cover(group: Sequence[SegmentMeta]) -> tuple[int, int]:
    return max(
        covering_cell(min(s.t_min for s in group), max(s.t_max for s in group)),
        *((s.level, s.cell) for s in group),
    )
