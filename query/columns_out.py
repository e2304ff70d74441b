"""Rows of dicts into Arrow columns, a chunk at a time: one type stays, several become text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .compare import EXACT_FLOAT, INT64_MAX, INT64_MIN
from .field_values import as_text

Record = dict[str, Any]
TEXT = pa.string()


class Columns:
    """Collects chunks of rows. A name that a chunk lacks is null there."""

    def __init__(self) -> None:
        self._chunks: list[dict[str, pa.Array]] = []
        self._lengths: list[int] = []

    def add(self, rows: Sequence[Record]) -> None:
        """Take one chunk of rows."""
        names = dict.fromkeys(name for row in rows for name in row)
        self._chunks.append({name: column_of([row.get(name) for row in rows]) for name in names})
        self._lengths.append(len(rows))

    def table(self) -> pa.Table:
        """All rows so far, columns in order of first appearance."""
        names = dict.fromkeys(name for chunk in self._chunks for name in chunk)
        return pa.table({name: self._joined(name) for name in names})

    def _joined(self, name: str) -> pa.ChunkedArray:
        pieces = [chunk.get(name, pa.nulls(n)) for chunk, n in zip(self._chunks, self._lengths, strict=True)]
        types = {piece.type for piece in pieces} - {pa.null()}
        if not types:
            return pa.chunked_array(pieces)
        target = _common(types, pieces)
        return pa.chunked_array([_cast(piece, target) for piece in pieces], target)


def column_of(values: Sequence[Any]) -> pa.Array:
    """Values as an array: of their one type, numbers of both kinds as float64 where exact, else JSON text."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int, float} and _are_exact(values):
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if kinds == {int}:
        fits = all(v is None or INT64_MIN <= v <= INT64_MAX for v in values)
        return pa.array(values, pa.int64()) if fits else _as_texts(values)
    if len(kinds) <= 1 and kinds <= {bool, float, str}:
        return pa.array(values)
    if kinds == {list}:
        return _lists(values)
    return _as_texts(values)


def _lists(values: Sequence[Any]) -> pa.Array:
    """Lists of one plain type stay lists."""
    inner = {type(item) for value in values if value is not None for item in value} - {type(None)}
    if inner in ({str}, {float}, {bool}):
        return pa.array(values)
    if inner == {int} and all(INT64_MIN <= i <= INT64_MAX for v in values if v for i in v if i is not None):
        return pa.array(values, pa.list_(pa.int64()))
    return _as_texts(values)


def _as_texts(values: Sequence[Any]) -> pa.Array:
    return pa.array([as_text(value) for value in values], TEXT)


def _are_exact(values: Sequence[Any]) -> bool:
    return all(not isinstance(v, int) or abs(v) <= EXACT_FLOAT for v in values)


def _common(types: set[pa.DataType], pieces: Sequence[pa.Array]) -> pa.DataType:
    if len(types) == 1:
        return next(iter(types))
    if types == {pa.int64(), pa.float64()}:
        whole = [p for p in pieces if p.type == pa.int64() and p.null_count < len(p)]
        exact = all(np.abs(np.asarray(pc.drop_null(p), np.float64)).max() <= EXACT_FLOAT for p in whole)
        return pa.float64() if exact else TEXT
    return TEXT


def _cast(piece: pa.Array, target: pa.DataType) -> pa.Array:
    if piece.type == target:
        return piece
    if pa.types.is_null(piece.type):
        return pa.nulls(len(piece), target)
    return _as_texts(piece.to_pylist()) if target == TEXT else piece.cast(target)
