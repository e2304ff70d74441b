"""Time in equal spans, exact up to the first and the last nanosecond that int64 can hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from treering.indexer.times import MIN_NS
from treering.storage.batch import Int64s

from .bound import BoundQuery
from .times import parse_zone

_WRAP = 1 << 64


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of equal width in ns: bucket i is `[origin + i * width, origin + (i + 1) * width)`.

    shift: how far the bounds are from whole multiples of the width. The first bucket may begin, and the last one
    end, where int64 cannot reach; the times in them are all in reach.
    """

    first: int
    width: int
    shift: int
    count: int

    @property
    def origin(self) -> int:
        """Where the first bucket begins."""
        return self.first * self.width - self.shift

    def numbers(self, ts_ns: Int64s) -> Int64s:
        """Give the bucket of each time, of times that are in one."""
        # (ts + shift) // width by the parts of both, as the sum may not fit.
        whole_shift, rest_shift = divmod(self.shift, self.width)
        whole, rest = np.divmod(ts_ns, np.int64(self.width))
        return whole - np.int64(self.first - whole_shift) + (rest >= self.width - rest_shift)

    def starts(self) -> Int64s:
        """Give where each bucket begins, the first at the first time there is if it begins before that."""
        places = np.arange(self.count, dtype=np.uint64) * np.uint64(self.width)
        # A start that fits comes out right however often the steps to it went around.
        starts = (places + np.uint64(self.origin % _WRAP)).view(np.int64)
        if self.count and self.origin < MIN_NS:
            starts[0] = MIN_NS
        return starts


def buckets_of(ts_ns: Int64s, query: BoundQuery) -> Buckets:
    """Give the buckets of the asked range; where it is open, from or to the times there are."""
    width = query.every_ns or 1
    first = query.start_ns if query.start_ns is not None else (int(ts_ns.min()) if len(ts_ns) else None)
    last = query.end_ns - 1 if query.end_ns is not None else (int(ts_ns.max()) if len(ts_ns) else None)
    if first is None or last is None or last < first:
        return Buckets(0, width, 0, 0)
    shift = zone_offset_ns(query.tz, first)
    number = (first + shift) // width
    return Buckets(number, width, shift, (last + shift) // width - number + 1)


def zone_offset_ns(zone: str, ts_ns: int) -> int:
    """How far a zone's clocks are ahead of UTC at a time."""
    offset = datetime.fromtimestamp(ts_ns // 10**9, UTC).astimezone(parse_zone(zone)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds()) * 10**9
