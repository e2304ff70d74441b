"""Columns stored in less room: what repeats or rises evenly as a fact, other integers as narrow offsets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .columns import Bools, Numbers, number_view
from .stored_file import Json

Packed = dict[str, Json]
"""How columns were packed, by name; a column that is not named stands as it is.

{"like": name}: the values of another column. {"text": t, "n": n}: n times the text t, with a dictionary.
{"type": t, "first": a, "step": d, "n": n}: a, a + d, a + 2 d, ... {"type": t, "base": b}: b more than what
stands in the column.
"""

Rows = npt.NDArray[np.integer[Any]]

_OFFSETS = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))
"""Types of offsets; what needs more stands as it is."""

_INT64 = range(-(2**63), 2**63)


def pack_columns(
    columns: Mapping[str, pa.Array], twins: Mapping[str, str] | None = None
) -> tuple[dict[str, pa.Array], Packed]:
    """Give the columns that need storing, and how they and the others were packed.

    twins: a column that may equal another, which comes before it.
    """
    stored: dict[str, pa.Array] = {}
    packed: Packed = {}
    for name, array in columns.items():
        twin = (twins or {}).get(name)
        if twin is not None and columns[twin].equals(array):
            packed[name] = {"like": twin}
            continue
        fact, rest = _pack(array)
        if fact is not None:
            packed[name] = fact
        if rest is not None:
            stored[name] = rest
    return stored, packed


def unpack(fact: Json, stored: pa.Array | None, rows: Rows | None = None) -> pa.Array:
    """Give a packed column back, or some rows of it; not one that is like another."""
    if "text" in fact:
        codes = pa.array(np.zeros(fact["n"] if rows is None else len(rows), np.int8))
        return pa.DictionaryArray.from_arrays(codes, pa.array([fact["text"]], pa.string()))
    dtype = np.dtype(packed_type(fact).to_pandas_dtype())
    if stored is None:
        return pa.array(_run(fact, np.arange(fact["n"]) if rows is None else rows, dtype))
    offsets, mask = number_view(stored if rows is None else stored.take(pa.array(rows)))
    values = offsets.astype(dtype)
    values += dtype.type(fact["base"])
    return pa.array(values, mask=None if mask is None else ~mask)


class Unpacked:
    """Columns as they were before they were packed; a packed one is made at each look."""

    def __init__(self, stored: Mapping[str, pa.Array], packed: Packed) -> None:
        self._stored = stored
        self._packed = packed

    def column(self, name: str, rows: Rows | None = None) -> pa.Array:
        """Give a column, whole or at `rows`. Raises KeyError."""
        name = self.owner(name)
        if name not in self._packed:
            array = self._stored[name]
            return array if rows is None else array.take(pa.array(rows))
        return unpack(self._packed[name], self._stored.get(name), rows)

    def numbers(self, name: str) -> Numbers:
        """Give the values of a number or bool column without nulls."""
        return number_view(self.column(name))[0]

    def owner(self, name: str) -> str:
        """Name the column whose values this one has."""
        while "like" in self._packed.get(name, {}):
            name = self._packed[name]["like"]
        return name

    def is_packed(self, name: str) -> bool:
        """Whether a look at this column takes memory of its own."""
        return self.owner(name) in self._packed


def packed_type(fact: Json) -> pa.DataType:
    """Give the type of a packed column that is not like another."""
    return pa.dictionary(pa.int8(), pa.string()) if "text" in fact else pa.type_for_alias(fact["type"])


def _pack(array: pa.Array) -> tuple[Json | None, pa.Array | None]:
    if not len(array) or array.null_count == len(array):
        return None, array
    if pa.types.is_dictionary(array.type):
        text = _only_text(array)
        return (None, array) if text is None else ({"text": text, "n": len(array)}, None)
    if not pa.types.is_integer(array.type) and array.type not in (pa.float32(), pa.float64()):
        return None, array
    values, mask = number_view(array)
    fact = _as_run(values) if mask is None else None
    if fact is not None:
        return {"type": str(array.type), **fact, "n": len(array)}, None
    return _narrow(array, values, mask) if pa.types.is_integer(array.type) else (None, array)


def _only_text(array: pa.DictionaryArray) -> str | None:
    if len(array.dictionary) != 1 or array.null_count or array.dictionary.type != pa.string():
        return None
    try:
        return str(array.dictionary[0].as_py())
    except UnicodeDecodeError:
        return None


def _as_run(values: Numbers) -> Json | None:
    """Give first and step of evenly spaced integers, or of one float."""
    if values.dtype.kind == "f":
        # Bit by bit, so that -0.0 is not 0.0.
        bits = values.view(f"u{values.dtype.itemsize}")
        is_one = math.isfinite(values[0]) and bool((bits == bits[0]).all())
        return {"first": float(values[0]), "step": 0} if is_one else None
    first, last = int(values[0]), int(values[-1])
    step = int(values[1]) - first if len(values) > 1 else 0
    if first + step * (len(values) - 1) != last or not all(one in _INT64 for one in (first, last, step)):
        return None
    # Differences of unsigned numbers would wrap, those of others cannot: they would not add up to the last.
    differences = np.diff(values.astype(np.int64))
    return {"first": first, "step": step} if bool((differences == step).all()) else None


def _run(fact: Json, places: Rows, dtype: np.dtype[Any]) -> Numbers:
    if not fact["step"]:
        return np.full(len(places), fact["first"], dtype)
    run: Numbers = places.astype(np.int64)
    run *= fact["step"]
    run += fact["first"]
    return run.astype(dtype, copy=False)


def _narrow(array: pa.Array, values: Numbers, mask: Bools | None) -> tuple[Json | None, pa.Array]:
    present = values if mask is None else values[mask]
    base, last = int(present.min()), int(present.max())
    kind = next((kind for kind in _OFFSETS if last - base <= np.iinfo(kind).max), None)
    if kind is None or kind.itemsize >= values.dtype.itemsize:
        return None, array
    whole = values if mask is None else np.where(mask, values, values.dtype.type(base))
    offsets = (whole - values.dtype.type(base)).astype(kind)
    return {"type": str(array.type), "base": base}, pa.array(offsets, mask=None if mask is None else ~mask)
