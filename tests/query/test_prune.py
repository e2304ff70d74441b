"""Pruning leaves out rows that cannot match, and never one that does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.query.parts import Event, PlainPart
from tests.query.strategies import conditions, stores
from treering.query import bound as b
from treering.query import prune, text_evidence
from treering.query.order import ordered
from treering.query.prune import candidates, part_answer, range_answers, time_intervals
from treering.query.rows import Choice, Rows
from treering.query.scan import matching
from treering.query.time_ends import oldest_or_newest
from treering.query.tree_top import best_rows, narrowed

MANY = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
BOUNDS = st.one_of(st.none(), st.integers(-1, 41))


@pytest.fixture(autouse=True)
def _ask_small_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "MIN_LEAVES", 1)
    monkeypatch.setattr("treering.query.tree_top.MIN_LEAVES", 1)
    monkeypatch.setattr("treering.query.tree_top.FIRST_LEAVES", 1)


def full_scan(part: PlainPart, where: b.BCond, start: int | None, end: int | None) -> set[int]:
    hits = matching(where, Choice(part, slice(0, part.n_rows)))
    low, high = (-1 if start is None else start), (10**9 if end is None else end)
    return set(np.flatnonzero(hits & (part.ts >= low) & (part.ts < high)).tolist())


@MANY
@given(st.data())
def test_pruned_scan_equals_full_scan(data: st.DataObject) -> None:
    snapshot, _, vectors = data.draw(stores())
    where, start, end = data.draw(conditions(vectors)), data.draw(BOUNDS), data.draw(BOUNDS)
    for part in snapshot.parts:
        expected = full_scan(part, where, start, end)
        for share in (0.0, 1.0):
            one = candidates(part, where, start, end, leaf_share=share)
            if one is None:
                assert not expected
            else:
                kept = one.choice if one.is_certain else one.choice.where(matching(where, one.choice))
                assert set(kept.row_ids().tolist()) == expected


@MANY
@given(
    st.lists(st.one_of(st.none(), st.integers(-200, 200), st.sampled_from(["a", True, 0.5])), max_size=20),
    st.sets(st.integers(-300, 300), min_size=text_evidence.MANY + 1, max_size=text_evidence.MANY + 9),
    st.lists(st.sampled_from(["a", True, 0.5]), max_size=2),
)
def test_a_long_list_of_values_is_pruned_without_loss(
    stored: list[object], few: set[int], more: list[object]
) -> None:
    code = {int: "x#i", str: "x#s", bool: "x#b", float: "x#f"}
    events = [Event(i, i, {} if v is None else {code[type(v)]: v}) for i, v in enumerate(stored)]
    part = PlainPart(events)
    column = b.Column("x", ("x#i", "x#f", "x#s", "x#b"), "mixed")
    where = b.BIn(column, (*sorted(few), *more))  # type: ignore[arg-type]
    expected = full_scan(part, where, None, None)
    one = candidates(part, where, None, None, leaf_share=1.0)
    kept = set() if one is None else set(one.choice.where(matching(where, one.choice)).row_ids().tolist())
    assert kept == expected
    assert expected == {i for i, v in enumerate(stored) if _is_one_of(v, (*few, *more))}


def _is_one_of(value: object, wanted: tuple[object, ...]) -> bool:
    return any(value == w and isinstance(value, bool) == isinstance(w, bool) for w in wanted)


@MANY
@given(st.data())
def test_part_answers_hold_for_every_row(data: st.DataObject) -> None:
    snapshot, _, vectors = data.draw(stores(max_events=6))
    where = data.draw(conditions(vectors))
    for part in snapshot.parts:
        n = len(full_scan(part, where, None, None))
        answer = int(part_answer(where, part))
        assert answer != text_evidence.CANNOT or n == 0
        assert answer != text_evidence.ALL or n == part.n_rows


SOME_NUMBERS = st.lists(
    st.one_of(
        st.integers(0, 3).map(float), st.sampled_from([float("nan"), float("inf"), float("-inf"), None, 1.5])
    ),
    max_size=24,
)


def part_of(values: list[float | None], leaf_rows: int = 2) -> PlainPart:
    events = [Event(i // 2, i, {} if v is None else {"score": v}, shard=i % 2) for i, v in enumerate(values)]
    return PlainPart(events, leaf_rows=leaf_rows)


SCORE = b.Column("score", ("score",), "number")


@MANY
@example(values=[0.0, None, 3.0, 0.0], descending=True, n=2, over=None, end=None)  # a tie in an older leaf
@given(
    SOME_NUMBERS,
    st.booleans(),
    st.integers(1, 4),
    st.sampled_from([None, 0.5, 2.5]),
    st.one_of(st.none(), st.integers(0, 10)),
)
def test_best_leaves_hold_the_first_n(
    values: list[float | None], descending: bool, n: int, over: float | None, end: int | None
) -> None:
    part = part_of(values)
    where = None if over is None else b.BCompare(SCORE, ">", over)
    one = candidates(part, where, None, end)
    if one is None:
        return
    sort = b.BSort(SCORE, descending)
    choice = narrowed(one, where, sort, n, leaf_share=4.0)
    if choice is not None:
        assert first_seqs(choice, where, sort, n) == first_seqs(one.choice, where, sort, n)


def first_seqs(choice: Choice, where: b.BCond | None, sort: b.BSort, n: int) -> list[int]:
    kept = choice if where is None else choice.where(matching(where, choice))
    return [int(s) for s in ordered(Rows.of([kept]), (sort,), n)[0].seq]


@MANY
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=20),
    st.integers(0, 5),
    st.booleans(),
    st.sets(st.integers(0, 19)),
)
def test_ends_of_time_hold_the_first_n(
    times: list[tuple[int, int]], n: int, newest: bool, left_out: set[int]
) -> None:
    part = PlainPart([Event(t, i, shard=s) for i, (t, s) in enumerate(times)])
    whole = Choice(part, slice(0, part.n_rows))
    choice = whole.where(np.array([int(s) not in left_out for s in part.seq], np.bool_))
    sort = (b.BSort(b.Column("ts", ("ts",), "ts"), newest),)
    cut = oldest_or_newest(choice, n, newest=newest)
    assert (
        ordered(Rows.of([cut]), sort, n)[0].seq.tolist()
        == ordered(Rows.of([choice]), sort, n)[0].seq.tolist()
    )


@MANY
@given(SOME_NUMBERS, st.booleans(), st.integers(1, 4))
def test_best_values_hold_the_first_n(values: list[float | None], descending: bool, n: int) -> None:
    part = part_of(values)
    sort, whole = b.BSort(SCORE, descending), Choice(part, slice(0, part.n_rows))
    best = best_rows(whole, sort, n)
    if best is not None:
        assert first_seqs(best[0], None, sort, n) == first_seqs(whole, None, sort, n)
        assert best[1] == ordered(Rows.of([whole]), (sort,), None, drop_missing=True)[1]


def test_top_by_a_number_reads_few_leaves() -> None:
    rng = np.random.default_rng(0)
    part = PlainPart([Event(i, i, {"score": float(v)}) for i, v in enumerate(rng.random(4000))], leaf_rows=8)
    one = candidates(part, None, None, None)
    assert one is not None
    sort = b.BSort(b.Column("score", ("score",), "number"), True)
    choice = narrowed(one, None, sort, 5)
    assert choice is not None
    assert len(choice) < 400
    assert first_seqs(choice, None, sort, 5) == first_seqs(one.choice, None, sort, 5)


def test_few_leaves_are_read_one_by_one_and_many_in_order() -> None:
    part = PlainPart([Event(i, i, {"score": float(i % 1000 == 7)}) for i in range(2000)], leaf_rows=4)
    column = b.Column("score", ("score",), "number")
    few = candidates(part, b.BCompare(column, ">", 0.5), None, None)
    many = candidates(part, b.BCompare(column, "<", 0.5), None, None)
    assert few is not None
    assert many is not None
    assert len(few.choice) <= 8
    assert len(many.choice) == 2000


def test_part_is_skipped_by_time_statistics_and_absent_columns() -> None:
    part = PlainPart([Event(i, i, {"score": 0.1 * i}) for i in range(5)])
    column = b.Column("score", ("score",), "number")
    absent = b.Column("other", ("other",), "number")
    assert candidates(part, None, 5, None) is None
    assert candidates(part, None, None, 0) is None
    assert candidates(part, b.BCompare(column, ">", 0.5), None, None) is None
    assert candidates(part, b.BCompare(absent, "=", 0), None, None) is None
    opposite = candidates(part, b.BNot(b.BCompare(column, ">", 0.5)), None, None)
    assert opposite is not None
    assert opposite.is_certain


def test_time_range_is_half_open_in_every_slice() -> None:
    part = PlainPart([Event(t, s * 10 + t, shard=s) for s in range(3) for t in range(5)])
    rows = [part.ts[lo:hi].tolist() for lo, hi in time_intervals(part, 1, 3)]
    assert rows == [[1, 2]] * 3


@given(
    st.lists(st.one_of(st.integers(-3, 3), st.floats(allow_nan=False, width=16)), min_size=1, max_size=4),
    st.sampled_from(["=", ">", ">=", "<", "<="]),
    st.one_of(st.integers(-3, 3), st.floats(allow_nan=False, width=16)),
)
def test_range_answers_are_sound(values: list[float], op: str, literal: float) -> None:
    from tests.naive.execute import OPS

    answer = int(
        range_answers(np.array([min(values)], float), np.array([max(values)], float), op, literal)[0]
    )
    held = [OPS[op](v, literal) for v in values]
    assert answer != text_evidence.CANNOT or not any(held)
    assert answer != text_evidence.ALL or all(held)
