"""Over a long history of flushes segments stay few, and no row is rewritten often."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.effort import examples, scaled
from tests.storage.folds import DAY_NS, REACH_NS, SECOND_NS, Plan, joined, near, segment
from treering.storage.cells import ROOT_LEVEL, covering_cell
from treering.storage.fold import (
    FAN_IN,
    FOLD_LEVEL,
    WAITING_BYTES,
    WAITING_ROWS,
    Fold,
    limits,
    plan_compaction,
    plan_folds,
    plan_tiers,
    reach,
    tier,
)
from treering.storage.meta import LateFile, SegmentMeta
from treering.storage.stored_file import StoredFile
from treering.storage.tree import TICK_BITS


class History:
    """A store without files: what is flushed is folded at once, and each rewrite of a row is counted.

    rewrites: how often the rows of each segment were rewritten, at most. written: rows written by folds.
    """

    def __init__(self) -> None:
        self.segments: dict[str, SegmentMeta] = {}
        self.rewrites: dict[str, int] = {}
        self.smallest: dict[str, int] = {}
        self.n_rows = self.written = self.n_made = 0

    def flush(self, segment: SegmentMeta) -> None:
        self.put(segment, 0, segment.n_rows)
        self.n_rows += segment.n_rows

    def put(self, segment: SegmentMeta, rewrites: int, smallest: int) -> None:
        self.n_made += 1
        named = replace(segment, id=f"{self.n_made}")
        self.segments[named.id] = named
        self.rewrites[named.id], self.smallest[named.id] = rewrites, smallest

    def finish(self) -> None:
        late = (LateFile(StoredFile("late-0.arrow", 1, 0), 1, {}),)
        for name, one in self.segments.items():
            if not one.is_finished:
                self.segments[name] = replace(one, pending=0, late=late)

    def fold(self, plan: Plan = plan_folds, shrink: float = 1.0) -> None:
        while folds := plan(self.segments.values()):
            for fold in folds:
                for member in fold.segments:
                    del self.segments[member.id]
                ids = [member.id for member in fold.segments]
                made = joined(fold, "made", shrink=shrink)
                self.check_cell(fold)
                self.written += made.n_rows
                most = 1 + max(self.rewrites.pop(name) for name in ids)
                self.put(made, most, min(self.smallest.pop(name) for name in ids))

    def check_cell(self, fold: Fold) -> None:
        """A fold is as wide as what it holds, and never wider than FOLD_LEVEL unless its segments were."""
        first, last = min(s.t_min for s in fold.segments), max(s.t_max for s in fold.segments)
        if fold.level < ROOT_LEVEL:
            assert first >> (TICK_BITS + fold.level) == fold.cell == last >> (TICK_BITS + fold.level)
        assert fold.level <= max(FOLD_LEVEL, *(s.level for s in fold.segments))
        assert len({(s.pending > 0, s.signals_pending) for s in fold.segments}) == 1

    def check_counts(self) -> None:
        """In reach of each other are at most 3 of a tier, and 4 for each time that a limit is used up."""
        reaches = defaultdict[tuple[bool, bool, tuple[int, int]], list[SegmentMeta]](list)
        for one in self.segments.values():
            reaches[one.pending > 0, one.signals_pending, reach(one)].append(one)
        for members in reaches.values():
            most_rows, most_bytes = limits(members[0])
            filled = sum(s.n_rows / most_rows + s.n_bytes / most_bytes for s in members)
            tiers = {tier(s) for s in members}
            assert len(members) <= (FAN_IN - 1) * len(tiers) + FAN_IN * filled
            assert len(tiers) <= 2 + math.log(max(most_rows, *(s.n_rows for s in members)), FAN_IN)

    def check_rewrites(self, *, finishings: int) -> None:
        for name, one in self.segments.items():
            climbed = math.log(one.n_rows / self.smallest[name], FAN_IN) + 1
            assert self.rewrites[name] <= finishings + climbed, one


def arrivals(rng: random.Random, n: int, order: str) -> Iterable[int]:
    """Times of flushes: in order, some late by days, or anywhere in a month."""
    now = 20_000 * DAY_NS
    for i in range(n):
        now += rng.randrange(1, 120) * SECOND_NS
        if order == "anywhere":
            yield 20_000 * DAY_NS + rng.randrange(30 * DAY_NS)
        elif order == "late" and i % 7 == 0:
            yield now - rng.randrange(20 * DAY_NS)
        else:
            yield now


def flushes(rng: random.Random, n: int, order: str, most_rows: int, row_bytes: int) -> Iterable[SegmentMeta]:
    for start in arrivals(rng, n, order):
        n_rows = min(most_rows, int(rng.paretovariate(0.5)))
        width = min(60 * SECOND_NS, REACH_NS - 1 - start % REACH_NS)
        yield segment("", start, start + width, n_rows, n_bytes=n_rows * rng.randrange(1, 2 * row_bytes))


@pytest.mark.parametrize("order", ["in order", "late", "anywhere"])
@pytest.mark.parametrize(("most_rows", "row_bytes"), [(5_000, 100), (60_000, 20_000)])
def test_rewrites_and_segments_stay_bounded_over_a_long_history(
    order: str, most_rows: int, row_bytes: int
) -> None:
    history, rng = History(), random.Random(f"{order}{most_rows}")
    for i, flushed in enumerate(flushes(rng, scaled(1200), order, most_rows, row_bytes)):
        history.flush(flushed)
        history.fold(shrink=rng.choice([0.3, 0.9]))
        if i % 100 == 0:
            history.check_counts()
    history.check_counts()
    history.check_rewrites(finishings=1)
    assert sum(s.n_rows for s in history.segments.values()) == history.n_rows
    history.fold(plan_compaction)
    history.check_counts()
    assert not plan_folds(history.segments.values())


def test_without_haste_no_rewrite_is_spent_on_the_order_alone() -> None:
    history, rng = History(), random.Random(3)
    for i, flushed in enumerate(flushes(rng, scaled(1200), "late", 5_000, 100)):
        history.flush(flushed)
        history.fold(plan_tiers)
        if i % 100 == 0:
            history.check_counts()
    history.check_counts()
    history.check_rewrites(finishings=0)


def test_a_row_of_equal_flushes_is_rewritten_once_a_tier() -> None:
    history, n_flushes = History(), 4**6
    for i in range(n_flushes):
        history.flush(segment("", i * SECOND_NS, (i + 1) * SECOND_NS - 1, 64))
        history.fold()
    assert history.written <= (1 + math.log(n_flushes, FAN_IN)) * history.n_rows
    assert len(history.segments) <= (FAN_IN - 1) * 7


@pytest.mark.parametrize("order", ["in order", "anywhere"])
def test_what_waits_for_months_stays_few_and_is_rewritten_once_more_in_the_end(order: str) -> None:
    history, rng = History(), random.Random(order)
    for i, flushed in enumerate(flushes(rng, scaled(1500), order, 2_000, 300)):
        history.flush(replace(flushed, pending=1))
        history.fold()
        if i % 100 == 0:
            history.check_counts()
    history.check_counts()
    history.check_rewrites(finishings=0)
    assert all(s.n_rows <= WAITING_ROWS and s.n_bytes <= WAITING_BYTES for s in history.segments.values())
    history.finish()
    history.fold()
    history.check_counts()
    history.check_rewrites(finishings=1)


def test_a_plan_over_tens_of_thousands_of_segments_leaves_few() -> None:
    history, rng = History(), random.Random(1)
    for flushed in flushes(rng, 20_000, "late", 1_000, 300):
        history.flush(flushed)
    history.fold()
    history.check_counts()
    history.check_rewrites(finishings=1)
    assert len(history.segments) < 400


@examples(100)
@given(
    st.lists(st.tuples(near, st.sampled_from([1, 9, 1000])), min_size=1, max_size=20),
    st.sampled_from([-1, 0, 1, 2**62, -(2**62), 4 * 10**18]),
)
def test_one_event_from_another_age_widens_no_cell(drawn: list[tuple[tuple[int, int], int]], t: int) -> None:
    def cells(*, with_stray: bool) -> set[tuple[int, int]]:
        history = History()
        for span, n_rows in drawn:
            history.flush(segment("", *span, n_rows))
        if with_stray:
            history.flush(segment("", t, t, 1))
        for plan in (plan_folds, plan_compaction):
            history.fold(plan)
        return {(s.level, s.cell) for s in history.segments.values()}

    assume(reach(segment("", t, t)) not in {reach(segment("", *span)) for span, _ in drawn})
    assert cells(with_stray=True) == cells(with_stray=False) | {covering_cell(t, t)}
