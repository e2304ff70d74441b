"""Lists of several types, and paths that a record spells twice: every value is found as what it is, and shown."""

import json
import math
import operator
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering as tr
from tests.query.parts import Event, PlainPart
from treering.indexer.flatten import Flattener
from treering.query import bound as b
from treering.query.field_values import arrow_values, python_values
from treering.query.kinds import by_code
from treering.query.mixed_lists import pieces_of_list
from treering.query.rows import Choice, Rows
from treering.query.scan import matching
from treering.query.store import Store

ROWS: list[dict[str, Any]] = [
    {"id": 1, "l": [1, "a", True, None, 2.5]},
    {"id": 2, "l": ["1", "true"]},
    {"id": 3, "l": [1, 2]},
    {"id": 4, "l": [True, "z", 2**70]},
    {"id": 5, "l": [1, "a", True, None, 2.5]},
    {"id": 6, "l": 1},
    {"id": 7, "a.b": 1, "a": {"b": 2}},
    {"id": 8, "a": {"b": "two"}, "a.b": [3, "x"]},
    {"id": 9, "a": {"b": [4, False]}, "a.b": "one"},
]
OPS = {"=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@pytest.fixture(scope="module", params=["in memory", "in segments", "compacted"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tr.open(tmp_path_factory.mktemp("lists") / "ring") as one:
        for start in range(0, len(ROWS), 3):
            one.ingest(ROWS[start : start + 3], embed=False)
            if request.param != "in memory":
                one.flush()
        if request.param == "compacted":
            one.compact()
        yield one


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("l = 1", [1, 3, 5, 6]),
        ("l has 1", [1, 3, 5, 6]),
        ("l = true", [1, 4, 5]),
        ("l has true", [1, 4, 5]),
        ("l = 2.5", [1, 5]),
        ("l > 2", [1, 4, 5]),
        ("l > 1e20", [4]),
        ('l has "a"', [1, 5]),
        ('l has "1"', [2]),
        ('l = "true"', [2]),
        ('l in (2, "z")', [3, 4]),
        ("l exists", [1, 2, 3, 4, 5, 6]),
        ("l =~ /^[az]$/", [1, 4, 5]),
        ("not l = 1", [2, 4, 7, 8, 9]),
        ("a.b = 1", [7]),
        ("a.b = 2", [7]),
        ("a.b = 3", [8]),
        ('a.b = "two"', [8]),
        ('a.b = "x"', [8]),
        ('a.b = "one"', [9]),
        ("a.b = 4", [9]),
        ("a.b = false", [9]),
        ("a.b exists", [7, 8, 9]),
    ],
)
def test_each_value_is_found_as_what_it_is(store: Store, condition: str, found: list[int]) -> None:
    assert [row["id"] for row in store.query(f"{condition} sort by id fields id").to_list()] == found


def test_lists_are_shown_as_they_were(store: Store) -> None:
    rows = store.query("sort by id fields l").to_list()
    assert [json.dumps(row["l"]) for row in rows[:6]] == [json.dumps(row["l"]) for row in ROWS[:6]]
    shown = [{k: v for k, v in row.items() if k != "ts"} for row in store.query("sort by id").to_list()]
    assert shown == ROWS
    assert store.query("id = 1 fields l").to_arrow()["l"].to_pylist() == ['[1,"a",true,null,2.5]']
    assert store.sql("select l from events where id = 4").to_pylist() == [{"l": f'[true,"z",{2**70}]'}]


def test_of_two_spellings_the_key_with_the_dot_is_the_value(store: Store) -> None:
    assert store.query("a.b exists sort by id fields a.b").to_list() == [
        {"a.b": 1},
        {"a.b": [3, "x", "two"]},
        {"a.b": "one"},
    ]
    assert store.query("sum(a.b)").to_list() == [{"sum(a.b)": 1}]
    assert store.sql('select "a.b" from events where id = 9').to_pylist() == [{"a.b": "one"}]


