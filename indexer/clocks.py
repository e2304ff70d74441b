"""The clock of one text log: its times, as heads write them, in seconds since 1970 UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, tzinfo

from .times import epoch_s, parse_iso, year_before

Civil = tuple[int, int, int, int, int, int]

_MONTHS = {m: i + 1 for i, m in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())}
_DIGITS = re.compile(rb"\d+")


class Clock:
    """Reads the times of one file; remembers every second it has read, because lines repeat them.

    Parameters
    ----------
    tz : zone of times that name none.
    year : year of the first time that names none; a step from December to January goes to the next.
    latest_s : the file's own time, seconds since 1970: without `year`, year-less times are put in the latest
    year
        that leaves them at most a day after it.
    """

    def __init__(self, tz: tzinfo = UTC, *, year: int | None = None, latest_s: int) -> None:
        self._tz = tz
        self._year = year
        self._latest_s = latest_s
        self._month = 0
        self._seen: dict[str, dict[bytes, int | None]] = {kind: {} for kind in (*_READERS, "bgl")}
        self.assumed_zone = False
        self.assumed_years: set[int] = set()

    def seen(self, kind: str) -> dict[bytes, int | None]:
        """Give what has been read of one kind of time, by text; shared, so that hot loops look first."""
        return self._seen[kind]

    def seconds(self, kind: str, text: bytes, zone: bytes | None = None) -> int | None:
        """Give the seconds since 1970 UTC of a time as written, None where it is no time."""
        key = text + zone if zone else text
        seen = self._seen[kind]
        if key not in seen:
            if len(seen) > 100_000:  # bounds memory on logs that span days
                seen.clear()
            seen[key] = self._read(kind, text, zone)
        return seen[key]

    def _read(self, kind: str, text: bytes, zone: bytes | None) -> int | None:
        if kind == "bgl":
            return int(text)
        civil = _READERS[kind](text)
        if civil is None:
            return None
        year, month, day, *clock = civil
        if year == 0:
            found = self._year_of(month, day, (clock[0], clock[1], clock[2]))
            if found is None:
                return None
            year = found
            self.assumed_years.add(year)
        if zone:
            return _with_zone((year, month, day, *clock), zone)  # type: ignore[arg-type]
        self.assumed_zone = True
        return epoch_s(year, month, day, clock[0], clock[1], clock[2], self._tz)

    def _year_of(self, month: int, day: int, clock: tuple[int, int, int]) -> int | None:
        if self._year is None:
            return year_before(month, day, clock, self._latest_s, self._tz)
        step = {(12, 1): 1, (1, 12): -1}.get((self._month, month), 0)
        self._year, self._month = self._year + step, month
        return self._year


def _with_zone(civil: Civil, zone: bytes) -> int | None:
    year, month, day, hour, minute, second = civil
    text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone.strip().decode()}"
    ns = parse_iso(text)
    return None if ns is None else ns // 1_000_000_000


def _numbers(text: bytes) -> list[int]:
    return [int(n) for n in _DIGITS.findall(text)]


def _iso(text: bytes) -> Civil | None:
    year, month, day, hour, minute, second = _numbers(text)
    return (year if year > 99 else 2000 + year, month, day, hour, minute, second)


def _month_day(text: bytes) -> Civil | None:
    month, day, hour, minute, second = _numbers(text)
    return (0, month, day, hour, minute, second)


def _glog(text: bytes) -> Civil | None:
    """``0622 22:54:17``, or ``610 06:17:01`` as torch writes June 10."""
    date, hour, minute, second = text[: text.index(b" ")], *_numbers(text[text.index(b" ") :])
    return (0, int(date[:-2]), int(date[-2:]), hour, minute, second)


def _hdfs(text: bytes) -> Civil | None:
    d, t = text.split()
    return (2000 + int(d[:2]), int(d[2:4]), int(d[4:]), int(t[:2]), int(t[2:4]), int(t[4:]))


def _syslog(text: bytes) -> Civil | None:
    month = _MONTHS.get(text[:3])
    day, hour, minute, second = _numbers(text)
    return (0, month, day, hour, minute, second) if month else None


def _clf(text: bytes) -> Civil | None:
    month = _MONTHS.get(text[3:6])
    day, year, hour, minute, second = _numbers(text)
    return (year, month, day, hour, minute, second) if month else None


_READERS: dict[str, Callable[[bytes], Civil | None]] = {
    "iso": _iso,
    "month_day": _month_day,
    "glog": _glog,
    "hdfs": _hdfs,
    "syslog": _syslog,
    "clf": _clf,
}
