"""The residual column: the rarest original fields of a part as one JSON object a row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Floats that JSON lacks, by the string that stands for them."""


def pack_residual(columns: Mapping[str, pa.Array], n_rows: int) -> pa.Array:
    """Give one JSON object for each row with its values of `columns`, null where it has none."""
    rows: dict[int, dict[str, Any]] = {}
    for name, array in columns.items():
        for row, value in enumerate(array.to_pylist()):
            if value is not None:
                rows.setdefault(row, {})[name] = _to_json(value)
    packed = [orjson.dumps(rows[row]) if row in rows else None for row in range(n_rows)]
    return pa.array(packed, pa.binary())


def unpack_residual(residual: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    """Give one column back, exactly as it was packed, for the rows of `residual`."""
    values = [None if row is None else orjson.loads(row).get(name) for row in residual.to_pylist()]
    return pa.array([_from_json(value, kind) for value in values], kind)


def _to_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return next(text for text, other in NOT_FINITE.items() if repr(other) == repr(value))
    return value


def _from_json(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, list):
        return [_from_json(item, kind.value_type) for item in value]
    if isinstance(value, str) and pa.types.is_floating(kind):
        return NOT_FINITE[value]
    return value
