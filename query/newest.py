"""Where `last` counts back from on raw files: their newest event, unless its clock was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treering.storage.part import Part

from .times import format_time

SKEW_NS = 3600 * 10**9
"""How far the clock of a log may be ahead of ours: an hour, as of a machine that missed the change to winter time."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The event to count back from. n_ahead: events that are later, and were not reckoned with for that."""

    ns: int
    n_ahead: int = 0

    def hint(self, now_ns: int) -> str | None:
        """Say that events were left out of the reckoning, where some were."""
        if not self.n_ahead:
            return None
        events = "1 event is" if self.n_ahead == 1 else f"{self.n_ahead:,} events are"
        return (
            f"{events} dated more than 1h after {format_time(now_ns)}: `last` counts back from "
            f"{format_time(self.ns)}, the newest of the others"
        )


def newest_event(parts: Sequence[Part], now_ns: int) -> Newest | None:
    """Give the newest event that is not more than SKEW_NS later than `now_ns`, the newest of all where all are.

    None where there is no event.
    """
    held, limit_ns = [part for part in parts if part.n_rows], now_ns + SKEW_NS
    in_time = [part for part in held if part.t_min <= limit_ns]
    if not in_time:
        return Newest(max(part.t_max for part in held)) if held else None
    times = [np.array([part.t_max]) if part.t_max <= limit_ns else part.ts for part in in_time]
    return Newest(
        max(int(ts[ts <= limit_ns].max()) for ts in times),
        sum(part.n_rows for part in held if part.t_min > limit_ns)
        + sum(int((ts > limit_ns).sum()) for ts in times),
    )
