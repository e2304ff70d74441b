"""JSON objects as typed columns: one column for each path and type, nothing coerced and nothing dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from treering.storage.residual import MAX_ORIGINAL, RESIDUAL, Cells, column_of, pack_cells, rarest

from .blobs import mark_blobs
from .whole_numbers import BigInt, digits_of, json_text

MAX_DEPTH = 64
"""Nesting below which an object is kept as JSON text under its path: such depths are data, not fields."""

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_EXACT_FLOAT = 1 << 53
_MARKED_LENGTH = 64  # no payload is shorter
_SCALARS = frozenset("ifbsz")
_LISTS = (
    (frozenset((int, BigInt)), "i"),
    (frozenset((float,)), "f"),
    (frozenset((bool,)), "b"),
    (frozenset((str,)), "s"),
)

Columns = dict[str, Any]
"""What one field of a record becomes: values by type code, lists among them of one length."""


class Flattener:
    """Collects records row by row and gives their columns, `path#type` by name, missing values null.

    Keys with dots and nested objects give the same path. Where one record holds both spellings of a path, the
    key with the dot is its value, and the other stands beside it as a list. An array is a list column, an array
    of objects gives a list at each path of its members (in order, without indexes), nested arrays one flat list.
    A list that mixes types gives a list for each of them, null at the places of the others. Base64 payloads in
    texts become markers.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[list[int], list[Any]]] = {}
        self._names: dict[str, list[str]] = {}
        self._dotted: list[tuple[str, Any]] = []

    def add(self, row: int, record: Mapping[str, Any]) -> None:
        """Add the fields of one record; rows come in ascending order."""
        self._walk(record, "", row, 0)
        if self._dotted:
            for path, value in self._dotted:
                for inner, found in _leaves(path, value, 0):
                    self._put_before(inner, row, found)
            self._dotted.clear()

    def cells(self) -> Cells:
        """Give the values by column, in the order in which the columns were first seen."""
        return {name: column for name, column in self._columns.items() if column[0]}

    def arrays(self, n_rows: int, *, keep: Collection[str] | None = None) -> dict[str, pa.Array]:
        """Give the columns, each of `n_rows` values.

        keep: if given, only the MAX_ORIGINAL commonest columns and those of these paths are laid out over all
        rows; the others, be there ever so many, are together in the column RESIDUAL.
        """
        cells = self.cells()
        rare = set() if keep is None else rarest({n: len(c[0]) for n, c in cells.items()}, most=MAX_ORIGINAL)
        aside = {
            name: column for name, column in cells.items() if name in rare and _path(name) not in (keep or ())
        }
        columns = {name: column_of(cells, name, n_rows) for name in cells if name not in aside}
        return {**columns, RESIDUAL: pack_cells(aside, n_rows)} if aside else columns

    def _walk(self, record: Mapping[str, Any], prefix: str, row: int, depth: int) -> None:
        for key, value in record.items():
            if value is None:
                continue
            if "." in key:
                self._dotted.append((prefix + key, value))
                continue
            path = prefix + key
            if type(value) is dict and value and depth < MAX_DEPTH:
                self._walk(value, path + ".", row, depth + 1)
                continue
            for inner, found in _leaves(path, value, depth):
                self._put(inner, row, found)

    def _put(self, path: str, row: int, found: Columns) -> None:
        for code, value in found.items():
            name = f"{path}#{code}"
            column = self._columns.get(name)
            if column is None:
                self._columns[name] = ([row], [value])
                self._names.setdefault(path, []).append(name)
            else:
                column[0].append(row)
                column[1].append(value)

    def _put_before(self, path: str, row: int, found: Columns) -> None:
        """Put the value of a path, and what the row has there already beside it."""
        held = {}
        for name in self._names.get(path, ()):
            rows, values = self._columns[name]
            if rows and rows[-1] == row:
                rows.pop()
                held[name[len(path) + 1 :]] = values.pop()
        self._put(path, row, beside(found, held) if held else found)


