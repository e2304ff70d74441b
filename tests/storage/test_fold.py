from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.test_manifest import meta
from treering.storage.cells import covering_cell
from treering.storage.fold import FAN_IN, FOLD_BYTES, FOLD_LEVEL, FOLD_ROWS, plan_folds
from treering.storage.meta import LateFile, SegmentMeta, StoredFile
from treering.storage.tree import TICK_BITS

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS


def segment(
    name: str, t_min: int, t_max: int, n_rows: int = 10, generation: int = 0, pending: int = 0
) -> SegmentMeta:
    level, cell = covering_cell(t_min, t_max)
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
    )


def names(segments: list[SegmentMeta]) -> list[set[str]]:
    return [{s.id for s in fold.segments} for fold in plan_folds(segments)]


def test_young_segments_of_one_time_become_one() -> None:
    young = [segment(f"s{i}", 5 * SECOND_NS, 9 * SECOND_NS) for i in range(3)]
    assert names(young) == [{"s0", "s1", "s2"}]


def test_a_lone_young_segment_is_folded_once() -> None:
    assert names([segment("a", 0, SECOND_NS)]) == [{"a"}]
    assert names([segment("a", 0, SECOND_NS, generation=1)]) == []


def test_what_waits_for_vectors_or_signals_is_left_alone() -> None:
    waiting = [segment("a", 0, 1, pending=1), replace(segment("b", 0, 1), signals_pending=True)]
    assert names(waiting) == []


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


def test_folded_segments_fold_again_when_there_are_enough() -> None:
    folded = [segment(f"s{i}", i * SECOND_NS, i * SECOND_NS + 5, generation=1) for i in range(FAN_IN)]
    assert names(folded[:-1]) == []
    assert names(folded) == [{s.id for s in folded}]


def test_a_segment_over_all_of_time_is_folded_in_its_own_cell() -> None:
    [fold] = plan_folds([segment("a", -1, 1)])
    assert (fold.level, fold.cell) == covering_cell(-1, 1)


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
        assert len({s.generation for s in fold.segments}) == 1
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
    rounds = 0
    while folds := plan_folds(segments):
        rounds += 1
        gone = {s.id for fold in folds for s in fold.segments}
        segments = [s for s in segments if s.id not in gone] + [
            segment(
                f"r{rounds}-{i}",
                min(s.t_min for s in fold.segments),
                max(s.t_max for s in fold.segments),
                sum(s.n_rows for s in fold.segments),
                1 + max(s.generation for s in fold.segments),
            )
            for i, fold in enumerate(folds)
        ]
    assert rounds < 12
    assert sum(s.n_rows for s in segments) == n_rows
