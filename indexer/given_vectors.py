"""Vectors that come with the events: a column of a table, checked, made unit length, equal ones once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.batch import KEY, Keys, TextParts, Vectors
from treering.storage.errors import InputError
from treering.storage.fixed_point import Float32s, Int16s, quantise

VECTOR_COLUMN = "vector"
"""A column of this name that holds lists of numbers is taken as the events' embedding."""

_CHECK_ROWS = 1 << 14
_UNIT_ROWS = 1 << 12
_LEAST = 1e-140
_HASH_SEED = 20_260_501
"""Fixed for ever: the coefficients of the key of a given vector are drawn from it."""

Rows = npt.NDArray[np.intp]
Floats = npt.NDArray[np.floating[Any]]


def vector_column(table: pa.Table, asked: str | None) -> str | None:
    """Give the name of the column that holds the events' vectors, None where there is none.

    asked: the name as the user says it. Raises InputError where that is no column of lists of numbers.
    """
    name = asked or VECTOR_COLUMN
    if name not in table.column_names:
        if asked:
            raise InputError(f"the table has no column {name!r} to take vectors from")
        return None
    column = table.column(name)
    if _holds_numbers(column.type):
        return name if column.null_count < len(column) else None
    if asked and not pa.types.is_null(column.type):
        raise InputError(
            f"column {name!r} is {column.type}, expected lists of numbers, one as long as the other"
        )
    return None


def check_vectors(name: str, column: pa.ChunkedArray, first_row: int = 0) -> None:
    """Raise InputError, naming the row (counted from 0), unless all vectors are usable and of one length.

    first_row: position of the column's first row.
    """
    start, dim = first_row, 0
    for piece in _pieces(column):
        rows, lengths = _lengths(piece)
        dim = dim or int(lengths[:1].sum())
        odd = np.flatnonzero((lengths != dim) | (lengths == 0))
        if len(odd):
            raise InputError(
                f"column {name!r}, row {start + int(rows[odd[0]])}: a vector of {lengths[odd[0]]} dimensions, "
                f"expected {dim or 'at least 1'}"
            )
        norms = _norms(_matrix(piece))
        bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
        if len(bad):
            raise InputError(
                f"column {name!r}, row {start + int(rows[bad[0]])}: a vector that is NaN, infinite or of zero "
                "length has no direction; leave it out (null) or mend it"
            )
        start += len(piece)


def given_vectors(column: pa.ChunkedArray) -> tuple[Vectors, TextParts]:
    """Give the distinct vectors of a checked column, and the part that each row with a vector has."""
    piece = pa.concat_arrays(column.chunks)
    rows, _ = _lengths(piece)
    values, step = _unit(_matrix(piece))
    keys, first, inverse = _content_keys(values, step)
    n_rows = len(rows)
    vectors = replace(Vectors.blank(keys, values.shape[1]), values=values[first], step=step[first])
    parts = TextParts(
        rows.astype(np.int32),
        np.zeros(n_rows, np.uint8),
        np.zeros(n_rows, np.int16),
        keys[inverse],
        np.ones(n_rows, np.bool_),
    )
    return vectors, parts


def _holds_numbers(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)))


def _pieces(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in column.chunks:
        for start in range(0, len(chunk), _CHECK_ROWS):
            yield chunk.slice(start, _CHECK_ROWS)


def _lengths(piece: pa.Array) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Give the rows that have a vector, and the dimensions of each."""
    rows = np.flatnonzero(np.asarray(piece.is_valid()))
    if pa.types.is_fixed_size_list(piece.type):
        return rows, np.full(len(rows), piece.type.list_size, np.int64)
    return rows, np.asarray(pc.list_value_length(piece.drop_null())).astype(np.int64)


def _matrix(piece: pa.Array) -> Floats:
    """Give the vectors of the rows that have one; missing numbers are NaN."""
    rows = int(np.count_nonzero(np.asarray(piece.is_valid())))
    numbers = piece.drop_null().flatten()
    if numbers.type not in (pa.float32(), pa.float64()):
        numbers = numbers.cast(pa.float32() if numbers.type == pa.float16() else pa.float64(), safe=False)
    flat = np.asarray(numbers.fill_null(np.nan) if numbers.null_count else numbers)
    return flat.reshape(rows, -1) if rows else flat.reshape(0, 0)


def _norms(vectors: Floats) -> npt.NDArray[np.float64]:
    norms: npt.NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    odd = np.flatnonzero(~((norms > _LEAST) & (norms < np.inf)))
    if len(odd):  # the squares of what is huge or tiny leave the range: divided by their largest number first
        peaks = np.abs(vectors[odd].astype(np.float64)).max(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = vectors[odd] / peaks[:, None]
        norms[odd] = np.where(peaks > 0, np.sqrt(np.einsum("ij,ij->i", scaled, scaled)) * peaks, peaks)
    return norms


def _unit(vectors: Floats) -> tuple[Int16s, Float32s]:
    """Give values and steps of the vectors at unit length."""
    norms = _norms(vectors)
    values, step = np.empty(vectors.shape, np.int16), np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _UNIT_ROWS):
        rows = slice(start, start + _UNIT_ROWS)
        values[rows], step[rows] = quantise(vectors[rows] / norms[rows, None])
    return values, step


def _content_keys(values: Int16s, step: Float32s) -> tuple[Keys, Rows, Rows]:
    """Key each vector by a 128-bit multilinear hash of its bytes, so that equal vectors are stored once."""
    stored = np.hstack([values, step.view(np.int16).reshape(len(step), 2)])
    words = np.ascontiguousarray(np.pad(stored, ((0, 0), (0, -stored.shape[1] % 4)))).view(np.uint64)
    odd = np.random.default_rng(_HASH_SEED).integers(0, 2**64, (words.shape[1], 2), np.uint64) | np.uint64(1)
    keys = np.empty(len(words), KEY)
    with np.errstate(over="ignore"):
        sums = (words ^ (words >> np.uint64(29))) @ odd
    keys["hi"], keys["lo"] = sums[:, 0], sums[:, 1]
    unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return unique, first, inverse
