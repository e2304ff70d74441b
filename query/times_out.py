"""Times as text on the way out: RFC 3339 that keeps every nanosecond."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

import numpy as np
import numpy.typing as npt

from treering.indexer.times import MAX_NS, MIN_NS

from .times import parse_zone

Int64s = npt.NDArray[np.int64]

WHOLE = ".000000000"
"""Fraction of a whole second."""


def format_times(ts_ns: Int64s, zone: str) -> list[str]:
    """RFC 3339 in UTC (`Z`) or with the zone's offset; whole seconds as such, others with nine digits."""
    tz = parse_zone(zone)
    if tz is UTC:
        return [text + "Z" for text in _digits(ts_ns)]
    # Offsets change on whole minutes, so each minute is looked up once.
    minutes, at = np.unique(ts_ns // (60 * 10**9), return_inverse=True)
    offsets = np.array([_offset_minutes(int(m), tz) for m in minutes], np.int64)[at]
    local = _shifted(ts_ns, offsets * 60)
    return [text + _suffix(offset) for text, offset in zip(local, offsets.tolist(), strict=True)]


def format_time(ts_ns: int, zone: str) -> str:
    """One time (see `format_times`)."""
    return format_times(np.array([ts_ns], np.int64), zone)[0]


def _digits(ts_ns: Int64s) -> list[str]:
    texts: list[str] = np.datetime_as_string(ts_ns.astype("M8[ns]"), unit="ns").tolist()
    return [text.removesuffix(WHOLE) for text in texts]


def _shifted(ts_ns: Int64s, shift_s: Int64s) -> list[str]:
    """The digits of times so much later, although these may be later than any that int64 can hold."""
    reach = np.abs(shift_s).max(initial=0) * 10**9
    if not len(ts_ns) or (ts_ns.min() >= MIN_NS + reach and ts_ns.max() <= MAX_NS - reach):
        return _digits(ts_ns + shift_s * 10**9)
    seconds, rest = np.divmod(ts_ns, 10**9)
    texts = np.datetime_as_string((seconds + shift_s).astype("M8[s]")).tolist()
    return [f"{text}.{part:09d}".removesuffix(WHOLE) for text, part in zip(texts, rest.tolist(), strict=True)]


def _offset_minutes(minute: int, tz: tzinfo) -> int:
    offset = datetime.fromtimestamp(minute * 60, UTC).astimezone(tz).utcoffset()
    return 0 if offset is None else int(offset.total_seconds()) // 60


def _suffix(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"
