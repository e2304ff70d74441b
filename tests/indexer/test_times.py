import re
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.indexer.canonical import record_time
from treering.indexer.clocks import Clock
from treering.indexer.table_times import row_times
from treering.indexer.times import parse_iso, parse_time, year_before, zone
from treering.storage.batch import TS_ORIGINS
from treering.storage.errors import ConfigError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_OFFSETS = ("+99:99", "+24:00", "-25:00", "+05:75", "-0560", "+24", "-99")
"""What stands where an offset should and is none: RFC 3339 ends at 23:59."""

_T0 = 1_777_645_321_000_000_000  # 2026-05-01T14:22:01Z


def _ns(at: datetime) -> int:
    return ((at - _EPOCH) // timedelta(microseconds=1)) * 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01T14:22:01Z", _T0),
        ("2026-05-01T17:22:01.694554+03:00", _T0 + 694_554_000),
        ("2026-05-02T00:22:01.900+10", _T0 + 900_000_000),
        ("2026-05-01T14:22:01,800+0000", _T0 + 800_000_000),
        ("2026-05-01 14:22:01.123456789", _T0 + 123_456_789),
        ("2026-05-01 14:22:01.1234567899", _T0 + 123_456_789),
        ("2026-05-01 14:22:01 UTC", _T0),
        ("2026-05-01 16:22:01 +0200", _T0),
        ("2026-05-01", 1_777_593_600_000_000_000),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
        ("2026-05-02T14:21:01+23:59", _T0),
        ("2026-04-30T14:23:01-2359", _T0),
    ],
)
def test_iso_spellings_give_the_same_instants(text: str, expected: int) -> None:
    assert parse_iso(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "not a time", "2026-13-01", "2026-02-30T00:00:00Z", "2026-05-01T25:00:00", "9999-01-01"),
        *(f"2026-05-01T14:22:01{zone}" for zone in _NO_OFFSETS),
        *(f"2026-05-01 14:22:01.5 {zone}" for zone in _NO_OFFSETS),
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_iso(text) is None


@given(
    st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
)
def test_iso_agrees_with_the_standard_library(at: datetime, offset_min: int) -> None:
    aware = at.replace(tzinfo=timezone(timedelta(minutes=offset_min)))
    assert parse_iso(aware.isoformat()) == _ns(aware)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1)))
def test_naive_times_are_read_in_the_given_zone(at: datetime) -> None:
    shanghai = ZoneInfo("Asia/Shanghai")
    assert parse_iso(at.isoformat(), shanghai) == _ns(at.replace(tzinfo=shanghai))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1777645321, _T0),
        (1777645321000, _T0),
        (1777645321000000, _T0),
        (1777645321000000001, _T0 + 1),
        ("1777645321000000001", _T0 + 1),
        (1777645321.613, _T0 + 613_000_000),
        ("1777645321.613", _T0 + 613_000_000),
        (0, 0),
        (-86400, -86_400_000_000_000),
        (-1.5, -1_500_000_000),
        ([1777645321, 5], _T0 + 5),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**30, None),
        ({}, None),
        ("2026", None),
    ],
)
def test_epochs_are_told_by_magnitude_and_exact(value: object, expected: int | None) -> None:
    assert parse_time(value) == expected


def test_year_less_times_never_land_in_the_future() -> None:
    january = int(datetime(2026, 1, 3, tzinfo=UTC).timestamp())
    assert year_before(12, 31, (23, 59, 59), january, UTC) == 2025
    assert year_before(1, 3, (12, 0, 0), january, UTC) == 2026
    assert year_before(2, 29, (0, 0, 0), january, UTC) == 2024


def test_a_told_year_goes_on_over_new_year() -> None:
    clock = Clock(UTC, year=2024, latest_s=0)
    before = clock.seconds("month_day", b"12-31 23:59:59")
    after = clock.seconds("month_day", b"01-01 00:00:00")
    assert before is not None and after == before + 1
    assert clock.assumed_years == {2024, 2025}


def test_zones_are_names_or_offsets() -> None:
    assert zone("utc") is UTC
    assert zone("+08:00").utcoffset(None) == timedelta(hours=8)
    for name in ("Mars/Base", *_NO_OFFSETS):
        with pytest.raises(ConfigError, match=re.escape(name)):
            zone(name)


@pytest.mark.parametrize("offset", [*_NO_OFFSETS, "+23:59", "-03:30"])
def test_records_tables_and_lines_of_text_agree_which_offsets_there_are(offset: str) -> None:
    text = f"2026-05-01T14:22:01{offset}"
    ns = parse_iso(text)
    assert (ns is None) == (offset in _NO_OFFSETS)
    expected = (ns, 0) if ns is not None else (7, TS_ORIGINS.index("ingest"))
    assert record_time({"ts": text}, 7) == expected
    times = row_times({"ts#s": pa.array([text])}, {}, 1, now_ns=7)
    assert (int(times.ts_ns[0]), int(times.origin[0])) == expected
    seconds = Clock(UTC, latest_s=0).seconds("iso", b"2026-05-01T14:22:01", offset.encode())
    assert seconds == (None if ns is None else ns // 10**9)
