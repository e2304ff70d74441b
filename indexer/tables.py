"""Tables and frames in: Arrow columns to a batch of events, with or without vectors of their own."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.batch import KEY, ColumnBatch, Int64s, Keys, TextParts, Vectors
from treering.storage.errors import InputError
from treering.storage.schema import FIELDS

from .canonical import canonical_columns

VECTOR_COLUMN = "vector"
"""A column of this name and of a fixed-size list type is taken as the events' embedding."""

_TIME_COLUMNS = ("ts", "timestamp", "time", "@timestamp")
_NO_HEAD = 255
_HASH_SEED = 20_260_501
"""Fixed for ever: the coefficients of the key of a given vector are drawn from it."""


def to_table(data: Any) -> pa.Table:
    """Give `data` (Arrow table or batch, pandas or polars frame) as an Arrow table.

    Raises InputError for anything else.
    """
    if isinstance(data, pa.Table):
        return data.combine_chunks()
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    module = type(data).__module__.partition(".")[0]
    if module == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False).combine_chunks()
    if module == "polars":
        return data.to_arrow().combine_chunks()
    raise InputError(
        f"cannot append {type(data).__name__}: give an Arrow table, a pandas or polars frame, or an iterable of dicts"
    )


def table_batch(
    table: pa.Table, *, first_seq: int, vector: str | None = None, source: str = "table"
) -> tuple[ColumnBatch, Vectors | None]:
    """Turn a table into events: original columns by path and type, canonical fields beside them.

    The event time is the column `ts` (or timestamp, time, @timestamp): integers are nanoseconds, timestamps are
    converted exactly; rows without one get the clock's. Raises InputError for a vector column of another type.
    """
    n = table.num_rows
    vectors, parts, table = _take_vectors(table, vector)
    ts, origin, table = _take_times(table, n)
    columns: dict[str, pa.Array] = {
        "ts": pa.array(ts),
        "seq": pa.array(np.arange(first_seq, first_seq + n, dtype=np.int64)),
        "ts_origin": pa.array(origin),
        "source": _constant(source, n),
        "reader": _constant("table", n),
        "source_offset": pa.array(np.full(n, -1, np.int64)),
        "source_line": pa.array(np.arange(1, n + 1, dtype=np.int64)),
    }
    for name, column in _flatten(table):
        _add_original(columns, name, column)
    columns.update(canonical_columns(columns, n))
    return ColumnBatch(n, columns, parts, np.zeros(n, KEY)), vectors


def _take_vectors(table: pa.Table, vector: str | None) -> tuple[Vectors | None, TextParts, pa.Table]:
    name = vector or (VECTOR_COLUMN if VECTOR_COLUMN in table.column_names else None)
    if name is None:
        return None, TextParts.empty(), table
    if name not in table.column_names:
        raise InputError(f"the table has no column {name!r} to take vectors from")
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if not pa.types.is_fixed_size_list(column.type) or not pa.types.is_floating(column.type.value_type):
        raise InputError(f"column {name!r} is {column.type}, expected fixed_size_list<float>[dim]")
    dim = column.type.list_size
    have = np.flatnonzero(np.asarray(column.is_valid()))
    flat = np.asarray(column.drop_null().flatten().cast(pa.float32())).reshape(-1, dim)
    exact = _unit(flat)
    keys, first, inverse = _content_keys(exact)
    chosen = exact[first]
    u = len(first)
    vectors = Vectors(
        keys,
        chosen,
        np.zeros((u, 0), np.uint8),
        np.zeros(u, np.uint16),
        np.full(u, _NO_HEAD, np.uint8),
        np.full(u, _NO_HEAD, np.uint8),
        np.zeros((u, 136), np.int8),
    )
    parts = TextParts(
        have.astype(np.int32),
        np.zeros(len(have), np.uint8),
        np.zeros(len(have), np.int16),
        keys[inverse],
        np.ones(len(have), np.bool_),
    )
    return vectors, parts, table.drop_columns([name])


def _unit(rows: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.float16]]:
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    norms[~(norms > 0)] = 1.0
    unit: np.ndarray[Any, np.dtype[np.float16]] = (rows / norms[:, None]).astype(np.float16)
    return unit


def _content_keys(
    exact: np.ndarray[Any, np.dtype[np.float16]],
) -> tuple[Keys, np.ndarray[Any, np.dtype[np.intp]], np.ndarray[Any, np.dtype[np.intp]]]:
    """Key each vector by a 128-bit multilinear hash of its bytes, so that equal vectors are stored once."""
    words = np.ascontiguousarray(np.pad(exact, ((0, 0), (0, -exact.shape[1] % 4)))).view(np.uint64)
    odd = np.random.default_rng(_HASH_SEED).integers(0, 2**64, (words.shape[1], 2), np.uint64) | np.uint64(1)
    keys = np.empty(len(words), KEY)
    with np.errstate(over="ignore"):
        sums = (words ^ (words >> np.uint64(29))) @ odd
    keys["hi"], keys["lo"] = sums[:, 0], sums[:, 1]
    unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return unique, first, inverse


def _take_times(table: pa.Table, n: int) -> tuple[Int64s, np.ndarray[Any, np.dtype[np.uint8]], pa.Table]:
    now = time.time_ns()
    for name in _TIME_COLUMNS:
        if name not in table.column_names:
            continue
        column = table.column(name)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("ns")).cast(pa.int64())
        elif pa.types.is_integer(column.type):
            column = column.cast(pa.int64())
        else:
            continue
        valid = np.asarray(pc.is_valid(column))
        values = np.asarray(pc.fill_null(column, now)).astype(np.int64)
        origin = np.where(valid, 0, 3).astype(np.uint8)
        return values, origin, table.drop_columns([name]) if name == "ts" else table
    return np.full(n, now, np.int64), np.full(n, 3, np.uint8), table


def _constant(text: str, n: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([text], pa.string()))


def _flatten(table: pa.Table) -> list[tuple[str, pa.Array]]:
    """Struct columns become dotted paths, as nesting does everywhere."""
    while any(pa.types.is_struct(f.type) for f in table.schema):
        table = table.flatten()
    return [(f.name, _one_chunk(table.column(i))) for i, f in enumerate(table.schema)]


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _add_original(columns: dict[str, pa.Array], name: str, column: pa.Array) -> None:
    """Store a column under its path and type, or under its own name when it is a canonical one of that type."""
    cast = _path_type(column)
    if cast is None:
        columns[f"{name}#s"] = pa.array(
            [None if v is None else str(v) for v in column.to_pylist()], pa.string()
        )
        return
    code, array = cast
    columns[name if name in FIELDS and name in ("ts", "seq") else f"{name}#{code}"] = array


def _path_type(column: pa.Array) -> tuple[str, pa.Array] | None:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return "s", column if pa.types.is_string(kind.value_type) else column.dictionary_decode().cast(
            pa.string()
        )
    if pa.types.is_boolean(kind):
        return "b", column
    if pa.types.is_integer(kind):
        if kind == pa.uint64() and pc.max(column).as_py() is not None and pc.max(column).as_py() >= 2**63:
            return "z", column.cast(pa.string())
        return "i", column.cast(pa.int64())
    if pa.types.is_floating(kind):
        return "f", column.cast(pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "s", column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return "i", column.cast(pa.timestamp("ns")).cast(pa.int64())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _path_type(column.flatten()[:0])
        code = "s" if inner is None else inner[0]
        target = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "s": pa.string(), "z": pa.string()}[
            code
        ]
        return f"[{code}]", column.cast(pa.list_(target))
    return None
