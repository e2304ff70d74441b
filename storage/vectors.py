"""The vector dictionary of a part: exact float16 vectors, certified int8 codes, and how both lie in Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import KEY, Int64s, Keys, Vectors
from .part import VectorTable

CODE_WIDTH = 64
"""Codes are padded with zeros to a multiple of this, so that a kernel has no tail."""

BLOCK_ROWS = 4096
"""Vectors coded at once: bounds the float32 copy to some 6 MB."""

Float16s = npt.NDArray[np.float16]
Float32s = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

_SIDES = ("heads", "n_tokens", "head", "second", "qls")
"""What a vector carries beside itself."""


def code_vectors(exact: Float16s) -> tuple[npt.NDArray[np.int8], Float32s, Float32s]:
    """Give codes int8 (u, width), scale and err float32 (u) of exact vectors float16 (u, dim).

    scale = max|x| / 127; err >= ‖x - codes * scale‖ for the stored x, so that by Cauchy-Schwarz
    |q·x - q·(codes * scale)| <= ‖q‖ err for every q. A zero vector has scale 0.
    """
    u, dim = exact.shape
    codes = np.zeros((u, code_width(dim)), np.int8)
    scale, square = np.zeros(u, np.float32), np.zeros(u)
    if u and dim:
        from .kernels import fill_codes

        for start in range(0, u, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            fill_codes(exact[rows].astype(np.float32), codes[rows], scale[rows], square[rows])
    return codes, scale, _round_up(np.sqrt(square))


def code_width(dim: int) -> int:
    """Give the padded width of codes of `dim` dimensions."""
    return -(-dim // CODE_WIDTH) * CODE_WIDTH


def make_table(keys: Keys, found: Bools, vectors: Vectors, first_seq: Int64s | None = None) -> VectorTable:
    """Make the dictionary of `keys`: `vectors` are those of the found keys, in order; the rest is to come.

    first_seq: int64 (u), the exemplar of each key that is not found.
    """
    table = empty_table(keys, vectors.exact.shape[1], vectors.heads.shape[1], vectors.qls.shape[1])
    if first_seq is not None:
        table.exemplar[~found] = first_seq[~found]
    _fill(table, np.flatnonzero(found), vectors)
    return table


def empty_table(keys: Keys, dim: int, n_heads: int, n_qls: int) -> VectorTable:
    """Make a dictionary whose vectors are all still to come."""
    u = len(keys)
    return VectorTable(
        key=keys,
        have=np.zeros(u, np.bool_),
        codes=np.zeros((u, code_width(dim)), np.int8),
        scale=np.zeros(u, np.float32),
        err=np.zeros(u, np.float32),
        exact=np.zeros((u, dim), np.float16),
        heads=np.zeros((u, n_heads), np.uint8),
        n_tokens=np.zeros(u, np.uint16),
        head=np.full(u, 255, np.uint8),
        second=np.full(u, 255, np.uint8),
        qls=np.zeros((u, n_qls), np.int8),
    )


def no_vectors(dim: int = 0) -> Vectors:
    """No vectors, of `dim` dimensions."""
    return Vectors(
        key=np.empty(0, KEY),
        exact=np.empty((0, dim), np.float16),
        heads=np.empty((0, 0), np.uint8),
        n_tokens=np.empty(0, np.uint16),
        head=np.empty(0, np.uint8),
        second=np.empty(0, np.uint8),
        qls=np.empty((0, 0), np.int8),
    )


def add_late(table: VectorTable, late: Sequence[Vectors]) -> VectorTable:
    """Give a copy of the dictionary with vectors that came later; keys that it lacks are left out."""
    found = [(find_keys(table.key, vectors.key), vectors) for vectors in late]
    found = [(rows, vectors) for rows, vectors in found if (rows >= 0).any()]
    if not found:
        return table
    merged = _widened(table, found[0][1])
    for rows, vectors in found:
        mine = np.flatnonzero(rows >= 0)
        _fill(merged, rows[mine], vectors.take(mine))
    return merged


def merge_tables(keys: Keys, tables: Sequence[VectorTable]) -> VectorTable:
    """Give the dictionary of `keys` (sorted, distinct) with all that any table has; codes are copied."""
    known = [table for table in tables if table.have.any()]
    widths = (known[0].exact.shape[1], known[0].heads.shape[1], known[0].qls.shape[1]) if known else (0, 0, 0)
    merged = empty_table(keys, *widths)
    merged.exemplar = _lowest_exemplars(keys, tables)
    for table in known:
        rows = find_keys(keys, table.key)
        source = np.flatnonzero(table.have & (rows >= 0))
        for name in ("have", "codes", "scale", "err", "exact", *_SIDES):
            getattr(merged, name)[rows[source]] = getattr(table, name)[source]
    return merged


def _lowest_exemplars(keys: Keys, tables: Sequence[VectorTable]) -> Int64s:
    none = np.iinfo(np.int64).max
    lowest = np.full(len(keys), none, np.int64)
    for table in tables:
        rows = find_keys(keys, table.key)
        known = (rows >= 0) & (table.exemplar >= 0)
        lowest[rows[known]] = np.minimum(lowest[rows[known]], table.exemplar[known])
    return np.where(lowest == none, -1, lowest)


def find_keys(keys: Keys, wanted: Keys) -> npt.NDArray[np.intp]:
    """Give the place of each wanted key in `keys` (sorted, distinct), or -1."""
    places = np.zeros(len(wanted), np.intp)
    if not len(keys):
        return places - 1
    # Void arrays compare a field at a time in Python; the high halves alone almost always decide.
    high, low = np.ascontiguousarray(keys["hi"]), np.ascontiguousarray(keys["lo"])
    places = np.searchsorted(high, wanted["hi"])
    while True:
        inside = np.minimum(places, len(keys) - 1)
        short = (places < len(keys)) & (high[inside] == wanted["hi"]) & (low[inside] < wanted["lo"])
        if not short.any():
            break
        places = places + short
    same = (places < len(keys)) & (high[inside] == wanted["hi"]) & (low[inside] == wanted["lo"])
    return np.where(same, inside, -1)


def to_arrow(table: VectorTable) -> dict[str, pa.Array]:
    """Give the columns of a dictionary as they lie in a file; nothing is copied that is contiguous."""
    return {
        "key": fixed_binary(table.key),
        "have": pa.array(table.have.view(np.uint8)),
        "codes": fixed_binary(table.codes),
        "scale": pa.array(table.scale),
        "err": pa.array(table.err),
        "exact": fixed_binary(table.exact),
        "heads": fixed_binary(table.heads),
        "n_tokens": pa.array(table.n_tokens),
        "head": pa.array(table.head),
        "second": pa.array(table.second),
        "qls": fixed_binary(table.qls),
        "exemplar": pa.array(table.exemplar),
    }


def from_arrow(columns: dict[str, pa.Array]) -> VectorTable:
    """Give the dictionary of such columns as views of their buffers."""
    return VectorTable(
        key=view_rows(columns["key"], KEY)[:, 0],
        have=flat_view(columns["have"], np.uint8).view(np.bool_),
        codes=view_rows(columns["codes"], np.int8),
        scale=flat_view(columns["scale"], np.float32),
        err=flat_view(columns["err"], np.float32),
        exact=view_rows(columns["exact"], np.float16),
        heads=view_rows(columns["heads"], np.uint8),
        n_tokens=flat_view(columns["n_tokens"], np.uint16),
        head=flat_view(columns["head"], np.uint8),
        second=flat_view(columns["second"], np.uint8),
        qls=view_rows(columns["qls"], np.int8),
        exemplar=flat_view(columns["exemplar"], np.int64),
    )


def vectors_to_arrow(vectors: Vectors) -> dict[str, pa.Array]:
    """Give the columns of loose vectors; their codes are made again on reading."""
    return {
        "key": fixed_binary(vectors.key),
        "exact": fixed_binary(vectors.exact),
        "heads": fixed_binary(vectors.heads),
        "n_tokens": pa.array(vectors.n_tokens),
        "head": pa.array(vectors.head),
        "second": pa.array(vectors.second),
        "qls": fixed_binary(vectors.qls),
        "exemplar": pa.array(vectors.exemplar),
    }


def vectors_from_arrow(columns: dict[str, pa.Array]) -> Vectors:
    """Give the loose vectors of such columns as views of their buffers."""
    return Vectors(
        key=view_rows(columns["key"], KEY)[:, 0],
        exact=view_rows(columns["exact"], np.float16),
        heads=view_rows(columns["heads"], np.uint8),
        n_tokens=flat_view(columns["n_tokens"], np.uint16),
        head=flat_view(columns["head"], np.uint8),
        second=flat_view(columns["second"], np.uint8),
        qls=view_rows(columns["qls"], np.int8),
        exemplar=flat_view(columns["exemplar"], np.int64),
    )


def flat_view(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Give the values of a fixed-width column without looking at its nulls, as a view."""
    kind = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, kind)
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize)


