"""Rows come out under their own names, exact, and fit for strict JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.query.parts import Event, PlainPart, PlainSnapshot
from treering.query import bound as b
from treering.query.execute import execute
from treering.query.result import Result
from treering.query.times_out import format_times

SCORE = b.Column("score", ("score",), "number")


def of_records(*records: bytes, **more: Any) -> Result:
    events = [Event(i, i, {"record": r, "score": 0.5 * i}) for i, r in enumerate(records)]
    return execute(PlainSnapshot([PlainPart(events)]), b.BoundQuery(**more))


def test_json_record_keeps_names_order_and_nesting() -> None:
    rows = of_records(b'{"z":1,"a":{"b":[1,2]},"ts":"2026-05-01","text":"x"}').to_list()
    assert rows == [{"ts": "1970-01-01T00:00:00Z", "z": 1, "a": {"b": [1, 2]}, "text": "x"}]
    assert list(rows[0]) == ["ts", "z", "a", "text"]


def test_big_numbers_come_back_digit_for_digit() -> None:
    big = 123456789012345678901234567890
    row = of_records(f'{{"big":{big},"id":18446744073709551615,"i":9007199254740993}}'.encode()).to_list()[0]
    assert (row["big"], row["id"], row["i"]) == (big, 18446744073709551615, 9007199254740993)


def test_rows_are_strict_json_and_utf8() -> None:
    result = of_records(
        b'{"a":NaN,"b":-Infinity,"c":1e999}',
        rb'{"d":"half \ud83d","\udc9dkey":1}',
        rb'{"e":"\ud83d\ude00"}',
        b'{"f":"\xff"}',
    )
    text = "\n".join(json.dumps(row, allow_nan=False) for row in result)
    assert text.encode().count(b"\n") == 3
    rows = result.to_list()
    assert (rows[0]["a"], rows[0]["b"], rows[0]["c"]) == (None, None, None)
    assert rows[1]["d"] == "half �"
    assert rows[1]["�key"] == 1
    assert rows[2]["e"] == "😀"
    assert rows[3]["f"] == "�"


def test_duplicate_keys_keep_the_last_value() -> None:
    assert of_records(b'{"k":120,"k":80}').to_list()[0]["k"] == 80


def test_text_line_shows_what_it_was_taken_apart_into() -> None:
    values = {
        "record": b"INFO 12 hello",
        "level": 3,
        "pid": 12,
        "body": "hello",
        "k#s": "v",
        "source": "a.log",
    }
    result = execute(PlainSnapshot([PlainPart([Event(7, 0, values)])]), b.BoundQuery())
    assert result.to_list() == [
        {
            "ts": "1970-01-01T00:00:00.000000007Z",
            "level": "info",
            "pid": 12,
            "body": "hello",
            "k": "v",
            "source": "a.log",
        }
    ]


def test_table_row_is_rebuilt_from_its_columns() -> None:
    values = {"a#i": 1, "b.c#s": "x", "big#z": 2**70, "o#o": True, "l#[f]": [0.5, float("nan")]}
    result = execute(PlainSnapshot([PlainPart([Event(0, 0, values)])]), b.BoundQuery())
    assert result.to_list() == [
        {"ts": "1970-01-01T00:00:00Z", "a": 1, "b.c": "x", "big": 2**70, "o": {}, "l": [0.5, None]}
    ]


def test_named_fields_are_shown_unless_the_record_has_them() -> None:
    nested = b.Column("m.score", ("score",), "number")
    result = of_records(b'{"score":9}', b'{"x":1}', b'{"m":{"score":3}}', shown=(SCORE, nested))
    assert [row.get("score") for row in result] == [9, 0.5, 1.0]
    assert [row.get("m.score") for row in result] == [0.0, 0.5, None]
    assert result.columns == ["ts", "x", "m", "score", "m.score"]


def test_fields_choose_and_rename() -> None:
    result = of_records(
        b'{"a":1}', fields=(b.BOutput(SCORE, "s"), b.BOutput(b.Column("ts", ("ts",), "ts"), "when"))
    )
    assert result.to_list() == [{"s": 0.0, "when": "1970-01-01T00:00:00Z"}]
    assert result.columns == ["s", "when"]
    assert result.to_arrow().schema.types == [pa.float64(), pa.timestamp("ns", "UTC")]


def test_meaning_adds_a_score() -> None:
    vectors = np.eye(2, 64, dtype=np.float32)
    part = PlainPart([Event(i, i, {"record": b'{"i":%d}' % i}, [(0, i)]) for i in range(2)], vectors)
    probe = b.Probe("q", vectors[1], None)
    result = execute(PlainSnapshot([part]), b.BoundQuery(near=probe, limit=2))
    assert [(row["i"], row["_score"]) for row in result] == [(1, 1.0), (0, 0.0)]
    assert result.to_arrow().column("_score").to_pylist() == [1.0, 0.0]


def test_nanoseconds_survive_every_form() -> None:
    events = [Event(1_777_622_400_123_456_789, 0, {"record": b'{"a":1}'})]
    result = execute(PlainSnapshot([PlainPart(events)]), b.BoundQuery())
    assert result.to_list()[0]["ts"] == "2026-05-01T08:00:00.123456789Z"
    assert result.to_arrow().column("ts").cast(pa.int64()).to_pylist() == [events[0].ts]
    assert result.times_ns().tolist() == [events[0].ts]
    assert result.to_pandas()["ts"].astype("int64").tolist() == [events[0].ts]
    assert result.to_polars()["ts"].to_physical().to_list() == [events[0].ts]


def test_times_carry_the_offset_of_the_zone() -> None:
    times = np.array([0, 1_777_622_400_000_000_001], np.int64)
    assert format_times(times, "Asia/Shanghai") == [
        "1970-01-01T08:00:00+08:00",
        "2026-05-01T16:00:00.000000001+08:00",
    ]
    assert format_times(times[1:], "America/New_York") == ["2026-05-01T04:00:00.000000001-04:00"]


def test_times_carry_a_plain_offset() -> None:
    times = np.array([0], np.int64)
    assert format_times(times, "+08:00") == ["1970-01-01T08:00:00+08:00"]
    assert format_times(times, "-03:30") == ["1969-12-31T20:30:00-03:30"]
    assert format_times(times, "utc") == ["1970-01-01T00:00:00Z"]


def test_arrow_keeps_nan_and_infinity_that_json_cannot_hold() -> None:
    result = of_records(
        b'{"a":NaN,"l":[1.5,NaN]}', b'{"a":-Infinity}', b'{"a":1e999}', b'{"a":null}', b'{"a":0.5}'
    )
    found = result.to_arrow()
    assert [str(v) for v in found.column("a").to_pylist()] == ["nan", "-inf", "inf", "None", "0.5"]
    assert str(found.column("l").to_pylist()[0]) == "[1.5, nan]"
    assert [row["a"] for row in result] == [None, None, None, None, 0.5]
    table = execute(
        PlainSnapshot([PlainPart([Event(0, 0, {"a#f": float("inf")}), Event(1, 1, {"a#f": float("nan")})])]),
        b.BoundQuery(),
    ).to_arrow()
    assert [str(v) for v in table.column("a").to_pylist()] == ["inf", "nan"]


def test_arrow_types_do_not_depend_on_the_first_rows() -> None:
    records = [b'{"a":1,"s":"x"}'] * 3000 + [b'{"a":0.5,"s":7,"n":{"k":1},"l":["a"]}'] * 10
    table = of_records(*records).to_arrow()
    assert table.num_rows == 3010
    assert table.schema.field("a").type == pa.float64()
    assert table.column("s").to_pylist()[0] == "x"
    assert table.column("s").to_pylist()[-1] == "7"
    assert json.loads(table.column("n").to_pylist()[-1]) == {"k": 1}
    assert table.column("l").to_pylist()[-1] == ["a"]
    assert table.column("l").null_count == 3000


def test_whole_numbers_that_floats_cannot_hold_become_text_beside_fractions() -> None:
    table = of_records(b'{"a":9007199254740993}', b'{"a":0.5}', b'{"b":18446744073709551615}').to_arrow()
    assert table.column("a").to_pylist() == ["9007199254740993", "0.5", None]
    assert table.column("b").to_pylist() == [None, None, "18446744073709551615"]


def test_columns_of_parts_with_other_types_meet() -> None:
    parts = [
        PlainPart([Event(0, 0, {"x#i": 1})]),
        PlainPart([Event(1, 1, {"x#s": "one"})]),
        PlainPart([Event(2, 2)]),
    ]
    column = b.Column("x", ("x#i", "x#s"), "mixed")
    result = execute(PlainSnapshot(parts), b.BoundQuery(fields=(b.BOutput(column, "x"),)))
    assert [row["x"] for row in result] == [1, "one", None]
    assert result.to_arrow().column("x").to_pylist() == ["1", "one", None]


def test_notebook_table_escapes_what_it_shows() -> None:
    shown = of_records(b'{"<b>":"<script>alert(1)</script>"}')._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_plan_tells_what_was_read() -> None:
    result = of_records(b"{}", b"{}", where=b.BCompare(SCORE, ">", 0.2))
    assert result.plan.rows_matched == 1
    assert "exact" in str(result.plan).splitlines()[0]
    json.dumps(result.plan.to_json())


def test_empty_answer_has_rows_and_columns_of_nothing() -> None:
    result = execute(PlainSnapshot([]), b.BoundQuery())
    assert (result.to_list(), result.columns, result.to_arrow().num_rows) == ([], ["ts"], 0)


@pytest.mark.parametrize("n", [0, 1, 2047, 2048, 2049, 5000])
def test_iteration_in_chunks_gives_every_row_once(n: int) -> None:
    result = of_records(*[b'{"i":%d}' % i for i in range(n)])
    assert [row["i"] for row in result] == list(range(n))
