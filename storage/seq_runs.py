"""Sequence numbers of many events as runs, so that none of a store's numbers need be kept one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .batch import Int64s

Ranges = tuple[tuple[int, int], ...]
"""Ranges `[first, end)`, ascending, none of which touches the next."""


def runs_of(seq: Int64s) -> Int64s:
    """Give distinct numbers as ranges `[first, end)`, int64 (k, 2), ascending."""
    ordered = np.unique(seq)
    if not len(ordered):
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    first = ordered[np.concatenate([[0], breaks + 1])]
    last = ordered[np.concatenate([breaks, [len(ordered) - 1]])]
    return np.stack([first, last + 1], axis=1)


def ranges_of(seq: Int64s) -> Ranges:
    """Give distinct numbers as ranges."""
    return tuple((int(first), int(end)) for first, end in runs_of(seq))


@dataclass(slots=True)
class SeqRuns:
    """The numbers of several holders; `overlaps` finds those that two of them have."""

    _names: list[str] = field(default_factory=list)
    _runs: list[Int64s] = field(default_factory=list)

    def add(self, name: str, seq: Int64s) -> None:
        """Take the numbers of one holder."""
        self._names.append(name)
        self._runs.append(runs_of(seq))

    def overlaps(self) -> Iterator[tuple[str, str, int, int]]:
        """Give, for each pair of holders that lie over each other, their names and the first range that both have."""
        if not self._runs:
            return
        owner = np.concatenate([np.full(len(runs), i) for i, runs in enumerate(self._runs)])
        runs = np.concatenate(self._runs)
        order = np.lexsort((runs[:, 1], runs[:, 0]))
        told: set[tuple[int, int]] = set()
        furthest, last = -1, -1
        for place in order.tolist():
            first, end = int(runs[place, 0]), int(runs[place, 1])
            pair = (last, int(owner[place]))
            if first < furthest and pair not in told:
                told.add(pair)
                yield self._names[pair[0]], self._names[pair[1]], first, min(end, furthest)
            if end > furthest:
                furthest, last = end, int(owner[place])
