from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.query.cells import cell, dumps, rfc3339, visible


@given(st.text())
def test_shown_text_holds_no_control_character(text: str) -> None:
    shown = visible(text)
    assert not [c for c in shown if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066\u2028\u2029"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, 中文 and é 🎄", "plain, 中文 and é 🎄"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\ud83d", "\\ud83d"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_only_what_acts_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "true"),
        (0.1 + 0.2, "0.3"),
        (2**70, str(2**70)),
        ([1, None], "[1,null]"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_a_cell_is_short(value: Any, shown: str) -> None:
    assert cell(value) == shown


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_json_gives_every_value_back(value: Any) -> None:
    assert json.loads(dumps(value), parse_constant=pytest.fail) == value


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, [math.nan, 2**70], {"a": math.inf, "b": "\ud800"}]
)
def test_json_is_strict_where_numbers_are_none(value: Any) -> None:
    text = dumps(value)
    json.loads(text, parse_constant=pytest.fail)
    assert "null" in text


def test_json_keeps_utf8_raw_and_half_characters_escaped() -> None:
    assert dumps({"a": "退款"}) == '{"a":"退款"}'
    assert dumps({"a": "退款", "n": 2**64}) == '{"a":"退款","n":18446744073709551616}'
    assert json.loads(dumps({"a": "\ud83d"})) == {"a": "\ud83d"}


def test_times_carry_nanoseconds_and_zone() -> None:
    moment = datetime(2026, 3, 17, 10, 0, 0, 123456, UTC)
    assert rfc3339(moment) == "2026-03-17T10:00:00.123456000Z"
    shanghai = moment.astimezone(timezone(timedelta(hours=8)))
    assert rfc3339(shanghai) == "2026-03-17T18:00:00.123456000+08:00"
    pandas = pytest.importorskip("pandas")
    assert rfc3339(pandas.Timestamp(1_000_000_007, tz="UTC")) == "1970-01-01T00:00:01.000000007Z"
