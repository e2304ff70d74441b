"""The columns of a merged part, made one after the other: in memory are the result and the sources of one column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from .columns import SYSTEM_HOT, Rows
from .joining import Distinct, join_pieces
from .part import Part
from .residual import RESIDUAL, Cells, cells_of, column_of, pack_cells, rare_fields, unpack_cells
from .rows import Rows as StoredRows
from .schema import PATH_TYPES, split_physical

LONGEST = ("record", "body", "prompt", "response", "context")
"""Columns that take most bytes: they come first, while little else is in memory."""


def merge_columns(
    parts: Sequence[Part], order: Rows | None, *, going: Callable[[], None] = lambda: None
) -> dict[str, pa.Array]:
    """Put the columns of parts one after the other, then in `order` (None: as they are).

    As `join_columns`: columns without any value are left out, equal ones become the same object, and the
    rarest original fields beyond MAX_ORIGINAL are in the column RESIDUAL. going: called before each column;
    what it raises ends the merge. Raises StoreError where two parts give a column different types.
    """
    columns = [_PartColumns(part) for part in parts]
    rare = rare_fields(_count_originals(parts))
    merged: dict[str, pa.Array] = {}
    seen: dict[tuple[str | None, ...], pa.Array] = {}
    distinct = Distinct()
    for name in sorted({name for one in columns for name in one.names} - rare, key=_precedence):
        owners = tuple(one.owner(name) for one in columns)
        if owners not in seen:
            going()
            seen[owners] = distinct.same(_take(_join(name, columns), order))
        if seen[owners].null_count < len(seen[owners]) or name in SYSTEM_HOT:
            merged[name] = seen[owners]
    residual = _join_rare(rare, columns)
    if residual is not None:
        merged[RESIDUAL] = _take(residual, order)
    return merged


class _PartColumns:
    """The columns of a part, each read when it is asked for."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._owners: Mapping[str, str] = part.owners() if isinstance(part, StoredRows) else {}
        residual = part.residual() if isinstance(part, StoredRows) else None
        self._cells: Cells = {} if residual is None else unpack_cells(residual)
        self.n_rows = part.n_rows
        self.names = frozenset((*SYSTEM_HOT, *part.fields))

    def owner(self, name: str) -> str | None:
        """Name the column that holds these values; None: there are none."""
        return self._owners.get(name, name) if name in self.names else None

    def read(self, name: str) -> pa.Array | None:
        """Give a column, texts as they are coded; None where there is none."""
        owner = self.owner(name)
        if owner is None:
            return None
        if name in self._cells:
            return column_of(self._cells, name, self.n_rows)
        return self._part.raw(owner) if isinstance(self._part, StoredRows) else self._part.column(owner)

    def cells(self, name: str) -> tuple[list[int], list[object]]:
        """Give the rows that have a value, and the values."""
        if name in self._cells:
            return self._cells[name]
        array = self.read(name)
        return ([], []) if array is None else cells_of({name: array})[name]


def _join(name: str, columns: Sequence[_PartColumns]) -> pa.Array:
    return join_pieces(name, [one.read(name) for one in columns], [one.n_rows for one in columns])


def _join_rare(rare: set[str], columns: Sequence[_PartColumns]) -> pa.Array | None:
    moved: Cells = {}
    start = 0
    for one in columns:
        for name in sorted(rare & one.names):
            rows, values = one.cells(name)
            places, held = moved.setdefault(name, ([], []))
            places += [start + row for row in rows]
            held += values
        start += one.n_rows
    return pack_cells(moved, start) if moved else None


def _count_originals(parts: Sequence[Part]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update({n: stats.n for n, stats in part.fields.items() if split_physical(n)[1] in PATH_TYPES})
    return +counts


def _take(array: pa.Array, order: Rows | None) -> pa.Array:
    return array if order is None else array.take(pa.array(np.asarray(order, np.int64)))


def _precedence(name: str) -> tuple[bool, int, str]:
    return name not in LONGEST, LONGEST.index(name) if name in LONGEST else 0, name
