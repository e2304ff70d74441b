"""Tables and frames in: Arrow columns to batches of events, with or without vectors of their own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.batch import KEY, TS_ORIGINS, ColumnBatch, Keys, TextParts, Vectors
from treering.storage.errors import InputError

from .given_vectors import check_vectors, given_vectors, vector_column
from .json_columns import field_columns
from .messages import PROMPT_PATHS, RESPONSE_PATHS
from .native_names import FIELD_PATHS
from .parts import body_keys, text_parts
from .rows_in import check_row, encode_value
from .signals import plain_signals
from .table_columns import JSON_MARK, is_json, original_columns, python_values
from .table_times import RowTimes, row_times, stamps_of
from .times import DAY_S, SECOND_NS

BATCH_ROWS = 1 << 16
"""Rows that become one batch: one frame of the log, durable as a whole."""

BATCH_BYTES = 1 << 27
"""Bytes of a table from which it is cut finer; a single row may be larger."""

BLOCK_ROWS = 1 << 12
"""Rows from Python, with vectors, that become one table."""

_VECTORS = pa.large_list(pa.float64())
_INGEST = TS_ORIGINS.index("ingest")
_ENTROPY = "attention_entropy"
_STRUCTURED_PATHS = (*PROMPT_PATHS, *RESPONSE_PATHS, "messages", *FIELD_PATHS[_ENTROPY].split())


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a user may tell of a table.

    vector: column that holds the events' embedding, else the one called `vector`, if there is one. map: canonical
    field (or `ts`) to native path. tz: zone of times that name none.
    """

    vector: str | None = None
    map: Mapping[str, str] | None = None
    tz: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Events out of a table, and the vectors that came with them.

    n_undated: events without a usable time of their own. n_future: events more than a day ahead of now.
    """

    batch: ColumnBatch
    vectors: Vectors | None
    n_undated: int
    n_future: int


def to_table(data: Any) -> pa.Table:
    """Give `data` (Arrow table, batch or reader, pandas or polars frame) as an Arrow table.

    A frame's column of mixed types, which Arrow has not, becomes a column of JSON. Raises InputError for anything
    else, and for two columns of one name.
    """
    module = type(data).__module__.partition(".")[0]
    if module == "polars" and type(data).__name__ == "LazyFrame":
        data = data.collect()
    if isinstance(data, pa.Table):
        table = data
    elif isinstance(data, pa.RecordBatch):
        table = pa.Table.from_batches([data])
    elif isinstance(data, pa.RecordBatchReader):
        table = data.read_all()
    elif module in ("pandas", "polars") and hasattr(data, "columns") and hasattr(data, "dtypes"):
        table = _from_pandas(data) if module == "pandas" else _from_polars(data)
    else:
        raise InputError(
            f"cannot append {type(data).__name__}: give an Arrow table, a pandas or polars frame, or iterable of dicts"
        )
    _check_names(table.column_names)
    return table


def row_tables(rows: Mapping[str, Any] | Iterable[Mapping[str, Any]], vector: str) -> Iterator[pa.Table]:
    """Give rows from Python as tables, block by block, so that the value at the key `vector` is their embedding.

    Raises InputError for a row that is no mapping, or whose vector is no list of numbers.
    """
    stream, start = iter((rows,) if isinstance(rows, Mapping) else rows), 0
    while block := list(islice(stream, BLOCK_ROWS)):
        for at, row in enumerate(block, start):
            check_row(row, at)
        names = dict.fromkeys(name for row in block for name in row if name != vector)
        cells = {name: [encode_value(row[name]) if name in row else None for row in block] for name in names}
        arrays = [pa.array(column, pa.large_binary()) for column in cells.values()]
        fields = [pa.field(str(name), pa.large_binary(), metadata=JSON_MARK) for name in names]
        vectors = pa.array([_numbers(row.get(vector), at) for at, row in enumerate(block, start)], _VECTORS)
        yield pa.Table.from_arrays(
            [*arrays, vectors], schema=pa.schema([*fields, pa.field(vector, _VECTORS)])
        )
        start += len(block)


def table_batches(
    table: pa.Table, options: TableOptions | None = None, *, first_row: int = 0
) -> Iterator[TableBatch]:
    """Turn a table into events, batch by batch: what the same rows would be as JSON records.

    Original columns stand under path and type, canonical fields beside them. Where the table brings vectors, they
    stand for the events; else the events' texts are to be embedded. The store numbers the events (`seq`).
    first_row: position of the table's first row, where it is a piece of something longer.
    Raises InputError, before the first batch, for vectors that are none, later for a column that cannot be read.
    """
    options = options or TableOptions()
    vector = vector_column(table, options.vector)
    if vector:
        check_vectors(vector, table.column(vector), first_row)
    now_ns = time.time_ns()
    start = first_row
    for piece in _pieces(table):
        yield _batch(piece, start, vector, options, now_ns)
        start += piece.num_rows


def _from_pandas(frame: Any) -> pa.Table:
    _check_names([str(name) for name in frame.columns])
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
        return _by_column([str(name) for name in frame.columns], columns, pa.Array.from_pandas)


def _from_polars(frame: Any) -> pa.Table:
    odd = ("Object", "Int128", "UInt128")  # of these polars gives pointers, or types that Arrow has not
    if not any(type(kind).__name__ in odd or str(kind) in odd for kind in frame.dtypes):
        return frame.to_arrow()
    return _by_column(
        frame.columns,
        frame.get_columns(),
        lambda column: None if str(column.dtype) in odd else column.to_arrow(),
    )


def _numbers(value: Any, at: int) -> npt.NDArray[np.float64] | None:
    """Give a vector out of a row. Raises InputError."""
    if value is None:
        return None
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError) as exc:
        raise InputError(f"row {at}: its vector is no list of numbers: {exc}") from exc
    if numbers.ndim != 1:
        raise InputError(f"row {at}: its vector has {numbers.ndim} axes, expected a plain list of numbers")
    return numbers


def _by_column(names: list[str], columns: list[Any], to_arrow: Any) -> pa.Table:
    """Give a table of columns converted one by one; JSON where one cannot be."""
    fields, arrays = [], []
    for name, column in zip(names, columns, strict=True):
        try:
            array = to_arrow(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array = None
        if array is None:
            cells = [None if _is_missing(value) else encode_value(value) for value in column.to_list()]
            array = pa.array(cells, pa.large_binary())
            fields.append(pa.field(name, array.type, metadata=JSON_MARK))
        else:
            fields.append(pa.field(name, array.type))
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _is_missing(value: Any) -> bool:
    """Whether a frame's cell is empty: None, NaN (as pandas has it) or its NaT and NA."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NaTType", "NAType")


