"""What a table must be to be taken: types that fit names, so that what is acknowledged can be flushed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from .agreement import kinds_of, plain_type
from .batch import ColumnBatch
from .errors import ConfigError
from .payloads import CUTS
from .residual import RESIDUAL
from .schema import ARROW_TYPES, FIELDS, PATH_TYPES, split_physical

_OWN_TYPES = {"ts_origin": pa.uint8(), "record": pa.binary()}
"""System columns whose type is not that of a field."""

KindOf = Callable[[str], pa.DataType | None]
"""Gives the plain type that a column has in the store, None for one that it has not."""


def check_table(batch: ColumnBatch, kind_of: KindOf) -> None:
    """Raise ConfigError, naming the column, unless this batch can lie in one segment with any other."""
    check_columns(batch.columns, batch.n_rows, kind_of)
    ts = batch.columns.get("ts")
    if batch.n_rows and (ts is None or ts.null_count):
        raise ConfigError("column ts: missing or null in some rows; every event needs a time")
    if len(batch.template) != batch.n_rows:
        raise ConfigError(f"template: {len(batch.template)} keys, the table has {batch.n_rows} rows")


def check_columns(columns: Mapping[str, pa.Array], n_rows: int, kind_of: KindOf) -> None:
    """Raise ConfigError, naming the column, unless lengths and types fit names and what the store has."""
    for name, array in columns.items():
        if name in (RESIDUAL, CUTS):
            raise ConfigError(f"column {name}: the store keeps this name for itself; take another")
        if len(array) != n_rows:
            raise ConfigError(f"column {name}: {len(array)} values, expected {n_rows}, one a row")
        allowed = _allowed(name)
        if not pa.types.is_null(array.type) and plain_type(array.type) not in allowed:
            wanted = " or ".join(str(kind) for kind in allowed)
            raise ConfigError(f"column {name}: is {array.type}, expected {wanted}; cast it")
    for name, kind in kinds_of(columns).items():
        known = kind_of(name) if len(_allowed(name)) > 1 else kind
        if known not in (None, kind):
            raise ConfigError(
                f"column {name}: is {kind}, the store has it as {known}; cast it, or take another name"
            )


def _allowed(name: str) -> tuple[pa.DataType, ...]:
    """Give the types that a physical column may have: that of its field or type code, or a signal's."""
    if name in _OWN_TYPES:
        return (_OWN_TYPES[name],)
    if name in FIELDS:
        return (ARROW_TYPES[FIELDS[name].type],)
    _, code = split_physical(name)
    return (PATH_TYPES[code],) if code in PATH_TYPES else (pa.float64(), pa.string())