def test_groups_of_lists_go_by_their_elements(store: Store) -> None:
    counts = {json.dumps(row["l"]): row["count"] for row in store.query("id < 6 count by l").to_list()}
    assert counts == {
        '[1, "a", true, null, 2.5]': 2,
        '["1", "true"]': 1,
        "[1, 2]": 1,
        f'[true, "z", {2**70}]': 1,
    }
    for condition, n in (("l = 2.5", [2]), ("l = true", [1, 2]), ('l has "1"', [1]), ("l > 1e20", [1])):
        rows = store.query(f"id < 6 count by l | where {condition}").to_list()
        assert sorted(row["count"] for row in rows) == n, condition
    assert store.query("id < 6 count(l), distinct(l)").to_list() == [{"count(l)": 5, "distinct(l)": 4}]


def test_fields_counts_an_event_once(store: Store) -> None:
    infos = {info.name: info for info in store.fields() if info.source == "original"}
    assert (infos["l"].n, infos["a.b"].n) == (6, 3)
    assert infos["l"].types == {
        "int": 1, "list of int": 3, "list of float": 2, "list of bool": 3, "list of text": 4, "list of big int": 1,
    }  # fmt: skip


ITEMS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**53 + 1, 2**70, -(2**63), 0.5, -2.0, 1e30, math.inf])
    | st.sampled_from(["", "1", "true", "a"])
)
LITERALS = st.booleans() | st.integers(-3, 3) | st.sampled_from([2**53, 2**70, 0.5, 1e30, "1", "a", "true"])


def holds(item: Any, op: str, literal: Any) -> bool:
    if isinstance(item, bool) or isinstance(literal, bool):
        return op == "=" and isinstance(item, bool) and isinstance(literal, bool) and item == literal
    if item is None or isinstance(item, str) != isinstance(literal, str):
        return False
    return bool(OPS[op](item, literal))


@given(st.lists(st.lists(ITEMS, max_size=5), min_size=1, max_size=5), st.sampled_from(list(OPS)), LITERALS)
def test_a_comparison_is_true_when_any_element_satisfies_it(
    lists: list[list[Any]], op: str, literal: Any
) -> None:
    flat = Flattener()
    for row, items in enumerate(lists):
        flat.add(row, {"l": items})
    columns = {name: array.to_pylist() for name, array in flat.arrays(len(lists)).items()}
    part = PlainPart([Event(row, row, {n: v[row] for n, v in columns.items()}) for row in range(len(lists))])
    column = b.Column("l", by_code(columns), "list")
    found = matching(b.BCompare(column, op, literal), Choice(part, slice(0, len(lists))))
    assert found.tolist() == [any(holds(item, op, literal) for item in items) for items in lists]
    rows = Rows.of_part(part)
    shown = python_values(rows, column)
    assert shown == [None if all(i is None for i in items) and items else items for items in lists]
    assert len(arrow_values(rows, column)) == len(lists)


@given(st.lists(ITEMS, max_size=6))
def test_a_list_in_pieces_has_each_element_once(items: list[Any]) -> None:
    pieces = pieces_of_list(items)
    for at, item in enumerate(items):
        held = [(kind, piece[at]) for kind, piece in pieces.items() if piece[at] is not None]
        assert [(type(value), value) for _, value in held] == ([] if item is None else [(type(item), item)])


def test_lists_that_older_versions_kept_as_texts_are_what_they_were() -> None:
    part = PlainPart([Event(0, 0, {"l#[s]": ["1", "a", "true"]}), Event(1, 1, {"l#[i]": [1]})])
    column = b.Column("l", ("l#[i]", "l#[s]"), "list")
    rows = Rows.of_part(part)
    assert python_values(rows, column) == [["1", "a", "true"], [1]]
    found = matching(b.BCompare(column, "=", "1"), Choice(part, slice(0, 2)))
    assert found.tolist() == [True, False]
