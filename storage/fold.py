"""Which segments to rewrite into one: plans over the manifest, without touching a file.

Segments are in reach of each other if one cell of level FOLD_LEVEL holds them, or if they are of the very same
wider cell. They are joined only then, and only in one state: finished, waiting for vectors, or for signals
alone, since what waits longest would keep the others from being finished.

A tier holds the segments of one size class, 4**tier events and more. FAN_IN of one tier in reach of each other
become one segment of a higher tier, so every event climbs: it is rewritten at most once for each tier between
its flush and FOLD_ROWS, log4(n / flush), besides once when it is finished. Of any FAN_IN neighbours of a tier
that are left, the sum is beyond a limit, which bounds how many can lie in reach of each other.

Source: size-tiered merges of LSM trees; `docs/design/compaction.md` has both bounds and what was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .cells import covering_cell, time_node
from .meta import SegmentMeta

FOLD_ROWS = 1 << 20
"""Segments that are joined have together at most this many rows: a merge in memory, and a fair unit of work."""

FOLD_BYTES = 256 << 20
"""Nor have their files more bytes than this: long texts are in memory while they merge."""

WAITING_ROWS = FOLD_ROWS >> 4
"""Segments whose vectors or signals are to come grow up to this only: they are rewritten once more when these
have come, and an embedding that is interrupted begins the signals of one segment again."""

WAITING_BYTES = FOLD_BYTES >> 2
"""Likewise."""

FOLD_LEVEL = 28
"""Nothing is joined into a cell above this level: 2**48 ns, 3.3 days, the least that retention drops."""

FAN_IN = 4
"""Segments of one tier in reach of each other that are worth a rewrite."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Segments that become one of the cell (level, cell)."""

    level: int
    cell: int
    segments: tuple[SegmentMeta, ...]

    @property
    def n_rows(self) -> int:
        """Events it rewrites."""
        return sum(segment.n_rows for segment in self.segments)


def plan_folds(segments: Iterable[SegmentMeta]) -> list[Fold]:
    """Give what is due now, the smallest first; no segment stands in two folds.

    FAN_IN of a tier are due, with what is smaller and lies between them. Due by itself is a segment with
    deleted events, and a finished one that was never ordered by shard.
    """
    return _plan(segments, is_due)


def plan_tiers(segments: Iterable[SegmentMeta]) -> list[Fold]:
    """Give what is due now as `plan_folds`, but leave finished segments that are not ordered until there are FAN_IN.

    So the first rewrite of a segment joins it as well: for one who has time.
    """
    return _plan(segments, lambda segment: segment.deleted is not None)


def plan_compaction(segments: Iterable[SegmentMeta]) -> list[Fold]:
    """Give what can be joined at all, whatever it costs; nothing once no two neighbours fit together.

    Then at most one segment in reach of others has less than half of what a limit allows.
    """
    return [make_fold(run) for group in _groups(segments) for run in _all_runs(group)]


def make_fold(group: Sequence[SegmentMeta]) -> Fold:
    """Give the fold of some segments into the smallest cell that holds them."""
    cover = covering_cell(min(s.t_min for s in group), max(s.t_max for s in group))
    level, cell = max(cover, *((s.level, s.cell) for s in group))
    return Fold(level, cell, tuple(group))


def tier(segment: SegmentMeta) -> int:
    """Give the size class of a segment: floor(log4(events)). Joining FAN_IN of a tier gives a higher one."""
    return (max(segment.n_live, 1).bit_length() - 1) // 2


def reach(segment: SegmentMeta) -> tuple[int, int]:
    """Give the cell in which a segment may be joined with others: its own where that is above FOLD_LEVEL."""
    if segment.level > FOLD_LEVEL:
        return segment.level, segment.cell
    return FOLD_LEVEL, time_node(segment.t_min, FOLD_LEVEL)


def limits(segment: SegmentMeta) -> tuple[int, int]:
    """Give the most rows and bytes of a segment that this one is joined into."""
    return (FOLD_ROWS, FOLD_BYTES) if segment.is_finished else (WAITING_ROWS, WAITING_BYTES)


def is_due(segment: SegmentMeta) -> bool:
    """Whether a segment is rewritten even by itself."""
    # Sidecars say that vectors or signals came after it was written: its rows are not ordered by shard yet.
    is_young = segment.generation == 0 or bool(segment.late)
    return segment.deleted is not None or (segment.is_finished and is_young)


