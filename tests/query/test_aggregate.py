"""Statistics equal a plain computation over the matching rows."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.naive.execute import Naive, first_value
from tests.query.parts import Event, PlainPart, PlainSnapshot
from tests.query.strategies import conditions, stores
from treering.query import bound as b
from treering.query.execute import execute
from treering.query.pieces import pieces_of
from treering.query.table_part import TablePart
from treering.storage.errors import QueryError
from treering.storage.schema import PATH_TYPES

HOUR = 3600 * 10**9
MODEL = b.Column("model", ("m#s", "request_model"), "text")
TOKENS = b.Column("tokens", ("n#i", "input_tokens"), "number")
SCORE = b.Column("score", ("score",), "number")
N = b.Column("n", ("n",), "number")
MIXED = b.Column("x", ("x#i", "x#f", "x#z", "x#s", "x#b"), "mixed")
FNS = ["count", "sum", "avg", "min", "max", "stddev", "p50", "p99", "distinct"]


def snapshot_of(*events: Event) -> PlainSnapshot:
    return PlainSnapshot([PlainPart(events)])


def one(result: Any) -> dict[str, Any]:
    rows: list[dict[str, Any]] = result.to_list()
    assert len(rows) == 1
    return rows[0]


def numbers_of(events: list[Event], column: b.Column) -> list[Any]:
    values = [first_value(column, e) for e in events]
    return [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and v == v]


def naive_stat(fn: str, events: list[Event], column: b.Column) -> Any:
    values = numbers_of(events, column)
    if fn == "count":
        return sum(first_value(column, e) is not None for e in events)
    if fn == "distinct":
        return len(set(values)) or None
    if not values:
        return None
    if fn in ("min", "max"):
        return {"min": min, "max": max}[fn](values)
    if fn == "sum":
        return sum(values) if all(isinstance(v, int) for v in values) else _limit(values)
    floats = np.array([float(v) for v in values])
    if fn == "avg":
        return float(np.mean(floats))
    if fn == "stddev":
        return None if len(values) < 2 or np.isinf(floats).any() else statistics.stdev(floats.tolist())
    return float(np.quantile(floats, {"p50": 0.5, "p99": 0.99}[fn]))


def _limit(values: list[float]) -> float:
    return float(np.sum(np.array(values, np.float64)))


def same(found: Any, expected: Any) -> bool:
    if expected is None:
        return found is None
    if isinstance(expected, float) and not math.isfinite(expected):
        return bool(found == ("NaN" if expected != expected else "Infinity" if expected > 0 else "-Infinity"))
    if isinstance(expected, int):
        return bool(found == expected)
    return found is not None and math.isclose(
        found, expected, rel_tol=1e-9, abs_tol=1e-300 + abs(expected) * 1e-9
    )


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.data(), st.sampled_from(["count", "sum", "min", "max", "distinct"]), st.booleans())
def test_statistics_of_whole_numbers_are_exact_by_group(data: st.DataObject, fn: str, grouped: bool) -> None:
    snapshot, events, vectors = data.draw(stores())
    where = data.draw(st.one_of(st.none(), conditions(vectors)))
    query = b.BoundQuery(
        where=where,
        stats=(b.BStat(fn, TOKENS, "v"), b.BStat("count", None, "n")),
        by=(MODEL,) if grouped else (),
    )
    matching = Naive(events, vectors).matching(query)
    groups: dict[Any, list[Event]] = defaultdict(list)
    for event in matching:
        groups[first_value(MODEL, event) if grouped else None].append(event)
    if not grouped and not groups:
        groups[None] = []
    expected = {k: (naive_stat(fn, g, TOKENS), len(g)) for k, g in groups.items()}
    found = {row.get("model"): (row["v"], row["n"]) for row in execute(snapshot, query)}
    assert found == expected
    keys = [row.get("model") for row in execute(snapshot, query)]
    assert keys == sorted(k for k in keys if k is not None) + [None] * (None in keys)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.just(float("nan")), st.floats(-1e6, 1e6)), max_size=12),
    st.sampled_from(FNS),
)
def test_statistics_of_fractions_skip_nan_and_missing(values: list[float | None], fn: str) -> None:
    events = [Event(i, i, {} if v is None else {"score": v}) for i, v in enumerate(values)]
    row = one(execute(snapshot_of(*events), b.BoundQuery(stats=(b.BStat(fn, SCORE, "v"),))))
    assert (
        same(row["v"], naive_stat(fn, events, SCORE)) or abs(row["v"] - naive_stat(fn, events, SCORE)) < 1e-6
    )


def test_quantiles_interpolate_like_numpy() -> None:
    values = [3.0, 1.0, 10.0, 4.0, 2.5]
    events = [Event(i, i, {"score": v}) for i, v in enumerate(values)]
    stats = tuple(b.BStat(fn, SCORE, fn) for fn in ("p50", "p90", "p95", "p99", "p999"))
    row = one(execute(snapshot_of(*events), b.BoundQuery(stats=stats)))
    shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
    assert row == pytest.approx({fn: float(np.quantile(values, q)) for fn, q in shares.items()})


def test_infinities_do_not_fail() -> None:
    events = [Event(0, 0, {"score": 1.0}), Event(1, 1, {"score": float("inf")})]
    stats = tuple(b.BStat(fn, SCORE, fn) for fn in FNS)
    row = one(execute(snapshot_of(*events), b.BoundQuery(stats=stats)))
    assert (row["min"], row["max"], row["stddev"], row["count"], row["distinct"]) == (
        *(1.0, "Infinity", None, 2, 2),
    )
    assert (row["sum"], row["p99"]) == ("Infinity", "Infinity")
    low = execute(snapshot_of(Event(0, 0, {"score": -math.inf})), b.BoundQuery(stats=stats))
    assert one(low)["min"] == "-Infinity"
    assert low.to_arrow().column("min").to_pylist() == [-math.inf]


def test_nothing_gives_null_and_count_zero() -> None:
    stats = tuple(b.BStat(fn, SCORE, fn) for fn in FNS)
    row = one(execute(snapshot_of(), b.BoundQuery(stats=stats)))
    assert row == {fn: 0 if fn == "count" else None for fn in FNS}


def test_sums_beyond_64_bits_stay_exact() -> None:
    events = [Event(i, i, {"n#i": 2**63 - 1}) for i in range(3)]
    query = b.BoundQuery(stats=(b.BStat("sum", TOKENS, "s"), b.BStat("max", TOKENS, "m")))
    assert one(execute(snapshot_of(*events), query)) == {"s": 3 * (2**63 - 1), "m": 2**63 - 1}


def test_numbers_beyond_64_bits_count_in_statistics() -> None:
    events = [Event(0, 0, {"x#i": 5}), Event(1, 1, {"x#z": 2**70}), Event(2, 2, {"x#s": "high"})]
    stats = tuple(b.BStat(fn, MIXED, fn) for fn in ("max", "min", "count", "distinct"))
    assert one(execute(snapshot_of(*events), b.BoundQuery(stats=stats))) == {
        "max": 2**70,
        "min": 5,
        "count": 3,
        "distinct": 3,
    }


VALUES: list[tuple[dict[str, Any], Any]] = [
    ({"x#i": 7}, 7),
    ({"x#f": 7.0}, 7),
    ({"x#s": "7"}, "7"),
    ({"x#f": 0.5}, 0.5),
    ({"x#i": 0}, 0),
    ({"x#f": 0.0}, 0),
    ({"x#f": -0.0}, 0),
    ({"x#i": 1}, 1),
    ({"x#b": True}, True),
    ({"x#s": "true"}, "true"),
    ({"x#z": 2**70}, 2**70),
    ({"x#f": 2.0**70}, 2**70),
    ({"x#z": 2**70 + 1}, 2**70 + 1),
    ({"x#s": str(2**70)}, str(2**70)),
    ({"x#i": 2**53 + 1}, 2**53 + 1),
    ({"x#f": 2.0**53}, 2.0**53),
    ({"x#f": math.nan}, math.nan),
    ({"x#f": math.inf}, math.inf),
    ({"x#f": -math.inf}, -math.inf),
    ({"x#s": "NaN"}, "NaN"),
    ({"x#[i]": [1]}, [1]),
    ({"x#[f]": [1.0]}, [1]),
    ({"x#s": "[1]"}, "[1]"),
    ({"x#o": True}, {}),
    ({}, None),
    ({}, None),
]
"""Values as stored, and the value of the group that they are in."""

ANYTHING = b.Column("x", tuple(f"x#{code}" for code in PATH_TYPES), "mixed")
GROUP = b.Column("x", pieces_of("x"), "mixed")
COUNT = b.BStat("count", None, "n")


ONE_TWICE: list[dict[str, Any]] = [{"x#i": 1}, {"x#s": "1"}, {"x#f": 1.0}]
A_NUMBER_AND_A_TEXT: list[dict[str, Any]] = [{"x#i": 1}, {"x#s": "a"}, {}]


def counted(values: list[Any]) -> list[tuple[str, int]]:
    """How often each value stands in a list, told apart by type."""
    found: dict[str, int] = defaultdict(int)
    for value in values:
        found[f"{type(value).__name__} {value}"] += 1
    return sorted(found.items())


def test_groups_go_by_the_equality_of_conditions_and_keep_their_type() -> None:
    events = [Event(i, i, values) for i, (values, _) in enumerate(VALUES)]
    query = b.BoundQuery(stats=(COUNT,), by=(ANYTHING,))
    words = {math.inf: "Infinity", -math.inf: "-Infinity"}
    rows = execute(snapshot_of(*events), query).to_list()
    spelt = [
        "NaN" if group != group else words.get(group, group) if isinstance(group, float) else group
        for _, group in VALUES
    ]
    assert len(rows) == len({f"{type(g)} {g}" for _, g in VALUES})
    assert counted([row["x"] for row in rows for _ in range(row["n"])]) == counted(spelt)
    assert rows[-1] == {"x": None, "n": 2}


@pytest.mark.parametrize("literal", [7, 7.0, "7", 0, True, "true", 2**70, "NaN", math.inf, 2**53 + 1])
def test_groups_can_be_compared_behind_a_pipe(literal: Any) -> None:
    events = [Event(i, i, values) for i, (values, _) in enumerate(VALUES)]
    where = b.BCompare(ANYTHING, "=", literal)
    then = b.BoundQuery(where=b.BCompare(GROUP, "=", literal), stats=(b.BStat("sum", N, "s"),))
    rows = execute(snapshot_of(*events), b.BoundQuery(stats=(COUNT,), by=(ANYTHING,), then=then))
    expected = len(Naive(events, np.zeros((0, 64), np.float32)).matching(b.BoundQuery(where=where)))
    assert one(rows) == {"s": expected} and expected


def test_distinct_values_are_those_of_the_groups() -> None:
    events = [Event(i, i, values) for i, (values, _) in enumerate(VALUES)]
    query = b.BoundQuery(stats=(b.BStat("distinct", ANYTHING, "d"),))
    # NaN and missing are no value.
    assert one(execute(snapshot_of(*events), query)) == {"d": len({f"{type(g)} {g}" for _, g in VALUES}) - 2}


def test_groups_of_one_type_have_one_zero_and_one_nan() -> None:
    events = [Event(i, i, {"score": v}) for i, v in enumerate([0.0, -0.0, math.nan, math.nan, 1.5])]
    query = b.BoundQuery(stats=(COUNT, b.BStat("distinct", SCORE, "d")), by=(SCORE,))
    rows = execute(snapshot_of(*events), query).to_list()
    assert rows == [
        {"score": 0.0, "n": 2, "d": 1},
        {"score": 1.5, "n": 1, "d": 1},
        {"score": "NaN", "n": 2, "d": None},
    ]
    assert math.copysign(1, rows[0]["score"]) == 1


def test_groups_of_several_types_go_through_buckets_and_new_names() -> None:
    events = [Event(HOUR * h, h, v) for h, v in enumerate(ONE_TWICE)]
    query = b.BoundQuery(stats=(COUNT,), by=(MIXED,), every_ns=HOUR)
    rows = execute(snapshot_of(*events), query).to_list()
    assert [(r["x"], r["n"]) for r in rows] == [(1, 1), ("1", 0), (1, 0), ("1", 1), (1, 1), ("1", 0)]
    renamed = b.Column("y", pieces_of("y"), "mixed")
    last = b.BoundQuery(where=b.BCompare(renamed, "=", "1"))
    then = b.BoundQuery(fields=(b.BOutput(GROUP, "y"), b.BOutput(N, "m")), then=last)
    chained = b.BoundQuery(stats=(COUNT,), by=(MIXED,), then=then)
    assert execute(snapshot_of(*events), chained).to_list() == [{"y": "1", "m": 1}]


def test_groups_of_several_types_are_text_in_arrow() -> None:
    events = [Event(i, i, v) for i, v in enumerate(A_NUMBER_AND_A_TEXT)]
    table = execute(snapshot_of(*events), b.BoundQuery(stats=(COUNT,), by=(MIXED,))).to_arrow()
    assert table.to_pylist() == [{"x": "1", "n": 1}, {"x": "a", "n": 1}, {"x": None, "n": 1}]


def test_severity_words_that_are_unknown_are_groups_of_their_own() -> None:
    level = b.Column("level", ("level", "level#s"), "level")
    events = [
        Event(0, 0, {"level": 4, "level#s": "WARNING"}),
        Event(1, 1, {"level#s": "weird"}),
        Event(2, 2, {"level": 3, "level#s": "INFO"}),
        Event(3, 3, {}),
    ]
    rows = execute(snapshot_of(*events), b.BoundQuery(stats=(COUNT,), by=(level,))).to_list()
    assert [row["level"] for row in rows] == ["info", "warn", "weird", None]


def test_names_that_users_give_never_meet_names_of_the_index() -> None:
    events = [Event(5 * HOUR, 7, {"m#s": "a"}), Event(6 * HOUR, 8, {"m#s": "a"}), Event(9, 9, {"m#s": "b"})]
    for name in ("seq", "ts", "g0", "s0", "b", "one", "count"):
        query = b.BoundQuery(stats=(b.BStat("count", None, name),), by=(MODEL,))
        assert execute(snapshot_of(*events), query).to_list() == [
            {"model": "a", name: 2},
            {"model": "b", name: 1},
        ]
        column = b.Column(name, (name,), "number")
        then = b.BoundQuery(where=b.BCompare(column, "=", 2), order=(b.BSort(column, True),))
        chained = b.BoundQuery(stats=query.stats, by=(MODEL,), then=then)
        assert execute(snapshot_of(*events), chained).to_list() == [{"model": "a", name: 2}]
    renamed = b.BoundQuery(fields=(b.BOutput(b.Column("model", ("model",), "text"), "ts"),))
    query = b.BoundQuery(stats=(COUNT,), by=(MODEL,), then=renamed)
    assert execute(snapshot_of(*events), query).to_list() == [{"ts": "a"}, {"ts": "b"}]


@pytest.mark.parametrize(("zone", "start"), [("+08:00", "+08:00"), ("-03:30", "-03:30"), ("utc", "Z")])
def test_buckets_take_a_zone_that_is_an_offset(zone: str, start: str) -> None:
    query = b.BoundQuery(stats=(COUNT,), every_ns=24 * HOUR, tz=zone)
    rows = execute(snapshot_of(Event(12 * HOUR, 0)), query).to_list()
    assert rows == [{"ts": "1970-01-01T00:00:00" + start, "n": 1}]


def test_groups_of_severity_come_in_its_order_and_can_be_compared_after() -> None:
    events = [Event(i, i, {"level": v}) for i, v in enumerate([5, 1, 5, 3])]
    level = b.Column("level", ("level",), "level")
    query = b.BoundQuery(stats=(b.BStat("count", None, "n"), b.BStat("max", level, "worst")), by=(level,))
    rows = execute(snapshot_of(*events), query).to_list()
    assert [(r["level"], r["n"], r["worst"]) for r in rows] == [
        ("trace", 1, "trace"),
        ("info", 1, "info"),
        ("error", 2, "error"),
    ]
    after = b.BoundQuery(where=b.BCompare(level, ">=", 3))
    chained = b.BoundQuery(stats=query.stats, by=query.by, then=after)
    assert [r["level"] for r in execute(snapshot_of(*events), chained)] == ["info", "error"]


def test_buckets_are_filled_inside_the_range_with_nulls() -> None:
    events = [Event(HOUR + 5, 0, {"score": 1.0}), Event(4 * HOUR, 1, {"score": 3.0})]
    query = b.BoundQuery(
        stats=(b.BStat("count", None, "count"), b.BStat("avg", SCORE, "avg")),
        every_ns=HOUR,
        start_ns=HOUR // 2,
        end_ns=6 * HOUR,
    )
    rows = execute(snapshot_of(*events), query).to_list()
    assert [r["count"] for r in rows] == [0, 1, 0, 0, 1, 0]
    assert [r["avg"] for r in rows] == [None, 1.0, None, None, 3.0, None]
    assert rows[0]["ts"] == "1970-01-01T00:00:00Z"
    assert rows[5]["ts"] == "1970-01-01T05:00:00Z"


def test_buckets_without_a_range_reach_from_first_to_last_row() -> None:
    events = [Event(HOUR * h, h, {"m#s": m}) for h, m in [(2, "a"), (5, "b"), (5, "a")]]
    query = b.BoundQuery(stats=(b.BStat("count", None, "n"),), by=(MODEL,), every_ns=HOUR)
    rows = execute(PlainSnapshot([PlainPart(events)]), query).to_list()
    assert [(r["ts"][11:13], r["model"], r["n"]) for r in rows] == [
        *(("02", "a", 1), ("02", "b", 0), ("03", "a", 0), ("03", "b", 0)),
        *(("04", "a", 0), ("04", "b", 0), ("05", "a", 1), ("05", "b", 1)),
    ]


def test_day_buckets_start_at_midnight_of_the_zone() -> None:
    events = [Event(20 * HOUR, 0), Event(15 * HOUR, 1)]
    query = b.BoundQuery(stats=(b.BStat("count", None, "n"),), every_ns=24 * HOUR, tz="Asia/Shanghai")
    rows = execute(snapshot_of(*events), query).to_list()
    assert [(r["ts"], r["n"]) for r in rows] == [
        ("1970-01-01T00:00:00+08:00", 1),
        ("1970-01-02T00:00:00+08:00", 1),
    ]


def test_buckets_without_rows_in_an_empty_store() -> None:
    query = b.BoundQuery(stats=(b.BStat("count", None, "n"),), every_ns=HOUR, start_ns=0, end_ns=2 * HOUR)
    assert [r["n"] for r in execute(snapshot_of(), query)] == [0, 0]
    assert execute(snapshot_of(), b.BoundQuery(stats=query.stats, every_ns=HOUR)).to_list() == []


def test_too_many_buckets_are_refused_with_the_fix() -> None:
    query = b.BoundQuery(stats=(b.BStat("count", None, "n"),), every_ns=1, start_ns=0, end_ns=HOUR)
    with pytest.raises(QueryError, match="longer `every`"):
        execute(snapshot_of(Event(0, 0)), query)


def test_table_of_statistics_can_be_filtered_sorted_and_cut() -> None:
    events = [Event(i, i, {"m#s": m}) for i, m in enumerate("aabbbcddd")]
    count = b.Column("n", ("n",), "number")
    then = b.BoundQuery(where=b.BCompare(count, ">", 1), order=(b.BSort(count, True),), limit=2)
    query = b.BoundQuery(stats=(b.BStat("count", None, "n"),), by=(MODEL,), then=then)
    result = execute(snapshot_of(*events), query)
    assert result.to_list() == [{"model": "b", "n": 3}, {"model": "d", "n": 3}]
    assert result.meta["n_matched"] == 3
    assert isinstance(result.source, TablePart)
    chosen = b.BoundQuery(fields=(b.BOutput(count, "how many"),))
    query = b.BoundQuery(stats=query.stats, by=query.by, then=chosen)
    assert execute(snapshot_of(*events), query).to_list()[0] == {"how many": 2}


def test_count_after_a_cut_counts_the_cut_rows() -> None:
    events = [Event(i, i, {"score": float(i)}) for i in range(12)]
    then = b.BoundQuery(stats=(b.BStat("count", None, "count"),))
    query = b.BoundQuery(order=(b.BSort(SCORE, True),), drop_missing=True, limit=5, then=then)
    assert one(execute(snapshot_of(*events), query)) == {"count": 5}


def test_names_that_look_like_sql_are_only_names() -> None:
    events = [Event(0, 0, {'a"; DROP#i': 3})]
    column = b.Column('a"; DROP', ('a"; DROP#i',), "number")
    query = b.BoundQuery(stats=(b.BStat("sum", column, 'sum("x")'),), by=(column,))
    assert one(execute(snapshot_of(*events), query)) == {'a"; DROP': 3, 'sum("x")': 3}
