"""Text, JSON and Python spell one abstract query."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.ast_strategies import queries
from treering.query import ast
from treering.query.json_form import from_json, to_json
from treering.query.parse import parse
from treering.query.text_form import to_text
from treering.storage.errors import QueryError


def exactly(query: ast.Query) -> str:
    """A query so spelt that 1, 1.0 and true differ; positions left out."""
    return _spelt(query)


def _spelt(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_spelt, value)) + ")"
    slots = getattr(type(value), "__slots__", None)
    if slots is None:
        return repr(value)
    return (
        type(value).__name__
        + "("
        + ", ".join(_spelt(getattr(value, s)) for s in slots if s != "position")
        + ")"
    )


@settings(max_examples=150, deadline=None)
@given(queries())
def test_text_form_reads_back_as_the_same_query(query: ast.Query) -> None:
    assert exactly(parse(to_text(query))) == exactly(query)


@settings(max_examples=150, deadline=None)
@given(queries())
def test_json_form_reads_back_as_the_same_query_also_through_json_text(query: ast.Query) -> None:
    assert exactly(from_json(json.loads(json.dumps(to_json(query))))) == exactly(query)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_query_or_a_query_error_with_a_place(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        assert error.position is None or 0 <= error.position <= len(text)
        assert str(error)
    else:
        assert exactly(parse(to_text(query))) == exactly(query)


TOKENS = (
    *("a", "=", ">", ">=", "<", "!=", "=~", "!~", "~", '"text"', "'x'"),
    *("3", "0.5", "-1", "1h", "2026-05-01", "and", "or", "not", "in", "(", ")"),
    *(",", "|", "*", "by", "top", "bottom", "top-k", "sort", "limit", "offset", "fields"),
    *("as", "count", "p95(", "every", "last", "since", "until", "between", "on", "tz", "exact"),
    *("where", "like", ":", "has", "exists", "missing", "desc", "$p", "`odd", "name`", "/re/"),
    *("model", "level", "error", "today"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=14).map(" ".join))
def test_any_row_of_words_of_the_language_is_a_query_or_a_query_error(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        assert "\n" not in error.message and 0 <= (error.position or 0) <= len(text)
    else:
        assert exactly(parse(to_text(query))) == exactly(query)
        assert exactly(from_json(to_json(query))) == exactly(query)


JSON_KEYS = (
    *("filter", "and", "or", "not", "near", "text", "min", "k", ">", "in", "has"),
    *("exists", "time", "last", "since", "on", "sort", "limit", "stats", "group", "every", "fields"),
    *("like", "top", "n", "by", "bottom", "then", "a", "b", "phrase", "param"),
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(JSON_KEYS),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(JSON_VALUES)
def test_any_json_is_a_query_or_a_query_error(obj: Any) -> None:
    try:
        query = from_json(obj)
    except QueryError as error:
        assert str(error)
    else:
        assert exactly(from_json(to_json(query))) == exactly(query)


PAIRS = [
    (
        "hallucination_rate > 0.3 sort by attention_collapse_score desc limit 10",
        {
            "filter": {"hallucination_rate": {">": 0.3}},
            "sort": [{"attention_collapse_score": "desc"}],
            "limit": 10,
        },
    ),
    (
        "last 1h metrics.hallucination_rate > 0.3 metrics.hallucination_rate <= 0.9 "
        'and (model = "llama-3-8b" or model in ("a", "b")) and not tags has "prod" and kv_hit missing '
        'and ~ "connection reset" >= 0.5 ~ "connection reset" top 50 '
        "| count, p95(e2e_latency_s) by model every 5m limit 10",
        {
            "filter": {
                "and": [
                    {"metrics.hallucination_rate": {">": 0.3, "<=": 0.9}},
                    {"or": [{"model": "llama-3-8b"}, {"model": {"in": ["a", "b"]}}]},
                    {"not": {"tags": {"has": "prod"}}},
                    {"kv_hit": {"exists": False}},
                ]
            },
            "time": {"last": "1h"},
            "near": {"text": "connection reset", "min": 0.5, "k": 50},
            "group": ["model"],
            "stats": ["count", "p95(e2e_latency_s)"],
            "every": "5m",
            "limit": 10,
        },
    ),
    ('~ "reset"', {"near": "reset"}),
    ('~ "reset" limit 5', {"near": {"text": "reset"}, "limit": 5}),
    ('~ "reset" >= 0.5', {"near": {"text": "reset", "min": 0.5}}),
    ("body ~ $v top 7", {"near": {"param": "v", "field": "body", "k": 7}}),
    ("a > $h", {"filter": {"a": {"$gt": {"param": "h"}}}}),
    ("a missing", {"filter": {"a": None}}),
    ("a != 1 and a exists", {"filter": {"a": {"ne": 1, "exists": True}}}),
    ("a =~ /x/ a !~ /y/", {"filter": {"a": {"regex": "x", "!~": "y"}}}),
    ("top 10 by f", {"top": {"by": "f"}}),
    ("bottom 3 by f", {"bottom": {"n": 3, "by": "f"}}),
    ("limit 0", {"limit": 0}),
    ("limit all", {"limit": None}),
    ("limit 2 offset 3 fields a, b as c", {"limit": 2, "offset": 3, "fields": ["a", {"b": "c"}]}),
    ("since 2026-05-01 until 2026-05-02", {"time": {"since": "2026-05-01", "until": "2026-05-02"}}),
    ("between 2026-05-01 and 2026-05-02", {"time": {"between": ["2026-05-01", "2026-05-02"]}}),
    ("on yesterday", {"time": {"on": "yesterday"}}),
    ('like request_id:"chatcmpl-77" top 5', {"like": {"request_id": "chatcmpl-77"}, "top": 5}),
    ("`a:b` = 1 `and` = 2 `x y` = 3", {"filter": {"a:b": 1, "`and`": 2, "x y": 3}}),
    ("top 10 by a | where b > 1", {"top": {"n": 10, "by": "a"}, "then": {"filter": {"b": {"gt": 1}}}}),
    ('exact tz "Asia/Shanghai"', {"exact": True, "tz": "Asia/Shanghai"}),
    ("*", {}),
]


@pytest.mark.parametrize(("text", "obj"), PAIRS)
def test_text_and_json_say_the_same(text: str, obj: Any) -> None:
    assert exactly(from_json(obj)) == exactly(parse(text))


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        ({"filters": {}}, '"filters"'),
        ({"filter": {"a": {"~>": 1}}}, '"~>"'),
        ({"filter": [1]}, '"filter"'),
        ({"filter": {}}, "empty"),
        ({"filter": {"a": [1, 2]}}, '{"in": [...]}'),
        ({"filter": {"and": []}}, '"and"'),
        ({"filter": {"a": {"in": []}}}, "no values"),
        ({"filter": {"a": float("nan")}}, "nan"),
        ({"filter": {"": 1}}, "empty"),
        ({"time": {"last": "1x"}}, "1x"),
        ({"time": {"last": "1h", "on": "today"}}, '"time"'),
        ({"near": {"txt": "a"}}, '"txt"'),
        ({"near": {"text": "a", "min": "b"}}, "'b'"),
        ({"near": "a", "stats": ["count"]}, "threshold"),
        ({"group": ["a"]}, "statistic"),
        ({"stats": ["median(x)"]}, "median"),
        ({"stats": ["count limit 1"]}, "count limit 1"),
        ({"limit": -1}, "-1"),
        ({"limit": 2.5}, "2.5"),
        ({"limit": True}, "True"),
        ({"top": 5}, "by FIELD"),
        ({"top": {"n": 5}, "bottom": {"n": 1, "by": "a"}}, '"bottom"'),
        ({"sort": [{"a": "down"}]}, '"desc"'),
        ({"filter": {"a": {"=~": "(?=x)"}}}, "look-around"),
        ("count", "str"),
    ],
)
def test_json_errors_name_what_is_wrong(obj: Any, told: str) -> None:
    with pytest.raises(QueryError) as caught:
        from_json(obj)
    assert told in str(caught.value)


def test_deep_json_is_refused_without_a_stack_overflow() -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(500):
        deep = {"not": {"and": [deep, {"b": 1}]}}
    with pytest.raises(QueryError, match="deeper"):
        from_json({"filter": deep})
