"""Node summaries from the rows of a node, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def number_summary(values: Sequence[float | None]) -> tuple[float, float, float, int]:
    """Minimum, maximum, total and count; None and NaN left out, NaN where nothing is left."""
    present = [float(v) for v in values if v is not None and not math.isnan(v)]
    if not present:
        return math.nan, math.nan, math.nan, 0
    with np.errstate(invalid="ignore"):
        return min(present), max(present), float(np.sum(present)), len(present)


def rows_between(ts: npt.NDArray[np.int64], start_ns: int, end_ns: int) -> npt.NDArray[Any]:
    """Rows with start <= ts < end."""
    return np.array([row for row, t in enumerate(ts.tolist()) if start_ns <= t < end_ns], np.int64)


def level_counts(levels: Sequence[int | None]) -> list[int]:
    """Rows by severity, 0 for none."""
    counts = [0] * 7
    for level in levels:
        counts[level or 0] += 1
    return counts
