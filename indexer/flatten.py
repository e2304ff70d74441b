"""JSON objects as typed columns: one column for each path and type, nothing coerced and nothing dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson
import pyarrow as pa

from treering.storage.residual import MAX_ORIGINAL, RESIDUAL, Cells, column_of, pack_cells, rarest
from treering.storage.schema import PATH_TYPES

from .blobs import mark_blobs

MAX_DEPTH = 64
"""Nesting below which an object is kept as JSON text under its path: such depths are data, not fields."""

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_EXACT_FLOAT = 1 << 53
_MARKED_LENGTH = 64  # no payload is shorter


class BigInt(str):
    """An integer of more digits than Python converts, as its decimal text."""

    __slots__ = ()


class Flattener:
    """Collects records row by row and gives their columns, `path#type` by name, missing values null.

    Keys with dots and nested objects give the same path. Where one record holds both spellings of a path, the
    key with the dot wins. An array is a list column, an array of objects gives a list at each path of its
    members (in order, without indexes), nested arrays one flat list; a list that mixes types is a list of
    JSON texts. Base64 payloads in texts become markers.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[list[int], list[Any]]] = {}
        self._dotted: list[tuple[str, Any]] = []

    def add(self, row: int, record: Mapping[str, Any]) -> None:
        """Add the fields of one record; rows come in ascending order."""
        self._walk(record, "", row, 0)
        if self._dotted:
            for path, value in self._dotted:
                for name, leaf in _leaves(path, value, 0):
                    self._overwrite(name, row, leaf)
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
            for name, leaf in _leaves(path, value, depth):
                self._put(name, row, leaf)

    def _put(self, name: str, row: int, value: Any) -> None:
        column = self._columns.get(name)
        if column is None:
            self._columns[name] = ([row], [value])
            return
        column[0].append(row)
        column[1].append(value)

    def _overwrite(self, name: str, row: int, value: Any) -> None:
        path = _path(name)
        for code in PATH_TYPES:
            column = self._columns.get(f"{path}#{code}")
            if column and column[0] and column[0][-1] == row:
                column[0].pop()
                column[1].pop()
        self._put(name, row, value)


def _leaves(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Give the columns and values that one field becomes."""
    kind = type(value)
    if kind is str:
        yield path + "#s", mark_blobs(value) if len(value) >= _MARKED_LENGTH else value
    elif kind is bool:
        yield path + "#b", value
    elif kind is int:
        yield (path + "#i", value) if _INT_MIN <= value <= _INT_MAX else (path + "#z", str(value))
    elif kind is float:
        yield path + "#f", value
    elif kind is BigInt:
        yield path + "#z", str(value)
    elif kind is dict:
        yield from _object_leaves(path, value, depth)
    elif kind is list:
        yield from _list_leaves(path, value, depth)


def _object_leaves(path: str, value: dict[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
    if not value:
        yield path + "#o", True
    elif depth >= MAX_DEPTH:
        yield path + "#s", _json_text(value)
    else:
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item, depth + 1)


def _list_leaves(path: str, items: list[Any], depth: int) -> Iterator[tuple[str, Any]]:
    found: dict[str, list[Any]] = {} if items else {path: []}
    _gather(path, items, found, depth)
    for name, values in found.items():
        code = _list_code(values)
        if code:
            yield f"{name}#[{code}]", _typed(values, code)


def _gather(path: str, items: list[Any], found: dict[str, list[Any]], depth: int) -> None:
    for item in items:
        kind = type(item)
        if kind not in (dict, list):
            found.setdefault(path, []).append(item)
        elif depth >= MAX_DEPTH:
            found.setdefault(path, []).append(_json_text(item))
        elif kind is list:
            _gather(path, item, found, depth + 1)
        else:
            for key, value in item.items():
                _gather(f"{path}.{key}", [value], found, depth + 1)


def _list_code(values: list[Any]) -> str:
    """Give the type code of a list's members: one of `s b i z f`, "" where there is nothing but null."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return "" if values else "s"
    if kinds == {str}:
        return "s"
    if kinds == {bool}:
        return "b"
    if kinds <= {int, BigInt}:
        small = BigInt not in kinds and all(v is None or _INT_MIN <= v <= _INT_MAX for v in values)
        return "i" if small else "z"
    if kinds <= {int, float} and all(type(v) is not int or abs(v) <= _EXACT_FLOAT for v in values):
        return "f"
    return "s"


def _typed(values: list[Any], code: str) -> list[Any]:
    if code == "s":
        return [v if v is None else mark_blobs(v) if type(v) is str else _json_text(v) for v in values]
    if code == "z":
        return [None if v is None else str(v) for v in values]
    return [None if v is None else float(v) for v in values] if code == "f" else values


def _json_text(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, RecursionError):  # an integer past 64 bits, or deeper than the encoder goes
        return str(value)


def _path(name: str) -> str:
    return name.rpartition("#")[0]
