from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.storage.test_manifest import meta
from treering.storage.cells import ROOT_LEVEL, covering_cell
from treering.storage.fold import (
    FAN_IN,
    FOLD_BYTES,
    FOLD_LEVEL,
    FOLD_ROWS,
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
from treering.storage.meta import Deletion, LateFile, SegmentMeta, StoredFile
from treering.storage.tree import TICK_BITS

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS
REACH_NS = 1 << (TICK_BITS + FOLD_LEVEL)
Plan = Callable[[Iterable[SegmentMeta]], list[Fold]]


def segment(
    name: str,
    t_min: int,
    t_max: int,
    n_rows: int = 10,
    generation: int = 0,
    pending: int = 0,
    n_bytes: int = 0,
    deleted: int = 0,
) -> SegmentMeta:
    level, cell = covering_cell(t_min, t_max)
    deletion = Deletion(StoredFile("del-0.arrow", 10, 0), deleted, 0) if deleted else None
    return replace(
        meta(1),
        id=name,
        level=level,
        cell=cell,
        t_min=t_min,
        t_max=t_max,
        n_rows=n_rows,
        generation=generation,
        pending=pending,
        signals_pending=False,
        files=(StoredFile("text.arrow", n_bytes, 0),),
        deleted=deletion,
    )


def names(segments: list[SegmentMeta], plan: Plan = plan_folds) -> list[set[str]]:
    return [{s.id for s in fold.segments} for fold in plan(segments)]


def seconds(n: int, n_rows: int = 10, generation: int = 1, pending: int = 0) -> list[SegmentMeta]:
    """Segments one behind the other, a second each, named s0, s1, ..."""
    return [
        segment(f"s{i}", i * SECOND_NS, (i + 1) * SECOND_NS - 1, n_rows, generation, pending)
        for i in range(n)
    ]


def joined(fold: Fold, name: str, *, shrink: float = 1.0) -> SegmentMeta:
    """The segment that a fold makes."""
    members = fold.segments
    return replace(
        members[0],
        id=name,
        level=fold.level,
        cell=fold.cell,
        t_min=min(s.t_min for s in members),
        t_max=max(s.t_max for s in members),
        n_rows=sum(s.n_live for s in members),
        files=(StoredFile("text.arrow", int(shrink * sum(s.n_bytes for s in members)), 0),),
        late=(),
        generation=1 + max(s.generation for s in members),
        pending=sum(s.pending for s in members),
        deleted=None,
    )


def test_young_segments_of_one_time_become_one() -> None:
    assert names(seconds(3, generation=0)) == [{"s0", "s1", "s2"}]


def test_a_lone_young_segment_is_folded_once() -> None:
    assert names([segment("a", 0, SECOND_NS)]) == [{"a"}]
    assert names([segment("a", 0, SECOND_NS, generation=1)]) == []


def test_a_segment_whose_vectors_came_after_it_was_joined_is_folded_once_more() -> None:
    late = LateFile(StoredFile("late-0.arrow", 1, 0), 1, {})
    assert names([replace(segment("a", 0, 1, generation=2), late=(late,))]) == [{"a"}]
    assert names([replace(segment("a", 0, 1, generation=2, pending=1), late=(late,))]) == []


def test_what_waits_for_vectors_or_signals_is_not_due_by_itself() -> None:
    waiting = [segment("a", 0, 1, pending=1), replace(segment("b", 0, 1), signals_pending=True)]
    assert names(waiting) == []


def test_what_waits_is_joined_among_itself_once_there_is_enough_of_it() -> None:
    waiting = seconds(FAN_IN, generation=0, pending=3)
    assert names(waiting[:-1]) == []
    assert names(waiting) == [{s.id for s in waiting}]
    assert names([*waiting[:-1], segment("done", 0, 5, generation=1)]) == []
    large = seconds(FAN_IN, n_rows=WAITING_ROWS // 2, pending=3)
    assert names(large) == []
    assert names([replace(s, pending=0) for s in large]) == [{s.id for s in large}]


def test_what_waits_for_signals_alone_is_not_kept_waiting_by_what_waits_for_vectors() -> None:
    signals = [replace(s, signals_pending=True) for s in seconds(FAN_IN)]
    vectors = [replace(s, id=f"v{s.id}", pending=2) for s in signals]
    assert names(signals[1:] + vectors[1:]) == []
    for plan in (plan_folds, plan_compaction):
        found = names(signals + vectors, plan)
        assert sorted(map(sorted, found)) == [[s.id for s in signals], [s.id for s in vectors]]


@pytest.mark.parametrize("pending", [0, 1])
def test_a_segment_with_deleted_events_is_always_due(pending: int) -> None:
    assert names([segment("a", 0, 1, generation=3, deleted=1, pending=pending)]) == [{"a"}]
    full = segment("a", 0, 1, FOLD_ROWS + 5, generation=3, deleted=FOLD_ROWS + 5, n_bytes=2 * FOLD_BYTES)
    assert names([replace(full, pending=pending)]) == [{"a"}]


def test_neighbours_join_up_to_the_row_limit() -> None:
    hour = 3600 * SECOND_NS
    small = [segment(f"s{i}", i * hour, (i + 1) * hour - 1) for i in range(6)]
    assert names(small) == [{f"s{i}" for i in range(6)}]
    large = [replace(s, n_rows=FOLD_ROWS // 2) for s in small]
    assert len(names(large)) > 2


def test_neighbours_join_up_to_the_byte_limit() -> None:
    hour = 3600 * SECOND_NS
    small = [segment(f"s{i}", i * hour, (i + 1) * hour - 1) for i in range(6)]
    file = StoredFile("text.arrow", FOLD_BYTES // 2, 0)
    assert len(names([replace(s, files=(file,)) for s in small])) > 2
    late = LateFile(file, 0, {})
    assert len(names([replace(s, late=(late,)) for s in small])) > 2
    same = [replace(segment(f"s{i}", 0, hour), files=(file,)) for i in range(6)]
    assert names(same) == [{"s0", "s1"}, {"s2", "s3"}, {"s4", "s5"}]


def test_distant_segments_stay_apart() -> None:
    assert names([segment("a", 0, SECOND_NS), segment("b", 400 * DAY_NS, 400 * DAY_NS + 1)]) == [{"a"}, {"b"}]


def test_folded_segments_fold_again_when_there_are_enough_of_a_size() -> None:
    folded = seconds(FAN_IN)
    assert names(folded[:-1]) == []
    assert names(folded) == [{s.id for s in folded}]
    assert names([*folded[:-1], replace(folded[-1], n_rows=4 * 10)]) == []


def test_what_is_smaller_and_lies_between_is_taken_along() -> None:
    large = seconds(FAN_IN, n_rows=1000)
    between = segment("between", SECOND_NS + 1, SECOND_NS + 2, 3, generation=1)
    behind = segment("behind", 9 * SECOND_NS, 9 * SECOND_NS, 3, generation=1)
    assert names([*large, between, behind]) == [{*(s.id for s in large), "between"}]


def test_four_of_a_tier_make_a_higher_one() -> None:
    for n_rows in (1, 3, 4, 15, 16, 1000, 65_535, 65_536, 262_143):
        [fold] = plan_folds(seconds(FAN_IN, n_rows=n_rows))
        assert tier(joined(fold, "one")) > tier(fold.segments[0])


def test_a_segment_over_all_of_time_is_folded_in_its_own_cell() -> None:
    [fold] = plan_folds([segment("a", -1, 1)])
    assert (fold.level, fold.cell) == covering_cell(-1, 1)


def test_one_who_has_time_waits_with_young_segments_until_there_are_enough() -> None:
    young = seconds(FAN_IN, generation=0)
    assert names(young[:-1], plan_tiers) == []
    assert names(young, plan_tiers) == [{s.id for s in young}]
    assert names([segment("a", 0, 1, generation=3, deleted=1)], plan_tiers) == [{"a"}]


def test_a_compaction_joins_what_a_fold_leaves() -> None:
    segments = [*seconds(2, n_rows=500), segment("small", 0, 5, 3, generation=1)]
    assert names(segments) == []
    assert names(segments, plan_compaction) == [{"s0", "s1", "small"}]
    assert names([segment("one", 0, 1, generation=1)], plan_compaction) == []
    waiting = segment("waits", 0, 5, 3, pending=1)
    assert names([*segments[:1], waiting], plan_compaction) == []


def test_a_compaction_finds_small_segments_between_full_ones() -> None:
    full = [replace(s, n_rows=FOLD_ROWS) for s in seconds(3)]
    small = [segment(f"small{i}", s.t_min + 1, s.t_min + 2, generation=1) for i, s in enumerate(full)]
    assert names([*full, *small], plan_compaction) == [{"small0", "small1", "small2"}]


spans = st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 50)).map(lambda p: (p[0], p[0] + (1 << p[1])))
near = st.tuples(st.integers(0, 2**45), st.integers(0, 40)).map(lambda p: (p[0], p[0] + (1 << p[1])))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(spans, near),
            st.sampled_from([1, 1000, FOLD_ROWS // 3, FOLD_ROWS + 1]),
            st.integers(0, 2),
        ),
        max_size=25,
    )
)
def test_a_plan_takes_each_segment_once_and_its_cell_holds_it(
    drawn: list[tuple[tuple[int, int], int, int]],
) -> None:
    segments = [segment(f"s{i}", *span, rows, generation) for i, (span, rows, generation) in enumerate(drawn)]
    folds = plan_folds(segments)
    taken = [s.id for fold in folds for s in fold.segments]
    assert len(taken) == len(set(taken))
    assert {s.id for s in segments if s.generation == 0} <= set(taken)
    for fold in folds:
        for s in fold.segments:
            if fold.level < 44:
                assert s.t_min >> (TICK_BITS + fold.level) == fold.cell == s.t_max >> (TICK_BITS + fold.level)
        assert len({reach(s) for s in fold.segments}) == 1
        if len({(s.level, s.cell) for s in fold.segments}) > 1:
            assert fold.level <= FOLD_LEVEL
            assert sum(s.n_rows for s in fold.segments) <= FOLD_ROWS
        if len(fold.segments) > 1:
            assert sum(s.n_rows for s in fold.segments[:-1]) <= FOLD_ROWS


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(near, st.sampled_from([1, 1000, FOLD_ROWS // 3]), st.integers(0, 2)), max_size=25))
def test_folding_comes_to_an_end(drawn: list[tuple[tuple[int, int], int, int]]) -> None:
    segments = [segment(f"s{i}", *span, rows, generation) for i, (span, rows, generation) in enumerate(drawn)]
    n_rows = sum(s.n_rows for s in segments)
    for plan in (plan_folds, plan_compaction):
        rounds = 0
        while folds := plan(segments):
            rounds += 1
            gone = {s.id for fold in folds for s in fold.segments}
            segments = [s for s in segments if s.id not in gone]
            segments += [joined(fold, f"{plan.__name__}{rounds}-{i}") for i, fold in enumerate(folds)]
        assert rounds < 12
        assert sum(s.n_rows for s in segments) == n_rows


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
    for i, flushed in enumerate(flushes(rng, 3000, order, most_rows, row_bytes)):
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
    for i, flushed in enumerate(flushes(rng, 2000, "late", 5_000, 100)):
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
    for i, flushed in enumerate(flushes(rng, 3000, order, 2_000, 300)):
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
    for flushed in flushes(rng, 40_000, "late", 1_000, 300):
        history.flush(flushed)
    history.fold()
    history.check_counts()
    history.check_rewrites(finishings=1)
    assert len(history.segments) < 400


@settings(max_examples=100, deadline=None)
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
