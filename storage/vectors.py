"""The vector dictionary of a part: two int8 planes of each vector, and how they lie in Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import KEY, NO_HEAD, Int64s, Keys, Vectors
from .fixed_point import PLANE, plane_error, quantise, split
from .part import VectorTable

CODE_WIDTH = 64
"""Codes are padded with zeros to a multiple of this, so that a kernel has no tail."""

Bools = npt.NDArray[np.bool_]

_SIDES = ("heads", "n_tokens", "head", "second", "qls")
"""What a vector carries beside itself."""


def code_width(dim: int) -> int:
    """Give the padded width of codes of `dim` dimensions."""
    return -(-dim // CODE_WIDTH) * CODE_WIDTH


def make_table(keys: Keys, found: Bools, vectors: Vectors, first_seq: Int64s | None = None) -> VectorTable:
    """Make the dictionary of `keys`: `vectors` are those of the found keys, in order; the rest is to come.

    first_seq: int64 (u), the exemplar of each key that is not found.
    """
    # While none is known there is no room for any: those that come late bring their width.
    table = empty_table(keys, *(widths_of([vectors]) if len(vectors) else (0, 0, 0)))
    if first_seq is not None:
        table.exemplar[~found] = first_seq[~found]
    if len(vectors):
        _fill(table, np.flatnonzero(found), vectors)
    return table


def empty_table(keys: Keys, dim: int, n_heads: int, n_qls: int) -> VectorTable:
    """Make a dictionary whose vectors are all still to come."""
    u = len(keys)
    return VectorTable(
        key=keys,
        have=np.zeros(u, np.bool_),
        codes=np.zeros((u, code_width(dim)), np.int8),
        rest=np.zeros((u, dim), np.int8),
        scale=np.zeros(u, np.float32),
        err=np.zeros(u, np.float32),
        heads=np.zeros((u, n_heads), np.uint8),
        n_tokens=np.zeros(u, np.uint16),
        head=np.full(u, NO_HEAD, np.uint8),
        second=np.full(u, NO_HEAD, np.uint8),
        qls=np.zeros((u, n_qls), np.int8),
    )


def no_vectors(dim: int = 0) -> Vectors:
    """No vectors, of `dim` dimensions."""
    return Vectors.blank(np.empty(0, KEY), dim)


def add_late(table: VectorTable, late: Sequence[Vectors]) -> VectorTable:
    """Give a copy of the dictionary with vectors that came later; keys that it lacks are left out."""
    found = [(find_keys(table.key, vectors.key), vectors) for vectors in late]
    found = [(rows, vectors) for rows, vectors in found if (rows >= 0).any()]
    if not found:
        return table
    merged = empty_table(table.key, *widths_of([table, *(vectors for _, vectors in found)]))
    merged.exemplar[:] = table.exemplar
    _copy(table, np.flatnonzero(table.have), merged, np.flatnonzero(table.have))
    for rows, vectors in found:
        mine = np.flatnonzero(rows >= 0)
        _fill(merged, rows[mine], vectors.take(mine))
    return merged


def merge_tables(keys: Keys, tables: Sequence[VectorTable]) -> VectorTable:
    """Give the dictionary of `keys` (sorted, distinct) with all that any table has; nothing is coded anew."""
    known = [table for table in tables if table.have.any()]
    merged = empty_table(keys, *widths_of(known))
    merged.exemplar = _lowest_exemplars(keys, tables)
    for table in known:
        rows = find_keys(keys, table.key)
        source = np.flatnonzero(table.have & (rows >= 0))
        _copy(table, source, merged, rows[source])
        # The event whose text this very vector is made of: an erasure of that event asks for it.
        merged.exemplar[rows[source]] = table.exemplar[source]
    return merged


def widths_of(sources: Iterable[VectorTable | Vectors]) -> tuple[int, int, int]:
    """Give the width of vectors, heads and qls; a source that knows none of something has width 0 there."""
    widths = [(s.dim, s.heads.shape[1], s.qls.shape[1]) for s in sources]
    dim, n_heads, n_qls = (max(column) for column in zip((0, 0, 0), *widths, strict=True))
    return dim, n_heads, n_qls


def put_rows(target: npt.NDArray[Any], rows: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> None:
    """Write `values` at `rows`; what has no width, because its source knows nothing of it, changes nothing."""
    if values.ndim == 1 or values.shape[1]:
        target[rows] = values


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
    """Give the columns of a dictionary as they lie in a file; one that says nothing is left out."""
    columns = {
        "key": fixed_binary(table.key),
        "codes": fixed_binary(table.codes),
        "rest": fixed_binary(table.rest),
        "scale": pa.array(table.scale),
        "err": pa.array(table.err),
        **_sides_to_arrow(table),
    }
    if not table.have.all():
        columns["have"] = pa.array(table.have.view(np.uint8))
    return columns


def from_arrow(columns: dict[str, pa.Array]) -> VectorTable:
    """Give the dictionary of such columns, as views of their buffers where the file has them.

    In files of format 1 the vectors are float16, `exact`; they are coded as if they came now.
    """
    u = len(columns["key"])
    have = flat_view(columns["have"], np.uint8).view(np.bool_) if "have" in columns else np.ones(u, np.bool_)
    planes = _planes_of_format_1(columns) if "exact" in columns else _planes(columns)
    return VectorTable(
        key=view_rows(columns["key"], KEY)[:, 0], have=have, **planes, **_sides_from_arrow(columns)
    )


def vectors_to_arrow(vectors: Vectors) -> dict[str, pa.Array]:
    """Give the columns of loose vectors; one that says nothing is left out."""
    return {
        "key": fixed_binary(vectors.key),
        "values": fixed_binary(vectors.values),
        "step": pa.array(vectors.step),
        **_sides_to_arrow(vectors),
    }


def vectors_from_arrow(columns: dict[str, pa.Array]) -> Vectors:
    """Give the loose vectors of such columns, as views of their buffers; format 1 has float16, `exact`."""
    key, sides = view_rows(columns["key"], KEY)[:, 0], _sides_from_arrow(columns)
    if "exact" in columns:
        return Vectors.of(key, view_rows(columns["exact"], np.float16), **sides)
    step = flat_view(columns["step"], np.float32)
    return Vectors(key=key, values=view_rows(columns["values"], np.int16), step=step, **sides)


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
    for name, values in _coded(vectors.values, vectors.step).items():
        put_rows(getattr(table, name), rows, values)
    table.have[rows] = True
    for name in _SIDES:
        put_rows(getattr(table, name), rows, getattr(vectors, name))
    table.exemplar[rows] = np.where(vectors.exemplar >= 0, vectors.exemplar, table.exemplar[rows])


def _copy(
    source: VectorTable, rows: npt.NDArray[np.intp], target: VectorTable, places: npt.NDArray[np.intp]
) -> None:
    source.touch(rows)
    for name in ("have", "codes", "rest", "scale", "err", *_SIDES):
        put_rows(getattr(target, name), places, getattr(source, name)[rows])


def _coded(values: npt.NDArray[np.int16], step: npt.NDArray[np.float32]) -> dict[str, Any]:
    """Give codes, rest, scale and err of vectors as they are stored."""
    high, rest = split(values)
    codes = high
    if code_width(high.shape[1]) != high.shape[1]:
        codes = np.zeros((len(high), code_width(high.shape[1])), np.int8)
        codes[:, : high.shape[1]] = high
    return {"codes": codes, "rest": rest, "scale": step * np.float32(PLANE), "err": plane_error(rest, step)}


def _planes(columns: dict[str, pa.Array]) -> dict[str, Any]:
    return {
        "codes": view_rows(columns["codes"], np.int8),
        "rest": view_rows(columns["rest"], np.int8),
        "scale": flat_view(columns["scale"], np.float32),
        "err": flat_view(columns["err"], np.float32),
    }


def _planes_of_format_1(columns: dict[str, pa.Array]) -> dict[str, Any]:
    return _coded(*quantise(view_rows(columns["exact"], np.float16)))


def _sides_to_arrow(held: VectorTable | Vectors) -> dict[str, pa.Array]:
    columns = {name: pa.array(getattr(held, name)) for name in ("n_tokens", "head", "second")}
    for name in ("heads", "qls"):
        if getattr(held, name).shape[1]:
            columns[name] = fixed_binary(getattr(held, name))
    if (held.exemplar >= 0).any():
        columns["exemplar"] = pa.array(held.exemplar)
    return columns


def _sides_from_arrow(columns: dict[str, pa.Array]) -> dict[str, Any]:
    none = pa.nulls(len(columns["key"]), pa.binary(0))
    sides = {
        "heads": view_rows(columns.get("heads", none), np.uint8),
        "n_tokens": flat_view(columns["n_tokens"], np.uint16),
        "head": flat_view(columns["head"], np.uint8),
        "second": flat_view(columns["second"], np.uint8),
        "qls": view_rows(columns.get("qls", none), np.int8),
    }
    if "exemplar" in columns:
        sides["exemplar"] = flat_view(columns["exemplar"], np.int64)
    return sides
