"""Times as written to exact int64 nanoseconds since 1970 UTC; ranges are half-open `[start, end)`."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from treering.storage.errors import QueryError

from .ast import Between, Last, Time

UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
"""Nanoseconds of each unit of a duration; a day is 24 hours."""

MAX_DURATION_CHARACTERS = 200
"""Length of a written duration; all that int64 can hold are far shorter."""

Range = tuple[int | None, int | None]
"""`[start, end)` in nanoseconds; None: open."""

_PIECE = re.compile(r"(\d+)(?:\.(\d+))?(ns|us|µs|ms|s|m|h|d|w)")
_DURATION = re.compile(rf"(?:{_PIECE.pattern})+")
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*(Z|z|[+-]\d\d(?::?\d\d)?)?)?"
)
_PLAIN = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt]\d\d(?::\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?"
)
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d))?")
_EPOCH = re.compile(r"([+-]?)(\d{1,30})(?:\.(\d{1,30}))?", re.ASCII)
_MIN_NS, _MAX_NS = -(2**63), 2**63 - 1
_START = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> int:
    """Give the nanoseconds of a duration such as `15m`, `1h30m` or `1.5s`. Raises QueryError."""
    if len(text) > MAX_DURATION_CHARACTERS or _DURATION.fullmatch(text) is None:
        raise QueryError(f"{text[:MAX_DURATION_CHARACTERS]!r} is no duration: write 15m, 1h30m, 7d or 500ms")
    total = 0
    for whole, part, unit in _PIECE.findall(text):
        total += int(whole + part) * UNITS_NS[unit] // 10 ** len(part)
    if not 0 < total <= _MAX_NS:
        raise QueryError(
            f"the duration {text} is {'too long' if total else 'nothing'}: write 15m, 1h30m or 7d"
        )
    return total


def parse_zone(text: str | None) -> tzinfo:
    """Give the zone of a name (`Asia/Shanghai`) or an offset (`+08:00`); None is UTC. Raises QueryError."""
    if text is None or text.upper() in ("UTC", "Z"):
        return UTC
    if (offset := _OFFSET.fullmatch(text)) is not None:
        return _offset(offset)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from difflib import get_close_matches

        near = get_close_matches(text, sorted(available_timezones()), 1, 0.5)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else "write a name such as Asia/Shanghai or an offset such as +08:00"
        )
        raise QueryError(f"no time zone {text!r}: {hint}") from None


def parse_time(text: str, zone: tzinfo, *, now_ns: int) -> int:
    """Give the nanoseconds of a time: RFC 3339, a date, an epoch number, `now`, `today` or `yesterday`.

    A time without offset is in `zone`. Epoch numbers are seconds, milliseconds, microseconds or nanoseconds
    by their size (below 1e11, 1e14, 1e17, and above). Raises QueryError.
    """
    word = text.strip().lower()
    if word in ("today", "yesterday"):
        return day_range(word, zone, now_ns=now_ns)[0]
    if word == "now":
        return now_ns
    if (found := _TIME.fullmatch(text.strip())) is not None:
        return _calendar(found, zone, text)
    if (epoch := _EPOCH.fullmatch(text.strip())) is not None:
        return _in_range(_epoch(*epoch.groups()), text)
    raise QueryError(f"{text!r} is no time: write 2026-05-01, 2026-05-01T06:00:00Z or an epoch number")


def is_time(text: str) -> bool:
    """Whether a text reads as a calendar time."""
    return _TIME.fullmatch(text.strip()) is not None


def is_plain_time(text: str) -> bool:
    """Whether a written time needs no quotes in a query."""
    if text in ("today", "yesterday"):
        return True
    return _PLAIN.fullmatch(text) is not None or _EPOCH.fullmatch(text) is not None


def epoch_ns(value: int | float) -> int:
    """Nanoseconds of an epoch number; its size tells its unit."""
    found = _EPOCH.fullmatch(repr(value))
    if found is None:
        raise QueryError(f"{value!r} is no time: write 2026-05-01T06:00:00Z or an epoch number")
    return _in_range(_epoch(*found.groups()), repr(value))


def parse_now(now: Any) -> int:
    """Give the nanoseconds of what pins the clock: None (the clock), ns, RFC 3339 text or a datetime."""
    if now is None:
        return time.time_ns()
    if isinstance(now, datetime):
        return _in_range(_from_datetime(now if now.tzinfo else now.replace(tzinfo=UTC)), str(now))
    if isinstance(now, str):
        return parse_time(now, UTC, now_ns=time.time_ns())
    if isinstance(now, int):
        return _in_range(now, str(now))
    raise QueryError(f"now is {now!r}: give RFC 3339 text, nanoseconds or a datetime")


def time_range(when: Time | None, zone: tzinfo, *, now_ns: int) -> Range:
    """Give the half-open range of a time clause. Raises QueryError for one that ends before it starts."""
    if when is None:
        return None, None
    if isinstance(when, Last):
        # It ends behind the newest event of a file, which may be the last time that there is.
        end = now_ns if now_ns <= _MAX_NS else None
        return max(now_ns - parse_duration(when.text), _MIN_NS), end
    if isinstance(when, Between):
        start = None if when.start is None else parse_time(when.start, zone, now_ns=now_ns)
        end = None if when.end is None else parse_time(when.end, zone, now_ns=now_ns)
        if start is not None and end is not None and end < start:
            raise QueryError(f"the time ends before it starts, {when.start} to {when.end}: swap them")
        return start, end
    return day_range(when.day, zone, now_ns=now_ns)


def day_range(day: str, zone: tzinfo, *, now_ns: int) -> tuple[int, int | None]:
    """Give a whole day of the zone, however long it is there: a date, `today` or `yesterday`.

    Of the first and the last day that int64 can hold: what there is of it; the last has no end. Raises QueryError.
    """
    word = day.strip().lower()
    if word in ("today", "yesterday"):
        local = (_START + timedelta(seconds=now_ns // 10**9)).astimezone(zone).date()
        first = local - timedelta(days=word == "yesterday")
    else:
        try:
            first = date.fromisoformat(day.strip())
        except ValueError:
            raise QueryError(
                f"{day!r} is no day: write a date such as 2026-05-01, today or yesterday"
            ) from None
    try:
        start, end = _midnight(first, zone), _midnight(first + timedelta(days=1), zone)
    except OverflowError:
        raise QueryError(f"{day} is beyond the times that nanoseconds can hold") from None
    if end <= _MIN_NS:
        _in_range(end, day)
    return _in_range(max(start, _MIN_NS), day), end if end <= _MAX_NS else None


def format_time(ns: int) -> str:
    """Spell a time as RFC 3339 in UTC, with as many digits as it has."""
    seconds, part = divmod(ns, 10**9)
    text = (_START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{part:09d}".rstrip("0") + "Z" if part else text + "Z"


def format_duration(ns: int) -> str:
    """Spell a duration in its two largest units."""
    words = []
    for unit in ("d", "h", "m", "s", "ms"):
        n, ns = divmod(ns, UNITS_NS[unit])
        if n:
            words.append(f"{n}{unit}")
    return "".join(words[:2]) or "0s"


def _midnight(day: date, zone: tzinfo) -> int:
    return _from_datetime(datetime(day.year, day.month, day.day, tzinfo=zone))


def _calendar(found: re.Match[str], zone: tzinfo, text: str) -> int:
    day, hour, minute, second, part, offset = found.groups()
    if offset:
        match = _OFFSET.fullmatch(offset)
        zone = UTC if match is None else _offset(match)
    try:
        moment = datetime.combine(date.fromisoformat(day), datetime.min.time(), zone)
        moment = moment.replace(hour=int(hour or 0), minute=int(minute or 0), second=int(second or 0))
    except ValueError as error:
        raise QueryError(f"{text!r} is no time: {error}") from None
    return _in_range(_from_datetime(moment) + int((part or "").ljust(9, "0")), text)


def _offset(found: re.Match[str]) -> timezone:
    sign, hours, minutes = found.groups()
    if int(hours) > 23 or int(minutes or 0) > 59:
        raise QueryError(f"no time zone {found[0]!r}: write an offset such as +08:00")
    shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-shift if sign == "-" else shift)


def _from_datetime(moment: datetime) -> int:
    """Exact nanoseconds; aware datetimes subtract in UTC, whatever their zone."""
    try:
        gap = moment.astimezone(UTC) - _START
    except OverflowError:
        raise QueryError(f"{moment} is beyond the times that nanoseconds can hold") from None
    return (gap.days * 86400 + gap.seconds) * 10**9 + gap.microseconds * 1000


def _epoch(sign: str, whole: str, part: str | None) -> int:
    unit = next((u for limit, u in ((11, "s"), (14, "ms"), (17, "us")) if int(whole) < 10**limit), "ns")
    part = part or ""
    ns: int = int(whole + part) * UNITS_NS[unit] // 10 ** len(part)
    return -ns if sign == "-" else ns


def _in_range(ns: int, text: str) -> int:
    if not _MIN_NS <= ns <= _MAX_NS:
        raise QueryError(f"{text} is beyond the times that nanoseconds can hold (1677 to 2262)")
    return ns
