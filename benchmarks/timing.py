"""How a figure is taken: a warm-up, then several runs, the median shown beside the minimum."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall seconds of several runs."""

    median_s: float
    min_s: float
    runs: int

    def ms(self) -> str:
        """Median and minimum in milliseconds, for a table cell."""
        return f"{self.median_s * 1e3:.3g} ({self.min_s * 1e3:.3g})"


def time_each(work: Callable[[Any], Any], inputs: Sequence[Any], *, budget_s: float = 3.0) -> Timing:
    """Time `work` on each input in turn after one untimed pass over the first, at least once.

    budget_s: about how long at most.
    """
    work(inputs[0])
    taken: list[float] = []
    began = time.perf_counter()
    while not taken or time.perf_counter() - began < budget_s:
        for one in inputs:
            start = time.perf_counter()
            work(one)
            taken.append(time.perf_counter() - start)
            if time.perf_counter() - began > budget_s:
                break
        if len(taken) >= 3 * len(inputs):
            break
    return Timing(statistics.median(taken), min(taken), len(taken))


def time_once(work: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of one run, and what it gave."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
