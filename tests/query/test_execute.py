"""Any bound query gives what the plain-Python reading of it gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.naive.execute import Naive
from tests.query.parts import Event, PlainPart, PlainSnapshot, unit
from tests.query.strategies import conditions, queries, stores
from treering.query import bound as b
from treering.query.execute import execute, find_anchor
from treering.query.result import Result
from treering.query.rows import Rows
from treering.storage.errors import QueryError

# A counterexample is as small as its vectors let it be; shrinking those takes minutes and tells nothing more.
SLOW = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def seqs(result: Result) -> list[int]:
    assert isinstance(result.source, Rows)
    return [int(s) for s in result.source.seq]


@SLOW
@given(st.data())
def test_answer_equals_reading_event_by_event(data: st.DataObject) -> None:
    snapshot, events, vectors = data.draw(stores())
    query = data.draw(queries(vectors))
    naive = Naive(events, vectors)
    result = execute(snapshot, query)
    assert seqs(result) == [e.seq for e in naive.rows(query)]
    assert result.meta["n_returned"] == len(result)
    if query.order and query.drop_missing:
        return
    assert result.meta["n_matched"] in (None, len(naive.matching(query)))


@SLOW
@given(st.data())
def test_later_stage_works_on_the_answer_before(data: st.DataObject) -> None:
    snapshot, events, vectors = data.draw(stores())
    first, second = data.draw(queries(vectors)), data.draw(queries(vectors))
    result = execute(snapshot, replace(first, then=second))
    before = Naive(events, vectors).rows(first)
    naive = Naive(before, vectors)
    if second.near is None and not second.order:
        place = {e.seq: i for i, e in enumerate(before)}
        kept = sorted((e.seq for e in naive.matching(second)), key=place.__getitem__)
        stop = None if second.limit is None else second.offset + second.limit
        assert seqs(result) == kept[second.offset : stop]
    else:
        assert seqs(result) == [e.seq for e in naive.rows(second)]


def number(name: str) -> b.Column:
    return b.Column(name, (name,), "number")


def test_whole_numbers_beyond_floats_match_one_row_only() -> None:
    values = [9007199254740992, 9007199254740993, 9007199254740994]
    part = PlainPart([Event(i, i, {"id#i": v}) for i, v in enumerate(values)])
    column = b.Column("id", ("id#i",), "number")
    result = execute(PlainSnapshot([part]), b.BoundQuery(where=b.BCompare(column, "=", 9007199254740993)))
    assert seqs(result) == [1]


def test_severity_is_found_by_rank_and_by_the_word_it_came_with() -> None:
    events = [
        Event(0, 0, {"level": 4, "severity": "WARNING"}),
        Event(1, 1, {"level": 5, "severity": "oops"}),
        Event(2, 2, {"severity": "oops"}),
    ]
    snapshot = PlainSnapshot([PlainPart(events)])
    column = b.Column("level", ("level", "severity"), "level")

    def found(op: str, value: int | str) -> list[int]:
        return seqs(execute(snapshot, b.BoundQuery(where=b.BCompare(column, op, value))))

    assert found("=", "warn") == [0]
    assert found("=", "oops") == [1, 2]
    assert found(">=", "warn") == [0, 1]
    assert found(">", 4) == [1]


def test_later_path_speaks_only_where_the_first_has_no_value() -> None:
    events = [
        Event(0, 0, {"m#s": "m3", "request_model": "m1"}),
        Event(1, 1, {"request_model": "m1"}),
        Event(2, 2, {"m#s": "m1"}),
    ]
    column = b.Column("model", ("m#s", "request_model"), "text")
    result = execute(PlainSnapshot([PlainPart(events)]), b.BoundQuery(where=b.BCompare(column, "=", "m1")))
    assert seqs(result) == [1, 2]


def test_not_greater_includes_nan_and_missing() -> None:
    events = [
        Event(0, 0, {"s": 0.9}),
        Event(1, 1, {"s": float("nan")}),
        Event(2, 2, {}),
        Event(3, 3, {"s": 0.2}),
    ]
    where = b.BNot(b.BCompare(number("s"), ">", 0.5))
    assert seqs(execute(PlainSnapshot([PlainPart(events)]), b.BoundQuery(where=where))) == [1, 2, 3]


def test_ranking_puts_gaps_last_in_both_directions_and_top_leaves_them_out() -> None:
    values: list[dict[str, object]] = [
        {"s#f": 0.5},
        {},
        {"s#f": float("nan")},
        {"s#f": -3.0},
        {"s#s": "high"},
        {"s#f": 0.5},
        {"s#b": True},
        {"s#i": 2},
    ]
    snapshot = PlainSnapshot([PlainPart([Event(i, i, dict(v)) for i, v in enumerate(values)])])
    column = b.Column("s", ("s#i", "s#f", "s#b", "s#s"), "mixed")
    down = b.BoundQuery(order=(b.BSort(column, True),))
    up = b.BoundQuery(order=(b.BSort(column, False),))
    assert seqs(execute(snapshot, down)) == [7, 0, 5, 3, 6, 4, 1, 2]
    assert seqs(execute(snapshot, up)) == [3, 0, 5, 7, 6, 4, 1, 2]
    top = b.BoundQuery(order=(b.BSort(column, True),), drop_missing=True, limit=10)
    result = execute(snapshot, top)
    assert seqs(result) == [7, 0, 5, 3]
    assert result.meta["n_matched"] == 4


def test_limit_zero_gives_no_rows_and_the_full_count() -> None:
    snapshot = PlainSnapshot([PlainPart([Event(i, i) for i in range(5)])])
    result = execute(snapshot, b.BoundQuery(limit=0))
    assert (len(result), result.meta["n_matched"]) == (0, 5)


def test_filtered_meaning_gives_k_rows_whenever_k_exist() -> None:
    rng = np.random.default_rng(1)
    vectors = unit(rng.standard_normal((50, 64)))
    events = [Event(i, i, {"m#s": "tiny" if i % 100 == 7 else "big"}, [(0, i % 50)]) for i in range(3000)]
    where = b.BCompare(b.Column("m", ("m#s",), "text"), "=", "tiny")
    probe = b.Probe("q", vectors[3], None)
    query = b.BoundQuery(where=where, near=probe, order=(b.BSort(None, True),), limit=20)
    assert len(execute(PlainSnapshot([PlainPart(events, vectors)]), query)) == 20


def test_pending_texts_make_a_meaning_answer_incomplete_and_exact_refuses() -> None:
    vectors = np.zeros((1, 64), np.float32)
    vectors[0, 0] = 1
    part = PlainPart([Event(0, 0, texts=[(0, 0)]), Event(1, 1, texts=[(0, None)])], vectors)
    probe = b.Probe("q", vectors[0], None)
    result = execute(PlainSnapshot([part]), b.BoundQuery(near=probe, limit=5))
    assert seqs(result) == [0]
    assert (result.meta["complete"], result.meta["pending"]) == (False, 1)
    plain = execute(PlainSnapshot([part]), b.BoundQuery(limit=5))
    assert (plain.meta["complete"], plain.meta["pending"]) == (True, 0)
    with pytest.raises(QueryError, match="no vector yet"):
        execute(PlainSnapshot([part]), b.BoundQuery(near=probe, limit=5, exact=True))


def test_query_vector_of_another_length_is_refused() -> None:
    vectors = np.zeros((1, 64), np.float32)
    part = PlainPart([Event(0, 0, texts=[(0, 0)])], vectors)
    probe = b.Probe("q", np.ones(32, np.float32), None)
    with pytest.raises(QueryError, match="32 dimensions"):
        execute(PlainSnapshot([part]), b.BoundQuery(near=probe, limit=5))


def test_pattern_that_cannot_run_is_refused_even_over_no_rows() -> None:
    where = b.BMatches(b.Column("body", ("body",), "text"), "(?=a)")
    with pytest.raises(QueryError, match="look-around"):
        execute(PlainSnapshot([]), b.BoundQuery(where=where))


def test_anchor_is_the_first_event_that_has_a_vector() -> None:
    vectors = np.eye(2, 64, dtype=np.float32)
    events = [
        Event(5, 9, {"id#s": "a"}, [(0, 1)]),
        Event(3, 4, {"id#s": "a"}, [(0, 0)]),
        Event(1, 1, {"id#s": "b"}, [(0, None)]),
    ]
    snapshot = PlainSnapshot([PlainPart(events[:1], vectors), PlainPart(events[1:], vectors)])
    column = b.Column("id", ("id#s",), "text")
    found = find_anchor(snapshot, column, "a")
    assert found is not None
    assert found[1] == 4
    assert found[0].tolist() == vectors[0].tolist()
    assert find_anchor(snapshot, column, "zz") is None
    with pytest.raises(QueryError, match="no vector"):
        find_anchor(snapshot, column, "b")


@SLOW
@given(st.data())
def test_filter_and_its_opposite_part_the_rows(data: st.DataObject) -> None:
    snapshot, events, vectors = data.draw(stores())
    where = data.draw(conditions(vectors))
    yes = seqs(execute(snapshot, b.BoundQuery(where=where)))
    no = seqs(execute(snapshot, b.BoundQuery(where=b.BNot(where))))
    assert sorted(yes + no) == sorted(e.seq for e in events)
