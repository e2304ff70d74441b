"""Every vector that a store has, by key: so that a text which came before is not embedded again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .batch import KEY, Int32s, Keys, Vectors
from .part import VectorTable

Lookup = Callable[[Keys], tuple[npt.NDArray[np.bool_], Vectors]]
"""Gives which keys are known, bool (n), and the vectors of those in that order."""

UInt64s = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]


@dataclass(slots=True)
class _Run:
    """Keys in order, and where their vectors lie: `row` of `source`."""

    high: UInt64s
    low: UInt64s
    source: Int32s
    row: Int32s


class KnownVectors:
    """Keys and references to rows of sources; the vectors stay where they are, mapped or in memory.

    24 bytes a key. A key that several sources hold is kept for one of them: drop sources first, then put
    those that replace them.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._sources: dict[int, VectorTable | Vectors] = {}
        self._number: dict[str, int] = {}

    @property
    def dim(self) -> int | None:
        """Dimensions of the vectors, None while there are none."""
        widths = {source.exact.shape[1] for source in self._sources.values()} - {0}
        return max(widths, default=None)

    def put(self, name: str, source: VectorTable | Vectors) -> None:
        """Add a source, or give a known one's new state: the same keys in the same rows, more vectors."""
        number = self._number.setdefault(name, len(self._number))
        self._sources[number] = source
        rows = np.flatnonzero(source.have) if isinstance(source, VectorTable) else np.arange(len(source))
        run, _ = self._find(source.key[rows])
        rows = rows[run < 0]
        if not len(rows):
            return
        self._runs.append(_sorted_run(source.key[rows], np.full(len(rows), number), rows))
        # Sizes at least halve from run to run, so there are few runs and each key is moved log n times.
        while len(self._runs) > 1 and len(self._runs[-2].row) < 2 * len(self._runs[-1].row):
            self._runs[-2:] = [_merged(self._runs[-2], self._runs[-1])]

    def drop(self, names: Collection[str]) -> None:
        """Forget sources; a key that another source holds too may be forgotten with them."""
        gone = [self._number[name] for name in names if name in self._number]
        for number in gone:
            self._sources.pop(number, None)
        if gone:
            self._runs = [_kept(run, ~np.isin(run.source, gone)) for run in self._runs]

    def find(self, keys: Keys) -> tuple[npt.NDArray[np.bool_], Vectors]:
        """Give which keys are known, bool (n), and the vectors of those in that order."""
        run, place = self._find(keys)
        found = run >= 0
        source, row = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
        for index, held in enumerate(self._runs):
            mine = run == index
            source[mine], row[mine] = held.source[place[mine]], held.row[place[mine]]
        return found, self._gather(keys[found], source[found], row[found])

    def _find(self, keys: Keys) -> tuple[Int32s, Places]:
        run, place = np.full(len(keys), -1, np.int32), np.zeros(len(keys), np.intp)
        for index, held in enumerate(self._runs):
            todo = np.flatnonzero(run < 0)
            places = _places(held, keys[todo])
            hit = places >= 0
            run[todo[hit]], place[todo[hit]] = index, places[hit]
        return run, place

    def _gather(self, keys: Keys, source: Int32s, row: Int32s) -> Vectors:
        like = next(iter(self._sources.values()), None) if not len(source) else self._sources[int(source[0])]
        gathered = _blank(keys, like)
        for number in np.unique(source).tolist():
            mine = np.flatnonzero(source == number)
            held, rows = self._sources[number], row[mine]
            for name in ("exact", "heads", "n_tokens", "head", "second", "qls", "exemplar"):
                getattr(gathered, name)[mine] = getattr(held, name)[rows]
        return gathered


def _places(run: _Run, keys: Keys) -> Places:
    """Give the place of each key in a run, or -1."""
    high, low = np.ascontiguousarray(keys["hi"]), np.ascontiguousarray(keys["lo"])
    last = len(run.high) - 1
    if last < 0:
        return np.full(len(keys), -1, np.intp)
    places = np.searchsorted(run.high, high)
    while True:
        inside = np.minimum(places, last)
        same = (places <= last) & (run.high[inside] == high)
        # Keys with equal high halves lie side by side; there is hardly ever a second one.
        further = same & (run.low[inside] != low)
        if not further.any():
            return np.where(same, inside, -1)
        places = places + further


def _sorted_run(keys: Keys, source: npt.NDArray[np.integer], row: npt.NDArray[np.integer]) -> _Run:
    order = np.lexsort((keys["lo"], keys["hi"]))
    return _Run(
        np.ascontiguousarray(keys["hi"][order]),
        np.ascontiguousarray(keys["lo"][order]),
        source[order].astype(np.int32),
        row[order].astype(np.int32),
    )


def _merged(first: _Run, second: _Run) -> _Run:
    keys = np.empty(len(first.row) + len(second.row), KEY)
    keys["hi"] = np.concatenate([first.high, second.high])
    keys["lo"] = np.concatenate([first.low, second.low])
    source = np.concatenate([first.source, second.source])
    return _sorted_run(keys, source, np.concatenate([first.row, second.row]))


def _kept(run: _Run, mask: npt.NDArray[np.bool_]) -> _Run:
    return _Run(run.high[mask], run.low[mask], run.source[mask], run.row[mask])


def _blank(keys: Keys, like: VectorTable | Vectors | None) -> Vectors:
    n = len(keys)
    widths = (0, 0, 0) if like is None else (like.exact.shape[1], like.heads.shape[1], like.qls.shape[1])
    return Vectors(
        key=keys,
        exact=np.empty((n, widths[0]), np.float16),
        heads=np.empty((n, widths[1]), np.uint8),
        n_tokens=np.empty(n, np.uint16),
        head=np.empty(n, np.uint8),
        second=np.empty(n, np.uint8),
        qls=np.empty((n, widths[2]), np.int8),
    )
