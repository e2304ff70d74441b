"""Queries bound to a store: columns, types, times, vectors, parameters, hints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from treering.query.bind import BEST, NARROWED, bind
from treering.query.bound import (
    BAnd,
    BCompare,
    BExists,
    BHas,
    BIn,
    BMatches,
    BNot,
    BOr,
    BoundQuery,
    BOutput,
    BPhrase,
    BSimilar,
    BSort,
    BStat,
    Column,
)
from treering.query.json_form import from_json, read_json
from treering.query.names import Catalog
from treering.query.newest import Newest
from treering.query.parse import parse
from treering.storage.errors import QueryError
from treering.storage.part import FieldStats

NOW = int(np.datetime64("2026-05-01T12:00:00", "ns").astype(np.int64))
HOUR = 3600 * 10**9
FIELDS = {
    "level": FieldStats(9, 1, 6),
    "level#s": FieldStats(9),
    "level#i": FieldStats(1, 30, 30),
    "body": FieldStats(10),
    "msg#s": FieldStats(10),
    "request_id#s": FieldStats(10),
    "model#s": FieldStats(8),
    "request_model": FieldStats(9),
    "score#f": FieldStats(10, 0.0, 1.0),
    "ok#b": FieldStats(10),
    "tags#[s]": FieldStats(4),
    "service#s": FieldStats(1),
    "service.name#s": FieldStats(2),
    "n#i": FieldStats(10, 0, 10),
    "big#i": FieldStats(1, 0, 10),
    "big#z": FieldStats(1),
    "mix#f": FieldStats(3, 0.0, 1.0),
    "mix#s": FieldStats(3),
    "`t`#s": FieldStats(1),
}
SCORE = Column("score", ("score#f",), "number")
MODEL = Column("model", ("model#s", "request_model"), "text")


def embed(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array([3.0, 4.0, float(len(text))], np.float32)


def no_anchor(column: Column, value: Any) -> None:
    raise AssertionError("looked for an anchor without `like`")


def no_embedding(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    raise AssertionError("embedded without a meaning")


def bound(
    query: Any,
    params: Mapping[str, Any] | None = None,
    *,
    embed: Any = embed,
    find_anchor: Any = no_anchor,
    counts_from: Newest | None = None,
    fields: Mapping[str, FieldStats] = FIELDS,
    t_max: int = NOW - HOUR // 2,
) -> BoundQuery:
    return bind(
        from_json(query) if isinstance(query, dict) else parse(query),
        Catalog(fields, 10, NOW - 9 * HOUR, t_max),
        now_ns=NOW,
        params=params or {},
        embed=embed,
        find_anchor=find_anchor,
        counts_from=counts_from,
        text=query if isinstance(query, str) else None,
    )


def where(text: str, **params: Any) -> Any:
    return bound(text, params).where


def test_a_plain_filter_embeds_nothing() -> None:
    query = bound("score > 0.3", embed=no_embedding)
    assert query == BoundQuery(where=BCompare(SCORE, ">", 0.3), shown=(SCORE,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("score <= 1", BCompare(SCORE, "<=", 1)),
        ("score != 1", BNot(BCompare(SCORE, "=", 1))),
        ('model in ("a", "b")', BIn(MODEL, ("a", "b"))),
        ('tags has "prod"', BHas(Column("tags", ("tags#[s]",), "list"), "prod")),
        ("tags has 5", BCompare(Column("tags", ("tags#[s]",), "list"), "=", 5)),
        ("service exists", BExists(("service#s", "service.name#s"))),
        ("score missing", BNot(BExists(("score#f",)))),
        ('"out of blocks"', BPhrase(("body", "prompt", "response", "context"), "out of blocks")),
        ("model =~ /a|b/", BMatches(MODEL, "a|b")),
        ("big = 18446744073709551615", BCompare(Column("big", ("big#i", "big#z"), "number"), "=", 2**64 - 1)),
        (
            "score > 0 or n = 1",
            BOr((BCompare(SCORE, ">", 0), BCompare(Column("n", ("n#i",), "number"), "=", 1))),
        ),
        (
            'score > 0 "x"',
            BAnd((BCompare(SCORE, ">", 0), BPhrase(("body", "prompt", "response", "context"), "x"))),
        ),
        ("attention_collapse > 0.5", BCompare(Column("attention_collapse", (), "none"), ">", 0.5)),
    ],
)
def test_conditions_name_their_columns(text: str, expected: object) -> None:
    assert where(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("level >= error", BCompare(Column("level", ("level",), "level"), ">=", 5)),
        ('level = "WARNING"', BCompare(Column("level", ("level",), "level"), "=", 4)),
        ('level = "custom"', BCompare(Column("level", ("level#s",), "text"), "=", "custom")),
        ("level = 30", BCompare(Column("level", ("level#i",), "number"), "=", 30)),
        ('level has "WARN"', BHas(Column("level", ("level#i", "level#s"), "text"), "WARN")),
        (
            "level in (warn, error)",
            BOr(
                (
                    BCompare(Column("level", ("level",), "level"), "=", 4),
                    BCompare(Column("level", ("level",), "level"), "=", 5),
                )
            ),
        ),
    ],
)
def test_severities_compare_by_their_order(text: str, expected: object) -> None:
    assert where(text) == expected


def test_times_in_comparisons_are_nanoseconds_of_the_event_time() -> None:
    ts = Column("ts", ("ts",), "ts")
    assert where('ts >= 2026-05-01T20:00 tz "Asia/Shanghai"') == BCompare(ts, ">=", NOW)
    assert where("time < 1777636800") == BCompare(ts, "<", NOW)
    assert where("ts in (2026-05-01, today)".replace("today", '"today"')) == BIn(
        ts, (NOW - 12 * HOUR, NOW - 12 * HOUR)
    )
    with pytest.raises(QueryError, match="no time"):
        where('ts > "soon"')


def test_ranges_of_time() -> None:
    query = bound("last 1h")
    assert (query.start_ns, query.end_ns, query.tz) == (NOW - HOUR, NOW, "UTC")
    query = bound('today tz "Asia/Shanghai"')
    assert (query.start_ns, query.end_ns, query.tz) == (NOW - 20 * HOUR, NOW + 4 * HOUR, "Asia/Shanghai")


def test_on_raw_files_last_counts_back_from_the_newest_event_and_includes_it() -> None:
    newest = Newest(NOW - 100 * HOUR)
    query = bound("last 1h", counts_from=newest, t_max=newest.ns)
    assert (query.start_ns, query.end_ns) == (NOW - 101 * HOUR + 1, NOW - 100 * HOUR + 1)
    assert query.hints == ()


def test_on_raw_files_last_says_which_events_it_did_not_reckon_with() -> None:
    newest = Newest(NOW - 100 * HOUR, n_ahead=2)
    query = bound("last 1h", counts_from=newest, t_max=NOW + 9 * HOUR)
    assert (query.start_ns, query.end_ns) == (NOW - 101 * HOUR + 1, NOW - 100 * HOUR + 1)
    assert query.hints == (
        "2 events are dated more than 1h after 2026-05-01T12:00:00Z: `last` counts back from 2026-04-27T08:00:00Z, "
        "the newest of the others",
    )
    assert bound("since 2026-05-01", counts_from=newest).hints == ()


def test_a_range_newer_than_every_event_gets_a_hint() -> None:
    (hint,) = bound("last 1h", t_max=NOW - 100 * HOUR).hints
    assert "2026-04-27T08:00:00Z" in hint and "4d3h" in hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model > 3", "model holds text, so that model > 3 matches nothing: put the value in quotes"),
        ('score = "0.5"', 'score holds numbers, so that score = "0.5" matches nothing: leave the quotes out'),
        ("ok = 1", "ok holds true or false, so that ok = 1 matches nothing: compare with true or false"),
        ('level >= "custom"', "severities"),
        ("score =~ /x/", "holds no text"),
        ("attention_collapse > 0.5", "no stored event has attention_collapse"),
        ("top-k attention-collapse", "no stored event has attention_collapse"),
        ("sum(model)", "holds no numbers, so that sum(model) is empty"),
        ("avg(hallucination)", "no stored event has hallucination"),
    ],
)
def test_what_can_match_nothing_gets_a_hint_and_no_error(text: str, told: str) -> None:
    assert any(told in hint for hint in bound(text).hints)


@pytest.mark.parametrize(
    "text", ["mix > 0.5", 'mix = "x"', "tags = 5", 'model = "x"', "ok = true", "score > 1 n = 2"]
)
def test_what_can_match_gets_no_hint(text: str) -> None:
    assert bound(text).hints == ()


def test_ranking_by_a_field_leaves_out_rows_without_it() -> None:
    query = bound("top 10 by score")
    assert (query.order, query.limit, query.drop_missing) == ((BSort(SCORE, True),), 10, True)
    query = bound("bottom 3 by score")
    assert (query.order, query.limit, query.drop_missing) == ((BSort(SCORE, False),), 3, True)
    query = bound("sort by score desc, level limit 5 offset 2")
    assert query.order == (BSort(SCORE, True), BSort(Column("level", ("level",), "level"), False))
    assert (query.limit, query.offset, query.drop_missing) == (5, 2, False)
    query = bound("top-k score")
    assert (query.order, query.limit) == ((BSort(SCORE, True),), 10)
    with pytest.raises(QueryError, match="lists"):
        bound("top 5 by tags")


@pytest.mark.parametrize(
    ("text", "order", "near_k", "limit"),
    [
        ('~ "x"', (BSort(None, True),), None, BEST),
        ('~ "x" limit 5', (BSort(None, True),), None, 5),
        ('~ "x" top 5', (BSort(None, True),), None, 5),
        ('~ "x" top 0', (BSort(None, True),), None, 0),
        ('~ "x" limit all', (BSort(None, True),), None, None),
        ('~ "x" top 5 by score', (BSort(SCORE, True),), NARROWED, 5),
        ('~ "x" sort by score limit 5', (BSort(SCORE, False),), NARROWED, 5),
        ('~ "x" sort by score', (BSort(SCORE, False),), BEST, None),
        ('~ "x" > 0.5', (), None, None),
        ('~ "x" > 0.5 top 5', (BSort(None, True),), None, 5),
        ('~ "x" > 0.5 top 5 by score', (BSort(SCORE, True),), None, 5),
    ],
)
def test_meaning_ranks_or_narrows(text: str, order: object, near_k: object, limit: object) -> None:
    query = bound(text)
    assert (query.order, query.near_k, query.limit) == (order, near_k, limit)


def test_probes_are_unit_vectors_of_text_or_given() -> None:
    near = bound('~ "abc"').near
    assert near is not None and near.label == "abc" and near.fields is None
    assert near.vector.dtype == np.float32 and np.isclose(np.linalg.norm(near.vector), 1, atol=1e-6)
    given = bound("answer ~ $v", {"v": [0.0, 2.0]}, embed=no_embedding).near
    assert given is not None and given.label == "$v" and given.fields == (2,)
    assert given.vector.tolist() == [0.0, 1.0]
    similar = where("msg ~ $t >= $min", t="abc", min=0.25)
    assert isinstance(similar, BSimilar) and (similar.op, similar.threshold) == (">=", 0.25)
    assert similar.probe.fields == (0,) and similar.probe.label == "abc"


@pytest.mark.parametrize("vector", [[], [[1.0, 2.0]], [0.0, 0.0], [float("nan"), 1.0], ["a"], object()])
def test_what_is_no_vector_is_refused(vector: Any) -> None:
    with pytest.raises(QueryError, match=r"\$v"):
        bound("~ $v", {"v": vector})


def test_only_embedded_texts_are_compared_by_meaning() -> None:
    with pytest.raises(QueryError, match="body, prompt, response, context"):
        bound('model ~ "x"')


def test_like_takes_the_anchors_vector_and_leaves_the_anchor_out() -> None:
    asked = []

    def find(column: Column, value: Any) -> tuple[np.ndarray[Any, np.dtype[np.float32]], int] | None:
        asked.append((column.name, value))
        return (np.array([0.0, 3.0], np.float32), 42) if value == "12345678" else None

    query = bound("like request_id:12345678 top 5", find_anchor=find)
    assert asked == [("request_id", "12345678")]
    assert query.left_out == 42 and query.limit == 5 and query.near is not None
    assert query.near.vector.tolist() == [0.0, 1.0]
    with pytest.raises(QueryError, match="request_id"):
        bound('like request_id:"nobody"', find_anchor=find)


def test_parameters_stand_for_values_of_any_shape_but_never_for_language() -> None:
    assert where("score > $h", h=np.float64(0.5)) == BCompare(SCORE, ">", 0.5)
    assert where("model = $m", m='x" or 1 = 1 --') == BCompare(MODEL, "=", 'x" or 1 = 1 --')
    assert where("model in $all", all=["a", "b"]) == BIn(MODEL, ("a", "b"))
    assert where('model in ("z", $all)', all=("a", "b")) == BIn(MODEL, ("z", "a", "b"))
    assert where("$word", word="x") == BPhrase(("body", "prompt", "response", "context"), "x")
    with pytest.raises(QueryError, match=r"\$h .*given: \$g"):
        where("score > $h", g=1)
    for wrong in (None, float("nan"), {"a": 1}, b"x"):
        with pytest.raises(QueryError, match=r"\$h"):
            where("score > $h", h=wrong)
    assert bound("score > 1", {"x": 1}).hints == ("$x was given but the query does not use it",)


def test_statistics_are_named_as_written() -> None:
    query = bound("score > 0 count, p95(score), avg(score) as mean by model, level every 5m")
    assert query.stats == (
        BStat("count", None, "count"),
        BStat("p95", SCORE, "p95(score)"),
        BStat("avg", SCORE, "mean"),
    )
    assert query.by == (MODEL, Column("level", ("level", "level#i", "level#s"), "level"))
    assert query.every_ns == 300 * 10**9
    with pytest.raises(QueryError, match="called model"):
        bound("count as model by model")
    with pytest.raises(QueryError, match="threshold"):
        bound({"near": "x", "stats": ["count"]})


def test_stages_behind_statistics_see_their_table() -> None:
    query = bound(
        "p95(score) as slow, max(model) by model every 5m | where slow > 1 sort by ts, slow desc limit 3"
    )
    assert query.then is not None and query.then.limit == 3
    slow = Column("slow", ("slow",), "number")
    assert query.then.where == BCompare(slow, ">", 1)
    assert query.then.order == (BSort(Column("ts", ("ts",), "ts"), False), BSort(slow, True))
    with pytest.raises(QueryError, match=r"ts, model, slow, max\(model\)"):
        bound("p95(score) as slow, max(model) by model every 5m | where n > 1")


def test_stages_behind_rows_see_the_fields_and_keep_what_is_shown() -> None:
    query = bound("top 10 by score | where n > 1 limit 5 | ok = true limit 3 | count by model")
    assert query.then is not None and query.then.then is not None and query.then.then.then is not None
    assert [column.name for column in query.then.then.shown] == ["score", "n", "ok"]
    assert query.then.then.then.by == (MODEL,)
    query = bound('limit 5 fields model as m, score | where m = "a" limit 4 | limit 2')
    assert query.then is not None and query.then.then is not None
    outputs = (BOutput(MODEL, "m"), BOutput(SCORE, "score"))
    assert query.fields == query.then.fields == query.then.then.fields == outputs
    assert query.then.where == BCompare(Column("m", MODEL.physical, "text"), "=", "a")
    with pytest.raises(QueryError, match=r"m, score"):
        bound("limit 5 fields model as m, score | where n > 1")


def test_hints_of_every_stage_stand_with_the_first() -> None:
    assert "attention_collapse" in bound("limit 5 | attention_collapse > 1 limit 2").hints[0]


def test_exact_and_zone_hold_for_every_stage() -> None:
    query = bound('exact tz "Asia/Shanghai" limit 5 | limit 2')
    assert query.exact and query.tz == "Asia/Shanghai"
    assert query.then is not None and query.then.exact and query.then.tz == "Asia/Shanghai"


def test_errors_of_names_carry_a_caret_when_the_text_is_known() -> None:
    with pytest.raises(QueryError) as caught:
        bound("last 1h scoer > 1")
    assert str(caught.value).startswith("1:9: no field scoer: did you mean score")
    assert str(caught.value).endswith("\n  last 1h scoer > 1\n          ^")


def test_the_query_of_the_seed_runs_before_its_signals_exist() -> None:
    query = bound(
        {
            "filter": {"hallucination_rate": {">": 0.3}},
            "sort": [{"attention_collapse_score": "desc"}],
            "limit": 10,
        }
    )
    assert query.where == BCompare(Column("hallucination_rate", (), "none"), ">", 0.3)
    assert query.limit == 10 and not query.drop_missing
    assert len(query.hints) == 2


@pytest.mark.parametrize(
    "text",
    [
        'count by model | where ~ "x" > 0.5',
        'count by model | ~ "x"',
        'count by model | not ~ "x" > 0.5',
        'count by model fields model | ~ "x"',
        'count by model | like request_id:"chatcmpl-77"',
    ],
)
def test_a_table_of_statistics_has_no_meaning(text: str) -> None:
    with pytest.raises(QueryError, match="no meaning to compare"):
        bound(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("count by model | last 5m", "no time"),
        ("count by model | count every 1h", "no time"),
        ('count by model | "x"', "no message"),
    ],
)
def test_a_table_of_statistics_lacks_what_only_events_have(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        bound(text)
    assert bound("count every 1h | since 2026-05-01 count").then is not None


@pytest.mark.parametrize(
    "text",
    ["count as ts every 1h", "count by ts every 1h", "count as model by model", "fields n as a, score as a"],
)
def test_two_columns_of_one_name_are_refused(text: str) -> None:
    with pytest.raises(QueryError, match="two columns would be called"):
        bound(text)


def test_a_name_that_a_piece_of_a_column_has_is_refused() -> None:
    with pytest.raises(QueryError, match="no column can be called"):
        bound("count as `mix\0int` by mix")


def test_repeated_conditions_are_asked_once() -> None:
    n, mix = Column("n", ("n#i",), "number"), Column("mix", ("mix#f", "mix#s"), "mixed")
    assert where(" or ".join(["n = 1"] * 50)) == BCompare(n, "=", 1)
    assert where("n = 1 or n = 2 or (n in (3, 1) or n = 2.0)") == BIn(n, (1, 2, 3))
    assert where("n != 1 and n != 2 and n not in (3, 1)") == BNot(BIn(n, (1, 2, 3)))
    assert where("n = 1 and n = 2") == BAnd((BCompare(n, "=", 1), BCompare(n, "=", 2)))
    assert where("n != 1 or n != 2") == BOr((BNot(BCompare(n, "=", 1)), BNot(BCompare(n, "=", 2))))
    assert where("n > 1 or n > 1") == BCompare(n, ">", 1)
    assert where('mix = 1 or mix = true or mix = "1"') == BIn(mix, (1, True, "1"))
    assert where("score > 0 or n = 1 or score > 0.0 or n = 2") == BOr(
        (BCompare(SCORE, ">", 0), BIn(n, (1, 2)))
    )
    assert isinstance(where('~ "x" > 0.5 and ~ "x" > 0.5'), BSimilar)


@pytest.mark.parametrize("given", [5, 2**70, None, True, b"x", {"a": 1}, 1.5])
def test_what_is_no_meaning_is_told_by_its_name(given: Any) -> None:
    with pytest.raises(QueryError, match=r"\$v is .*takes a text or a vector"):
        bound("~ $v", {"v": given})


@pytest.mark.parametrize("given", [[1e300, 1.0], [float("nan")], [1.0, float("inf")], [-1e39]])
def test_vectors_that_are_not_finite_are_told_by_their_name(given: list[float]) -> None:
    with pytest.raises(QueryError, match=r"\$v holds NaN, an infinity or a number beyond float32"):
        bound("~ $v", {"v": given})


def test_long_vectors_keep_their_direction() -> None:
    near = bound("~ $v", {"v": [3e38, 3e38]}).near
    assert near is not None and near.vector.tolist() == pytest.approx([0.5**0.5, 0.5**0.5])


def test_deep_json_is_refused_before_it_overflows() -> None:
    for depth in (101, 3000, 100_000):
        text = '{"filter": ' + '{"not": ' * depth + '{"n": 1}' + "}" * depth + "}"
        with pytest.raises(QueryError, match="nest deeper than 100"):
            from_json(read_json(text))
    with pytest.raises(QueryError, match="not JSON"):
        read_json('{"filter": ')
    with pytest.raises(QueryError, match="more than 1000 digits"):
        from_json(read_json('{"filter": {"n": ' + "1" * 5000 + "}}"))