def view_rows(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Give a fixed-size binary column as a matrix of `dtype`, one row a value, as a view."""
    kind = np.dtype(dtype)
    width = array.type.byte_width // kind.itemsize
    buffer = array.buffers()[1]
    if buffer is None or not len(array) or not width:
        return np.empty((len(array), width), kind)
    flat = np.frombuffer(buffer, kind, len(array) * width, array.offset * array.type.byte_width)
    return flat.reshape(len(array), width)


def fixed_binary(values: npt.NDArray[Any]) -> pa.Array:
    """Give the rows of an array as fixed-size binary values."""
    values = np.ascontiguousarray(values)
    width = values.dtype.itemsize * int(np.prod(values.shape[1:]))
    return pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(values)])


def _fill(table: VectorTable, rows: npt.NDArray[np.intp], vectors: Vectors) -> None:
    table.codes[rows], table.scale[rows], table.err[rows] = code_vectors(vectors.exact)
    table.exact[rows] = vectors.exact
    table.have[rows] = True
    for name in _SIDES:
        getattr(table, name)[rows] = getattr(vectors, name)
    table.exemplar[rows] = np.where(vectors.exemplar >= 0, vectors.exemplar, table.exemplar[rows])


def _widened(table: VectorTable, like: Vectors) -> VectorTable:
    # A dictionary without any vector does not know their dimensions yet.
    fresh = empty_table(table.key, like.exact.shape[1], like.heads.shape[1], like.qls.shape[1])
    fresh.exemplar[:] = table.exemplar
    if table.have.any():
        for name in ("have", "codes", "scale", "err", "exact", *_SIDES):
            getattr(fresh, name)[:] = getattr(table, name)
    return fresh


def _round_up(values: npt.NDArray[np.float64]) -> Float32s:
    # The float64 sum itself may be short by some 1e-16 of its size; 1e-9 covers any dimension.
    values = values * (1 + 1e-9)
    rounded = values.astype(np.float32)
    return np.where(rounded < values, np.nextafter(rounded, np.float32(np.inf)), rounded)
