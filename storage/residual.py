"""The residual column: the rarest original fields of a part as one JSON object a row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from .schema import PATH_TYPES, split_physical

MAX_ORIGINAL = 512
"""Original-field columns of a part; the rarest beyond go into one residual JSON column."""

RESIDUAL = "~residual"
"""Column that holds the rarest original fields: binary, a JSON object a row, null where a row has none."""

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Floats that JSON lacks, by the string that stands for them."""


Cells = dict[str, tuple[list[int], list[Any]]]
"""Values by column: the rows that have one, ascending, and these as Python values."""


def cells_of(columns: Mapping[str, pa.Array]) -> Cells:
    """Give the values of columns, at the price of those that are there."""
    return {name: _present(array) for name, array in columns.items()}


def pack_cells(cells: Cells, n_rows: int) -> pa.Array:
    """Give one JSON object for each row with its values, null where it has none."""
    rows: dict[int, dict[str, Any]] = {}
    for name, (places, values) in cells.items():
        for row, value in zip(places, values, strict=True):
            rows.setdefault(row, {})[name] = _to_json(value)
    packed = [orjson.dumps(rows[row]) if row in rows else None for row in range(n_rows)]
    return pa.array(packed, pa.binary())


def unpack_cells(residual: pa.Array) -> Cells:
    """Give back what was packed, at the price of the values that are there."""
    cells: Cells = {}
    for row, packed in zip(*_present(residual), strict=True):
        for name, value in orjson.loads(packed).items():
            places, values = cells.setdefault(name, ([], []))
            places.append(row)
            values.append(_from_json(value, type_of(name)))
    return cells


def column_of(cells: Cells, name: str, n_rows: int) -> pa.Array:
    """Give one column, null where a row has no value."""
    places, values = cells.get(name, ([], []))
    array = pa.array(values, type_of(name))
    if len(places) == n_rows:
        return array
    at = np.full(n_rows, -1, np.int64)
    at[places] = np.arange(len(places))
    return array.take(pa.array(at, mask=at < 0))


def type_of(name: str) -> pa.DataType:
    """Give the type of an original field."""
    return PATH_TYPES[split_physical(name)[1]]


def rarest(counts: Mapping[str, int], *, most: int) -> set[str]:
    """Name the columns beyond the `most` with the most values; equal ones by name."""
    if len(counts) <= most:
        return set()
    return set(sorted(counts, key=lambda name: (-counts[name], name))[most:])


def rare_fields(counts: Mapping[str, int]) -> set[str]:
    """Name the original fields that go into the residual, of those that hold so many values each."""
    return rarest(counts, most=MAX_ORIGINAL)


def split_residual(
    batches: Sequence[Mapping[str, pa.Array]], lengths: Sequence[int]
) -> tuple[list[Mapping[str, pa.Array]], pa.Array | None]:
    """Give the batches without their rarest original fields, and one residual column of these for all rows."""
    own = [unpack_cells(batch[RESIDUAL]) if RESIDUAL in batch else {} for batch in batches]
    rare = rare_fields(_count_values(batches, own))
    if not rare and not any(own):
        return list(batches), None
    kept: list[Mapping[str, pa.Array]] = []
    moved: Cells = {}
    start = 0
    for batch, cells, length in zip(batches, own, lengths, strict=True):
        columns = {name: array for name, array in batch.items() if name not in rare and name != RESIDUAL}
        columns |= {name: column_of(cells, name, length) for name in cells if name not in rare}
        kept.append(columns)
        cells |= cells_of({name: batch[name] for name in rare & batch.keys()})
        for name in rare & cells.keys():
            places, values = moved.setdefault(name, ([], []))
            places += [start + row for row in cells[name][0]]
            values += cells[name][1]
        start += length
    return kept, pack_cells(moved, start) if moved else None


def _count_values(batches: Sequence[Mapping[str, pa.Array]], own: Sequence[Cells]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for batch, cells in zip(batches, own, strict=True):
        originals = [name for name in batch if split_physical(name)[1] in PATH_TYPES]
        counts.update({name: len(batch[name]) - batch[name].null_count for name in originals})
        counts.update({name: len(places) for name, (places, _) in cells.items()})
    return +counts


def _present(array: pa.Array) -> tuple[list[int], list[Any]]:
    places = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    return places.tolist(), array.take(pa.array(places)).to_pylist()


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