def beside(value: Columns, other: Columns) -> Columns:
    """Give the columns of a path that a record holds twice: one is its value, the other more elements of a list.

    So comparisons find both, as they find any element. An empty object is no element.
    """
    if value == other:
        return value
    lists = {code: items for code, items in value.items() if code.startswith("[")}
    pieces = [lists] if lists else []
    pieces += [
        {f"[{code}]": [item]} for code, item in other.items() if code not in lists and code in _SCALARS
    ]
    pieces.append({code: items for code, items in other.items() if code.startswith("[")})
    found = {code: item for code, item in value.items() if code not in lists}
    for code in dict.fromkeys(code for piece in pieces for code in piece):
        found[code] = [item for piece in pieces for item in piece.get(code, [None] * _length(piece))]
    return found


def _length(lists: Columns) -> int:
    return len(next(iter(lists.values()), ()))


def _leaves(path: str, value: Any, depth: int) -> Iterator[tuple[str, Columns]]:
    """Give the paths and columns that one field becomes."""
    kind = type(value)
    if kind is str:
        yield path, {"s": mark_blobs(value) if len(value) >= _MARKED_LENGTH else value}
    elif kind is bool:
        yield path, {"b": value}
    elif kind is int:
        yield path, {"i": value} if _INT_MIN <= value <= _INT_MAX else {"z": digits_of(value)}
    elif kind is float:
        yield path, {"f": value}
    elif kind is BigInt:
        yield path, {"z": str(value)}
    elif kind is dict:
        yield from _object_leaves(path, value, depth)
    elif kind is list:
        yield from _list_leaves(path, value, depth)


def _object_leaves(path: str, value: dict[str, Any], depth: int) -> Iterator[tuple[str, Columns]]:
    if not value:
        yield path, {"o": True}
    elif depth >= MAX_DEPTH:
        yield path, {"s": json_text(value)}
    else:
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item, depth + 1)


def _list_leaves(path: str, items: list[Any], depth: int) -> Iterator[tuple[str, Columns]]:
    found: dict[str, list[Any]] = {} if items else {path: []}
    _gather(path, items, found, depth)
    for inner, values in found.items():
        if columns := _typed_lists(values):
            yield inner, columns


def _gather(path: str, items: list[Any], found: dict[str, list[Any]], depth: int) -> None:
    for item in items:
        kind = type(item)
        if kind not in (dict, list):
            found.setdefault(path, []).append(item)
        elif depth >= MAX_DEPTH:
            found.setdefault(path, []).append(json_text(item))
        elif kind is list:
            _gather(path, item, found, depth + 1)
        else:
            for key, value in item.items():
                _gather(f"{path}.{key}", [value], found, depth + 1)


def _typed_lists(values: list[Any]) -> Columns:
    """Give a list for each type of the members, null at the places of the others; none where all are null.

    Whole and fractional numbers are one type where float64 holds them all. The empty list is one of texts.
    """
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return {} if values else {"[s]": []}
    if kinds == {int, float} and all(type(v) is not int or abs(v) <= _EXACT_FLOAT for v in values):
        return {"[f]": [None if v is None else float(v) for v in values]}
    found: Columns = {}
    for of_kind, code in _LISTS:
        if kinds & of_kind:
            mine = values if kinds <= of_kind else [v if type(v) in of_kind else None for v in values]
            found |= _whole_list(mine) if code == "i" else {f"[{code}]": mine}
    if "[s]" in found:
        found["[s]"] = [None if v is None else mark_blobs(v) for v in found["[s]"]]
    return found


def _whole_list(values: list[int | BigInt | None]) -> Columns:
    if all(v is None or (not isinstance(v, BigInt) and _INT_MIN <= v <= _INT_MAX) for v in values):
        return {"[i]": values}
    return {"[z]": [None if v is None else digits_of(v) if type(v) is int else str(v) for v in values]}


def _path(name: str) -> str:
    return name.rpartition("#")[0]
