"""Times as producers write them, as int64 nanoseconds since 1970 UTC: ISO 8601 and epochs of any unit."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treering.storage.errors import ConfigError

SECOND_NS = 1_000_000_000
"""Nanoseconds in a second."""

DAY_S = 86_400
"""Seconds in a day."""

MIN_NS, MAX_NS = -(1 << 63) + 1, (1 << 63) - 1
"""Times that int64 nanoseconds can hold: 1677 to 2262."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()

_ISO = re.compile(
    r"\s*(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
    r"(?:[Tt _-]\s*(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*(Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?\s*",
    re.ASCII,
)
_NUMBER = re.compile(r"\s*([+-]?\d{1,20}(?:\.\d+)?(?:[eE][+]?\d{1,2})?)\s*", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d))?", re.ASCII)


def zone(name: str) -> tzinfo:
    """Give the zone called `name`: an IANA name, ``UTC``, or an offset such as ``+08:00``.

    Raises ConfigError for a name that is neither.
    """
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    offset_s = _offset_s(name) if _OFFSET.fullmatch(name) else None
    if offset_s is not None:
        return timezone(timedelta(seconds=offset_s))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ConfigError(
            f"time zone {name!r} is unknown; give an IANA name or an offset like +08:00"
        ) from exc


def epoch_s(
    year: int, month: int, day: int, hour: int, minute: int, second: int, tz: tzinfo = UTC
) -> int | None:
    """Give seconds since 1970 of a civil time in `tz`, None where there is no such date.

    Second 60 (a leap second) is the second after :59. Of the two times of a clock put back, the first counts.
    """
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second <= 60):
        return None
    day_start_s = _day_start_s(year, month, day)
    if day_start_s is None:
        return None
    if tz is UTC:
        return day_start_s + hour * 3600 + minute * 60 + second
    offset = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=tz).utcoffset()
    offset_s = int(offset.total_seconds()) if offset is not None else 0
    return day_start_s + hour * 3600 + minute * 60 + second - offset_s


def parse_iso(text: str, tz: tzinfo = UTC) -> int | None:
    """Give the nanoseconds of an ISO 8601 or RFC 3339 time with up to nine exact digits, None if it is none.

    A blank, ``_`` or ``-`` may stand for the T, a comma for the point; ``Z``, ``UTC``, ``GMT``, ``+03:00``,
    ``+0000`` and ``+10`` are understood, up to 23:59. A time without a zone is read in `tz`; a bare date is its
    midnight.
    """
    if text[-1:] == "Z" and text[19:20] in (".", "Z"):  # the commonest spelling: seconds repeat
        start_s, digits = _utc_second(text[:19]), text[20:-1]
        if start_s is not None and (text[19] == "Z" or (digits.isascii() and digits.isdigit())):
            return _in_range(start_s * SECOND_NS + fraction_ns(digits))
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    at = (int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    seconds = epoch_s(*at, UTC if offset else tz)
    if seconds is None:
        return None
    offset_s = _offset_s(offset) if offset else 0
    if offset_s is None:
        return None
    return _in_range((seconds - offset_s) * SECOND_NS + fraction_ns(fraction))


def fraction_ns(digits: str | bytes | None) -> int:
    """Give the nanoseconds of the digits behind a decimal point; digits past the ninth are dropped."""
    if not digits:
        return 0
    kept = digits[:9]
    return int(kept) * int(10 ** (9 - len(kept)))


def parse_epoch(value: float | Decimal, unit_ns: int | None = None) -> int | None:
    """Give the nanoseconds of a number of seconds, ms, µs or ns since 1970; the unit is told by magnitude.

    Below 1e11 in size are seconds (to the year 5138), below 1e14 ms, below 1e17 µs, else ns. `unit_ns` fixes
    it.
    """
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        return None
    return _in_range(int(exact * (unit_ns or _unit_ns(exact))))


def parse_time(value: object, tz: tzinfo = UTC, unit_ns: int | None = None) -> int | None:
    """Give the nanoseconds of a time value out of JSON, None if it is not usable as one.

    Numbers and digit strings are epochs (`unit_ns` fixes their unit), other strings ISO, a pair of integers
    ``[seconds, nanoseconds]``.
    """
    if isinstance(value, str):
        if len(value) > 64:
            return None
        number = _NUMBER.fullmatch(value)
        if number and not _is_calendar(number[1]):
            return parse_epoch(Decimal(number[1]), unit_ns)
        return parse_iso(value, tz)
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _in_range(value * (unit_ns or _unit_ns(value)))
    if isinstance(value, float):
        return parse_epoch(value, unit_ns)
    return _parse_pair(value)


def year_before(
    month: int, day: int, time_of_day: tuple[int, int, int], latest_s: int, tz: tzinfo
) -> int | None:
    """Give the latest year that puts a year-less time at most a day after `latest_s` (a file's time)."""
    year = datetime.fromtimestamp(latest_s, tz).year + 1
    for candidate in range(year, year - 9, -1):  # eight years always hold a 29 February
        seconds = epoch_s(candidate, month, day, *time_of_day, tz)
        if seconds is not None and seconds <= latest_s + DAY_S:
            return candidate
    return None


@lru_cache(maxsize=65536)
def _utc_second(text: str) -> int | None:
    match = _ISO.fullmatch(text)
    if match is None or match[4] is None or match[8]:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 4, 5, 6))
    return epoch_s(year, month, day, hour, minute, second)


@lru_cache(maxsize=4096)
def _day_start_s(year: int, month: int, day: int) -> int | None:
    try:
        return (date(year, month, day).toordinal() - _EPOCH_DAY) * DAY_S
    except ValueError:
        return None


def _offset_s(text: str) -> int | None:
    """Give how far ahead of UTC an offset is, None for one that no clock has: RFC 3339 ends at 23:59."""
    match = _OFFSET.fullmatch(text)
    if match is None:  # Z, UTC, GMT
        return 0
    hours, minutes = int(match[2]), int(match[3] or 0)
    if hours > 23 or minutes > 59:
        return None
    seconds = hours * 3600 + minutes * 60
    return -seconds if match[1] == "-" else seconds


def _unit_ns(value: Decimal | int) -> int:
    size = abs(int(value))
    if size < 100_000_000_000:
        return SECOND_NS
    if size < 100_000_000_000_000:
        return 1_000_000
    return 1_000 if size < 100_000_000_000_000_000 else 1


def _is_calendar(digits: str) -> bool:
    """Whether a digit string is a bare year: no clock writes four-digit epochs as text."""
    return len(digits) == 4 and digits.isdigit()


def _parse_pair(value: object) -> int | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    seconds, nanos = value
    if type(seconds) is not int or type(nanos) is not int or not 0 <= nanos < SECOND_NS:
        return None
    return _in_range(seconds * SECOND_NS + nanos)


def _in_range(ns: int) -> int | None:
    return ns if MIN_NS <= ns <= MAX_NS else None
