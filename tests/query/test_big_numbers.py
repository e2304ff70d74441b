"""Whole numbers of more digits than Python converts: kept, compared, sorted, counted and shown digit by digit."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treering as tr
from treering.query.compare import compare_decimals
from treering.query.json_form import read_json
from treering.query.store import Store
from treering.query.text_match import decimals_test
from treering.storage.errors import QueryError

LONG = "9" * 4301
LONGER = "1" + "0" * 1_000_000
LINES = [
    '{"n":1,"ts":1777593600,"num":5}',
    f'{{"n":2,"ts":1777593601,"num":{LONG}}}',
    f'{{"n":3,"ts":1777593602,"num":-{LONG},"in":{{"l":[{LONG},"x",2]}}}}',
    '{"n":4,"ts":1777593603,"num":2.5}',
    '{"n":5,"ts":1777593604,"num":"x"}',
    f'{{"n":6,"ts":1777593605,"num":{LONGER}}}',
    '{"n":7,"ts":1777593606,"num":18446744073709551616}',
    f'{{"n":8,"ts":1777593607,"num":{LONG}}}',
]


@pytest.fixture(scope="module", params=["in memory", "in segments"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place = tmp_path_factory.mktemp("big")
    (place / "in.jsonl").write_text("\n".join(LINES) + "\n")
    with tr.open(place / "ring") as one:
        assert one.ingest(place / "in.jsonl", embed=False).accepted == len(LINES)
        if request.param == "in segments":
            one.flush()
        yield one


def numbers(store: Store, query: str, **more: Any) -> list[int]:
    return [row["n"] for row in store.query(query, **more).to_list()]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("num > 5 fields n", [2, 6, 7, 8]),
        ("num > 1e300 fields n", [2, 6, 8]),
        ("num <= 5 fields n", [1, 3, 4]),
        ("num < -1e308 fields n", [3]),
        (f"num > {'9' * 1000} fields n", [2, 6, 8]),
        (f"num = {'9' * 1000} fields n", []),
        ("num in (5, 18446744073709551616, 7) fields n", [1, 7]),
        ("num != 5 fields n", [2, 3, 4, 5, 6, 7, 8]),
        ("in.l = 2 fields n", [3]),
        ("in.l > 1e300 fields n", [3]),
        ("num exists sort by num fields n", [3, 4, 1, 7, 2, 8, 6, 5]),
        ("top 3 by num fields n", [6, 2, 8]),
        ("bottom 2 by num fields n", [3, 4]),
    ],
)
def test_conditions_and_orders_are_exact(store: Store, query: str, found: list[int]) -> None:
    assert numbers(store, query) == found


def test_groups_and_extremes_are_exact_and_sums_are_floats(store: Store) -> None:
    counts = {str(row["num"]): row["count"] for row in store.query("count by num").to_list()}
    assert counts == {"5": 1, LONG: 2, "-" + LONG: 1, "2.5": 1, "x": 1, LONGER: 1, str(2**64): 1}
    assert numbers(store, "n < 6 count by num, n | where num > 1e300 fields n") == [2]
    assert store.query("distinct(num), count(num)").to_list() == [{"distinct(num)": 7, "count(num)": 8}]
    (row,) = store.query("max(num), min(num), sum(num)").to_list()
    assert (str(row["max(num)"]), str(row["min(num)"])) == (LONGER, "-" + LONG)
    assert row["sum(num)"] == "NaN"  # as floats: an infinity and its opposite
    (row,) = store.query("n in (1, 2, 4) max(num) as most, min(num) as least | where most > 1e300").to_list()
    assert (str(row["most"]), row["least"]) == (LONG, 2.5)
    assert store.query("n = 7 max(num) as most").to_list() == [{"most": 2**64}]


def test_records_come_out_as_they_went_in(store: Store) -> None:
    rows = store.query("*").to_list()
    assert [str(row["num"]) for row in rows] == ["5", LONG, "-" + LONG, "2.5", "x", LONGER, str(2**64), LONG]
    assert rows[1]["num"] == Decimal(LONG) and rows[2]["in"] == {"l": [Decimal(LONG), "x", 2]}
    assert store.query("n = 3 fields in.l").to_list() == [{"in.l": [Decimal(LONG), "x", 2]}]


def test_every_format_has_each_digit(store: Store, tmp_path: Path) -> None:
    for ending in ("jsonl", "json", "csv", "tsv", "md"):
        assert store.export("*", tmp_path / f"out.{ending}") == len(LINES)
        text = (tmp_path / f"out.{ending}").read_text()
        assert LONGER in text and "-" + LONG in text, ending
    with tr.open(tmp_path / "again") as again:
        assert again.ingest(tmp_path / "out.jsonl", embed=False).rejected == 0
        assert again.query("sort by ts").to_list() == store.query("sort by ts").to_list()
    store.export("num exists fields num", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["num"].to_pylist()[1] == LONG
    assert store.sql("select num from events where n = 2").to_pylist() == [{"num": LONG}]


def test_what_came_out_of_a_query_goes_in_again_and_is_the_same_number(store: Store, tmp_path: Path) -> None:
    row = store.query("n = 2").to_list()[0]
    with tr.open(tmp_path / "again") as again:
        again.ingest([row, {"n": 9, "num": 10**5000}], embed=False)
        found = again.query("num > 1e300 sort by n fields num").to_list()
        assert [str(one["num"]) for one in found] == [LONG, "1" + "0" * 5000]


def test_a_deletion_shows_what_would_go(store: Store) -> None:
    receipt = store.delete("num > 5", dry_run=True)
    assert (receipt.events, len(receipt.examples)) == (4, 3)


def test_a_query_takes_a_thousand_digits_and_says_so(store: Store) -> None:
    for refused in (f"n = {'9' * 1001}", f"n = -{'9' * 5000}"):
        with pytest.raises(QueryError, match="1000 are allowed"):
            store.query(refused)
    with pytest.raises(QueryError, match="more than 1000 digits"):
        store.query(read_json('{"filter": {"n": ' + "9" * 5000 + "}}"))
    for given in (10**5000, Decimal("9" * 5000)):
        with pytest.raises(QueryError, match=r"\$v is a number of more than 1000 digits"):
            store.query("n = $v", params={"v": given})
    assert numbers(store, "num < $v fields n", params={"v": Decimal(10**900)}) == [1, 3, 4, 7]


@pytest.mark.parametrize("op", ["=", ">", ">=", "<", "<="])
def test_long_numbers_compare_with_every_literal(op: str) -> None:
    texts = [LONG, "-" + LONG, None, "7"]
    holds = {
        "=": (False, False),
        ">": (True, False),
        ">=": (True, False),
        "<": (False, True),
        "<=": (False, True),
    }
    for literal in (8, -8, 10**999, 1e308, -2.5):
        assert tuple(compare_decimals(texts[:2], op, literal)) == holds[op]
    assert not compare_decimals(texts[2:3], op, 0).any()
    assert decimals_test([7, 2.0])(pa.array(texts)).tolist() == [False, False, False, True]


def test_json_of_answers_is_read_by_any_reader_of_json(store: Store, tmp_path: Path) -> None:
    store.export("n = 2", tmp_path / "one.json")
    (row,) = json.loads((tmp_path / "one.json").read_text(), parse_int=str)
    assert row == {"ts": "2026-05-01T00:00:01Z", "n": "2", "num": LONG}
