"""Every vector that a store has, by key: so that a text which came before is not embedded again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .batch import KEY, Int32s, Keys, Vectors
from .part import VectorTable
from .vectors import find_keys, put_rows, widths_of

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

    24 bytes a key. A key that several sources hold is kept for one of them, until that one is dropped.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._sources: dict[int, VectorTable | Vectors] = {}
        self._number: dict[str, int] = {}
        self._n_named = 0
        # Of each source, which others the keys that it holds too are kept for.
        self._kept_for: dict[int, set[int]] = {}

    @property
    def dim(self) -> int | None:
        """Dimensions of the vectors, None while there are none."""
        return max((source.dim for source in self._sources.values()), default=0) or None

    def put(self, name: str, source: VectorTable | Vectors) -> None:
        """Add a source, or give a known one's new state: the same keys in the same rows, more vectors."""
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = self._n_named
            self._n_named += 1
        self._sources[number] = source
        self._keep(number, _held(source))

    def drop(self, names: Collection[str]) -> None:
        """Forget sources; a key that one of the others holds too is found there from now on."""
        gone = {self._number.pop(name) for name in names if name in self._number}
        if not gone:
            return
        lost = self._keys_kept_for(gone)
        self._runs = [_kept(run, ~np.isin(run.source, list(gone))) for run in self._runs]
        for number in gone:
            del self._sources[number], self._kept_for[number]
        for number, source in self._sources.items():
            if self._kept_for[number] & gone:
                self._kept_for[number] -= gone
                rows = _held(source)
                self._keep(number, rows[find_keys(lost, source.key[rows]) >= 0])

    def _keep(self, number: int, rows: Places) -> None:
        """Keep the keys at these rows of a source for it, but for those that another one has."""
        keys = self._sources[number].key[rows]
        run, place = self._find(keys)
        owners = {
            n for i, held in enumerate(self._runs) for n in np.unique(held.source[place[run == i]]).tolist()
        }
        self._kept_for[number] = self._kept_for.get(number, set()) | (owners - {number})
        if (run >= 0).all():
            return
        rows, keys = rows[run < 0], keys[run < 0]
        self._runs.append(_sorted_run(keys, np.full(len(rows), number), rows))
        # Sizes at least halve from run to run, so there are few runs and each key is moved log n times.
        while len(self._runs) > 1 and len(self._runs[-2].row) < 2 * len(self._runs[-1].row):
            self._runs[-2:] = [_merged(self._runs[-2], self._runs[-1])]

    def _keys_kept_for(self, numbers: set[int]) -> Keys:
        """Give the keys that are kept for these sources, in order."""
        kept = [_keys_of(run)[np.isin(run.source, list(numbers))] for run in self._runs]
        keys = np.concatenate([np.empty(0, KEY), *kept])
        return keys[np.lexsort((keys["lo"], keys["hi"]))]

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
        used = np.unique(source).tolist()
        dim, n_heads, n_qls = widths_of(self._sources[number] for number in used)
        gathered = Vectors.blank(keys, dim or self.dim or 0, n_heads=n_heads, n_qls=n_qls)
        for number in used:
            mine = np.flatnonzero(source == number)
            taken = _taken(self._sources[number], row[mine])
            for name in ("values", "step", "heads", "n_tokens", "head", "second", "qls", "exemplar"):
                put_rows(getattr(gathered, name), mine, getattr(taken, name))
        return gathered


def _held(source: VectorTable | Vectors) -> Places:
    """Give the rows of a source whose vector is there."""
    return np.flatnonzero(source.have) if isinstance(source, VectorTable) else np.arange(len(source))


def _taken(source: VectorTable | Vectors, rows: Int32s) -> Vectors:
    """Give the vectors at `rows` of a source."""
    if isinstance(source, Vectors):
        return source.take(rows.astype(np.intp))
    return Vectors(
        source.key[rows],
        source.values(rows),
        source.step(rows),
        source.heads[rows],
        source.n_tokens[rows],
        source.head[rows],
        source.second[rows],
        source.qls[rows],
        source.exemplar[rows],
    )


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
    source = np.concatenate([first.source, second.source])
    keys = np.concatenate([_keys_of(first), _keys_of(second)])
    return _sorted_run(keys, source, np.concatenate([first.row, second.row]))


def _keys_of(run: _Run) -> Keys:
    keys = np.empty(len(run.row), KEY)
    keys["hi"], keys["lo"] = run.high, run.low
    return keys


def _kept(run: _Run, mask: npt.NDArray[np.bool_]) -> _Run:
    return _Run(run.high[mask], run.low[mask], run.source[mask], run.row[mask])