def _plan(segments: Iterable[SegmentMeta], is_due_alone: Callable[[SegmentMeta], bool]) -> list[Fold]:
    folds = [make_fold(run) for group in _groups(segments) for run in _due_runs(group, is_due_alone)]
    return sorted(folds, key=lambda fold: fold.n_rows)


def _groups(segments: Iterable[SegmentMeta]) -> Iterator[list[SegmentMeta]]:
    """Give the segments that may be joined with each other, in time order."""
    groups = defaultdict[tuple[bool, bool, tuple[int, int]], list[SegmentMeta]](list)
    for segment in segments:
        groups[segment.pending > 0, segment.signals_pending, reach(segment)].append(segment)
    for group in groups.values():
        yield sorted(group, key=lambda s: (s.t_min, s.id))


def _due_runs(
    group: Sequence[SegmentMeta], is_due_alone: Callable[[SegmentMeta], bool]
) -> Iterator[list[SegmentMeta]]:
    taken = set[str]()
    for run in _tier_runs(group, taken):
        taken.update(segment.id for segment in run)
        yield run
    yield from _runs([s for s in group if s.id not in taken and is_due_alone(s)], least=1)


def _tier_runs(group: Sequence[SegmentMeta], taken: Collection[str]) -> Iterator[list[SegmentMeta]]:
    tiers = defaultdict[int, list[SegmentMeta]](list)
    for segment in group:
        tiers[tier(segment)].append(segment)
    smaller = [s for number, members in tiers.items() if len(members) < FAN_IN for s in members]
    for number in sorted(tiers, reverse=True):
        for run in _runs([s for s in tiers[number] if s.id not in taken], least=FAN_IN):
            yield [*run, *_between(run, [s for s in smaller if tier(s) < number and s.id not in taken])]


def _between(run: Sequence[SegmentMeta], smaller: Iterable[SegmentMeta]) -> Iterator[SegmentMeta]:
    """Give segments of lower tiers that lie between those of a run, as far as they fit: they climb more."""
    t_min, t_max = run[0].t_min, max(s.t_max for s in run)
    total = _Total.of(run)
    for segment in smaller:
        if t_min <= segment.t_min and segment.t_max <= t_max and total.has_room(segment):
            total.add(segment)
            yield segment


def _all_runs(group: Sequence[SegmentMeta]) -> list[list[SegmentMeta]]:
    runs = [run for run in _runs(group, least=1) if len(run) > 1 or is_due(run[0])]
    if runs:
        return runs
    # No neighbours fit together, but small ones may still lie between full ones.
    return list(_runs([s for s in group if not _is_half_full(s)], least=2))


def _runs(segments: Iterable[SegmentMeta], *, least: int) -> Iterator[list[SegmentMeta]]:
    """Give runs of neighbours, as long as the limits allow, of at least `least` segments.

    Of any `least` neighbours that stand in no run, the sum is beyond a limit.
    """
    run, total = list[SegmentMeta](), _Total()
    for segment in segments:
        while run and not total.has_room(segment):
            if len(run) >= least:
                yield run
                run, total = [], _Total()
            else:
                total.remove(run.pop(0))
        run.append(segment)
        total.add(segment)
    if len(run) >= least:
        yield run


@dataclass(slots=True)
class _Total:
    """What some segments of one state come to."""

    n_rows: int = 0
    n_bytes: int = 0

    @classmethod
    def of(cls, segments: Iterable[SegmentMeta]) -> _Total:
        total = cls()
        for segment in segments:
            total.add(segment)
        return total

    def has_room(self, segment: SegmentMeta) -> bool:
        most_rows, most_bytes = limits(segment)
        return self.n_rows + segment.n_rows <= most_rows and self.n_bytes + segment.n_bytes <= most_bytes

    def add(self, segment: SegmentMeta) -> None:
        self.n_rows += segment.n_rows
        self.n_bytes += segment.n_bytes

    def remove(self, segment: SegmentMeta) -> None:
        self.n_rows -= segment.n_rows
        self.n_bytes -= segment.n_bytes


def _is_half_full(segment: SegmentMeta) -> bool:
    most_rows, most_bytes = limits(segment)
    return 2 * segment.n_rows > most_rows or 2 * segment.n_bytes > most_bytes
