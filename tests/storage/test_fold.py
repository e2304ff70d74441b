"""A plan of folds says which segments are joined, and leaves apart what should stay apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.folds import DAY_NS, SECOND_NS, joined, names, near, seconds, segment
from treering.storage.cells import covering_cell
from treering.storage.fold import (
    FAN_IN,
    FOLD_BYTES,
    FOLD_LEVEL,
    FOLD_ROWS,
    WAITING_ROWS,
    plan_compaction,
    plan_folds,
    plan_tiers,
    reach,
    tier,
)
from treering.storage.meta import LateFile
from treering.storage.stored_file import StoredFile
from treering.storage.tree import TICK_BITS


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


@examples(200)
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


@examples(100)
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
