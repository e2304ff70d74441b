"""Times and durations, exact to the nanosecond, and the ranges they make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.query.ast import Between, Last, On
from treering.query.times import (
    epoch_ns,
    format_duration,
    format_time,
    parse_duration,
    parse_now,
    parse_time,
    parse_zone,
    time_range,
)
from treering.storage.errors import QueryError

HOUR = 3600 * 10**9
DAY = 24 * HOUR
SHANGHAI = ZoneInfo("Asia/Shanghai")
NOON = int(np.datetime64("2026-05-01T12:00:00", "ns").astype(np.int64))


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("15m", 15 * 60 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("7d", 7 * DAY),
        ("2w", 14 * DAY),
        ("500ms", 500 * 10**6),
        ("1.5s", 1_500_000_000),
        ("0.000000001s", 1),
        ("3us", 3000),
        ("3µs", 3000),
        ("9ns", 9),
        ("1d2h3m4s5ms", DAY + 2 * HOUR + 184_005 * 10**6),
    ],
)
def test_durations_are_exact(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "5", "1x", "h", "0s", "1h 2m", "-1h", "999999999w", "9" * 5000 + "s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-05-01", "2026-05-01T00:00:00"),
        ("2026-05-01T06", "2026-05-01T06:00:00"),
        ("2026-05-01T06:30", "2026-05-01T06:30:00"),
        ("2026-05-01T06:30:59", "2026-05-01T06:30:59"),
        ("2026-05-01 06:30:59", "2026-05-01T06:30:59"),
        ("2026-05-01T06:30:59.123456789Z", "2026-05-01T06:30:59.123456789"),
        ("2026-05-01T06:30:59,5", "2026-05-01T06:30:59.500000000"),
        ("2026-05-01T06:30:59.000000001+03:00", "2026-05-01T03:30:59.000000001"),
        ("2026-05-01T06:30-0600", "2026-05-01T12:30:00"),
        ("2026-05-01T06:30+10", "2026-04-30T20:30:00"),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500000000"),
        ("1777593600", "2026-05-01T00:00:00"),
        ("1777593600.000000001", "2026-05-01T00:00:00.000000001"),
        ("1777593600123", "2026-05-01T00:00:00.123"),
        ("1777593600123456", "2026-05-01T00:00:00.123456"),
        ("1777593600123456789", "2026-05-01T00:00:00.123456789"),
        ("now", "2026-05-01T12:00:00"),
        ("today", "2026-05-01T00:00:00"),
        ("yesterday", "2026-04-30T00:00:00"),
    ],
)
def test_times_are_exact_to_the_nanosecond(text: str, utc: str) -> None:
    assert parse_time(text, UTC, now_ns=NOON) == np.datetime64(utc, "ns").astype(np.int64)


@pytest.mark.parametrize(
    "text",
    [
        "2026-13-01",
        "2026-02-30",
        "2026-05-01T25:00",
        "2026-05-01T06:61",
        "noon",
        "",
        "1e9",
        "9999-01-01",
        "1" * 40,
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        parse_time(text, UTC, now_ns=NOON)


def test_a_time_without_offset_is_in_the_zone_of_the_query() -> None:
    assert parse_time("2026-05-01T08:00", SHANGHAI, now_ns=0) == parse_time(
        "2026-05-01T00:00Z", UTC, now_ns=0
    )
    assert parse_time("2026-05-01T08:00", parse_zone("+08:00"), now_ns=0) == NOON - 12 * HOUR
    assert parse_time("2026-05-01T08:00Z", SHANGHAI, now_ns=0) == NOON - 4 * HOUR


def test_zones_are_names_or_offsets_and_a_misspelt_one_gets_the_nearest() -> None:
    assert parse_zone("-05:30").utcoffset(None) == timedelta(hours=-5, minutes=-30)
    assert parse_zone(None) is UTC and parse_zone("utc") is UTC
    with pytest.raises(QueryError, match="Europe/Berlin"):
        parse_zone("Europe/Berlim")
    with pytest.raises(QueryError):
        parse_zone("../etc/passwd")


def test_ranges_are_half_open() -> None:
    assert time_range(Last("1h"), UTC, now_ns=NOON) == (NOON - HOUR, NOON)
    assert time_range(Between("2026-05-01", None), UTC, now_ns=NOON) == (NOON - 12 * HOUR, None)
    assert time_range(Between(None, "2026-05-01"), UTC, now_ns=NOON) == (None, NOON - 12 * HOUR)
    assert time_range(None, UTC, now_ns=NOON) == (None, None)
    assert time_range(On("2026-05-01"), UTC, now_ns=0) == (NOON - 12 * HOUR, NOON + 12 * HOUR)
    with pytest.raises(QueryError, match="ends before"):
        time_range(Between("2026-05-02", "2026-05-01"), UTC, now_ns=NOON)


def test_a_day_is_as_long_as_it_is_in_its_zone() -> None:
    zone = ZoneInfo("Europe/Berlin")
    lengths = [
        end - start
        for day in ("2026-03-29", "2026-10-25", "2026-05-01")
        for start, end in [time_range(On(day), zone, now_ns=0)]
        if start is not None and end is not None
    ]
    assert lengths == [23 * HOUR, 25 * HOUR, 24 * HOUR]


def test_today_depends_on_the_zone() -> None:
    late = NOON + 5 * HOUR  # 01:00 of the next day in Shanghai
    assert time_range(On("today"), UTC, now_ns=late) == (NOON - 12 * HOUR, NOON + 12 * HOUR)
    assert time_range(On("today"), SHANGHAI, now_ns=late) == (NOON + 4 * HOUR, NOON + 28 * HOUR)
    assert time_range(On("yesterday"), SHANGHAI, now_ns=late) == (NOON - 20 * HOUR, NOON + 4 * HOUR)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_written_time_reads_back_to_the_nanosecond(ns: int) -> None:
    assert parse_time(format_time(ns), UTC, now_ns=0) == ns


def test_now_is_the_clock_or_what_pins_it() -> None:
    assert parse_now(NOON) == NOON
    assert parse_now("2026-05-01T12:00:00Z") == NOON
    assert parse_now(datetime(2026, 5, 1, 20, tzinfo=timezone(timedelta(hours=8)))) == NOON
    assert parse_now(None) > NOON - 400 * DAY
    with pytest.raises(QueryError):
        parse_now([1])


def test_epoch_numbers_in_comparisons_are_exact() -> None:
    assert epoch_ns(1777593600123456789) == 1777593600123456789
    assert epoch_ns(1777593600.5) == 1777593600500000000


def test_durations_are_told_in_two_units() -> None:
    assert format_duration(3 * DAY + 4 * HOUR + 5) == "3d4h"
    assert format_duration(999) == "0s"