def _check_names(names: list[str]) -> None:
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InputError(f"two columns are called {twice!r}; rename one")


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Cut a table into pieces of at most `BATCH_ROWS` rows and, where rows are wide, about `BATCH_BYTES`."""
    n_rows = table.num_rows
    width = -(-table.nbytes // max(n_rows, 1))
    step = min(BATCH_ROWS, max(BATCH_BYTES // max(width, 1), 1))
    for start in range(0, n_rows, step):
        yield table.slice(start, step)


def _batch(table: pa.Table, start: int, vector: str | None, options: TableOptions, now_ns: int) -> TableBatch:
    n_rows = table.num_rows
    given = given_vectors(table.column(vector)) if vector else None
    table = table.drop_columns([vector]) if vector else table
    fields, times = _fields_and_times(table, options, now_ns)
    columns = {**_system_columns(times, start), **fields}
    columns.update(field_columns(fields, _records(table, options.map or {}), options.map))
    columns.update(plain_signals(columns, n_rows))
    body = columns.get("body")
    keys: Keys = body_keys(body) if body is not None else np.zeros(n_rows, KEY)
    parts: TextParts = given[1] if given else text_parts(columns, keys)
    batch = ColumnBatch(n_rows, columns, parts, keys)
    n_future = int(np.count_nonzero(times.ts_ns > now_ns + DAY_S * SECOND_NS))
    n_undated = int(np.count_nonzero(times.origin == _INGEST))
    return TableBatch(batch, given[0] if given else None, n_undated, n_future)


def _fields_and_times(
    table: pa.Table, options: TableOptions, now_ns: int
) -> tuple[dict[str, pa.Array], RowTimes]:
    """Give the original fields and the event times; a column `ts` of timestamps is the time and nothing else."""
    stamps = stamps_of(table, options.tz)
    n_rows = table.num_rows
    if "ts" in stamps and np.count_nonzero(stamps["ts"][1]) == n_rows - table.column("ts").null_count:
        table = table.drop_columns(["ts"])
    columns = original_columns(table)
    path = (options.map or {}).get("ts")
    return columns, row_times(columns, stamps, n_rows, now_ns=now_ns, tz=options.tz, path=path)


def _system_columns(times: RowTimes, start: int) -> dict[str, pa.Array]:
    n_rows = len(times.ts_ns)
    rows = np.arange(start, start + n_rows, dtype=np.int64)
    return {
        "ts": pa.array(times.ts_ns),
        "seq": pa.array(rows),
        "ts_origin": pa.array(times.origin),
        "source": _constant("table", n_rows),
        "reader": _constant("table", n_rows),
        "source_offset": pa.array(np.full(n_rows, -1, np.int64)),
        "source_line": pa.array(rows + 1),
    }


def _constant(text: str, n_rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int32)), pa.array([text], pa.string()))


def _records(table: pa.Table, overrides: Mapping[str, str]) -> list[dict[str, Any]]:
    """Give the rows as records, with those columns alone that may hold messages or lists of lists."""
    records: list[dict[str, Any]] = [{} for _ in range(table.num_rows)]
    heads = {path.partition(".")[0] for path in (*_STRUCTURED_PATHS, overrides.get(_ENTROPY, ""))}
    for field in table.schema:
        if field.name.partition(".")[0] not in heads or not _is_structured(field, table.column(field.name)):
            continue
        for record, value in zip(records, python_values(field, table.column(field.name)), strict=True):
            record[field.name] = value
    return records


def _is_structured(field: pa.Field, column: pa.ChunkedArray) -> bool:
    """Whether values nest, or are texts that may be JSON."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_nested(kind) or is_json(field):
        return True
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return False
    texts = column.cast(pa.large_string())
    starts = [pc.starts_with(texts, pattern=mark) for mark in ("[", "{")]
    return bool(pc.any(pc.or_(*starts)).as_py())
