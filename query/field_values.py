"""Values of a field for the rows of an answer: by type as stored, as one Arrow array, or as Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.indexer.whole_numbers import json_text, whole_number
from treering.storage.part import Part

from .bound import Column
from .compare import EXACT_FLOAT
from .kinds import kind_of
from .mixed_lists import KIND as MIXED_LIST
from .mixed_lists import OF_ONE, list_path, read_list, whole_list
from .rows import Mask, RowIds, Rows, holds
from .scan import numbers
from .table_part import LEVEL_NAMES

STORED = frozenset(("int", "float", "bool", "level", "ts"))
"""Kinds that a part gives as numpy arrays."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Values of one type: numpy for `STORED` kinds (arbitrary where not valid), else an Arrow array.

    valid: which rows have their value here; a row is valid in at most one `Typed` of a field.
    """

    kind: str
    values: npt.NDArray[Any] | pa.Array
    valid: Mask

    def to_arrow(self) -> pa.Array:
        """The values as Arrow, null where not valid; times as UTC timestamps, severities by name."""
        if isinstance(self.values, np.ndarray):
            array = pa.array(self.values, mask=~self.valid)
            if self.kind == "ts":
                return array.cast(pa.timestamp("ns", "UTC"))
            return LEVEL_NAMES.take(array) if self.kind == "level" else array
        return _masked(self.values, self.valid)

    def to_python(self) -> list[Any]:
        """The values as Python objects, None where not valid; times stay int nanoseconds.

        A whole number of any size is exact: beyond 640 digits it is a `Decimal`, which Python can print.
        """
        if self.kind == "ts" and isinstance(self.values, np.ndarray):
            return [
                v if ok else None for v, ok in zip(self.values.tolist(), self.valid.tolist(), strict=True)
            ]
        found: list[Any] = self.to_arrow().to_pylist()
        read = _READ.get(self.kind)
        return found if read is None else [None if v is None else read(v) for v in found]


_READ: dict[str, Callable[[Any], Any]] = {
    "decimal": whole_number,
    "object": lambda _: {},
    "list of decimal": lambda items: [None if i is None else whole_number(i) for i in items],
    MIXED_LIST: read_list,
}


def typed_values(rows: Rows, column: Column) -> list[Typed]:
    """Values of a field by type, best physical column first; only types that occur."""
    out: list[Typed] = []
    taken = np.zeros(len(rows), np.bool_)
    for one in _held(rows, column):
        valid = one.valid & ~taken
        taken |= one.valid
        if valid.any():
            out.append(Typed(one.kind, one.values, valid))
    return out


def _held(rows: Rows, column: Column) -> Iterator[Typed]:
    """Values by physical column; a list of several types, which is in several of them, comes before these."""
    for path, names in groupby(column.physical, list_path):
        found = [one for name in names if (one := _typed(rows, name)) is not None]
        if path is not None and len(found) > 1:
            yield from _mixed_lists(found)
        yield from found


def _mixed_lists(found: Sequence[Typed]) -> Iterator[Typed]:
    mixed = np.add.reduce([one.valid.astype(np.int8) for one in found]) > 1
    if not mixed.any():
        return
    rows = np.flatnonzero(mixed)
    held = [
        Typed(one.kind, one.to_arrow().take(pa.array(rows)), one.valid[rows]).to_python() for one in found
    ]
    texts = pa.array([json_text(whole_list(lists)) for lists in zip(*held, strict=True)], pa.large_string())
    place = np.cumsum(mixed) - 1
    yield Typed(MIXED_LIST, texts.take(pa.array(place, mask=~mixed)), mixed)


def _typed(rows: Rows, name: str) -> Typed | None:
    held = [(part, at, r) for part, at, r in rows.by_part() if holds(part, name)]
    if not held:
        return None
    kind = kind_of(held[0][0], name)
    if kind in STORED:
        return _stored(rows, name, kind, held)
    array = rows.column(name)
    return None if array is None else Typed(kind, array, _valid(array))


def _stored(rows: Rows, name: str, kind: str, held: Sequence[tuple[Part, RowIds, RowIds]]) -> Typed:
    found = [numbers(part, name) for part, _, _ in held]
    values = np.zeros(len(rows), np.result_type(*(stored for stored, _ in found)))
    valid = np.zeros(len(rows), np.bool_)
    for (_, at, r), (stored, has) in zip(held, found, strict=True):
        values[at] = stored[r]
        valid[at] = True if has is None else has[r]
    return Typed(kind, values, valid)


def arrow_values(rows: Rows, column: Column) -> pa.Array:
    """A field as one Arrow array.

    One type stays itself; whole and fractional numbers together become float64 where that loses nothing;
    anything else becomes text: texts as they are, other values as JSON.
    """
    return merged(typed_values(rows, column), len(rows))


def merged(found: Sequence[Typed], n: int) -> pa.Array:
    """Typed values as one Arrow array (see `arrow_values`)."""
    if not found:
        return pa.nulls(n)
    if len({t.kind for t in found}) == 1 and found[0].kind in (*STORED, "text") and len(found) == 1:
        return found[0].to_arrow()
    if len(found) == 1 and found[0].kind.startswith(OF_ONE) and found[0].kind != "list of decimal":
        return found[0].to_arrow()
    kinds = {t.kind for t in found}
    if kinds == {"int", "float"} and all(_fits_float(t) for t in found):
        return float_values(found, n)
    if len(kinds) == 1 and found[0].kind in ("int", "float", "text"):
        return pa.array(joined(found, n))
    return pa.array([as_text(v) for v in joined(found, n)], pa.string())


def float_values(found: Sequence[Typed], n: int) -> pa.Array:
    """Numbers of several types as float64, null where there is none; a whole number may be rounded."""
    values, valid = np.zeros(n, np.float64), np.zeros(n, np.bool_)
    for one in found:
        if isinstance(one.values, np.ndarray):
            values[one.valid] = one.values[one.valid]
        else:
            whole = one.to_python()
            values[one.valid] = [_nearest_float(whole[i]) for i in np.flatnonzero(one.valid)]
        valid |= one.valid
    return pa.array(values, mask=~valid)


def _nearest_float(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def python_values(rows: Rows, column: Column) -> list[Any]:
    """A field as Python values, None where missing; times stay int nanoseconds."""
    return joined(typed_values(rows, column), len(rows))


def joined(found: Sequence[Typed], n: int) -> list[Any]:
    """Typed values as one list."""
    if len(found) == 1:
        return found[0].to_python()
    out: list[Any] = [None] * n
    for one in found:
        values = one.to_python()
        for i in np.flatnonzero(one.valid).tolist():
            out[i] = values[i]
    return out


def as_text(value: Any) -> str | None:
    """A value of a field of several types as text: texts as they are, others as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json_text(value)


def _fits_float(one: Typed) -> bool:
    if one.kind == "float":
        return True
    values = one.values[one.valid]
    return bool(np.all((values >= -EXACT_FLOAT) & (values <= EXACT_FLOAT)))


def _valid(array: pa.Array) -> Mask:
    return np.array(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _masked(array: pa.Array, valid: Mask) -> pa.Array:
    if len(array) - array.null_count == np.count_nonzero(valid):
        return array
    return array.take(pa.array(np.arange(len(array)), mask=~valid))
