"""What a table must be to be taken: types that fit names, so that what is acknowledged can be flushed."""

from __future__ import annotations

import pyarrow as pa

from .batch import ColumnBatch
from .errors import ConfigError
from .schema import ARROW_TYPES, FIELDS, PATH_TYPES, split_physical

_OWN_TYPES = {"ts_origin": pa.uint8(), "record": pa.binary()}
"""System columns whose type is not that of a field."""

_NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def check_table(batch: ColumnBatch) -> None:
    """Raise ConfigError, naming the column, unless this batch can lie in one segment with any other."""
    for name, array in batch.columns.items():
        if len(array) != batch.n_rows:
            raise ConfigError(f"column {name}: {len(array)} values, the table has {batch.n_rows} rows")
        allowed = _allowed(name)
        if not pa.types.is_null(array.type) and _plain(array.type) not in allowed:
            wanted = " or ".join(str(kind) for kind in allowed)
            raise ConfigError(f"column {name}: is {array.type}, expected {wanted}; cast it")
    ts = batch.columns.get("ts")
    if batch.n_rows and (ts is None or ts.null_count):
        raise ConfigError("column ts: missing or null in some rows; every event needs a time")
    if len(batch.template) != batch.n_rows:
        raise ConfigError(f"template: {len(batch.template)} keys, the table has {batch.n_rows} rows")


def _allowed(name: str) -> tuple[pa.DataType, ...]:
    """Give the types that a physical column may have: that of its field or type code, or a signal's."""
    if name in _OWN_TYPES:
        return (_OWN_TYPES[name],)
    if name in FIELDS:
        return (ARROW_TYPES[FIELDS[name].type],)
    _, code = split_physical(name)
    return (PATH_TYPES[code],) if code in PATH_TYPES else (pa.float64(), pa.string())


def _plain(kind: pa.DataType) -> pa.DataType:
    """Give the type behind a dictionary, 64-bit offsets or names of list items."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return _NARROW.get(kind, kind)
