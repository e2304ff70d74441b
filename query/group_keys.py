"""Values of a field as numbers that are equal where the values are: what groups and counts of distinct values go by.

Two values are one when `=` says so: numbers by value, whatever their type, and a text never with a number or bool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.indexer.whole_numbers import digits_of

from .cells import dumps
from .field_values import Typed
from .mixed_lists import KIND as MIXED_LIST
from .mixed_lists import pieces_of_list
from .pieces import PIECE_TYPES

Key = tuple[Any, ...]
"""What makes a value equal to another: its class and the value. Python compares int with float exactly."""

NUMBER, NOT_A_NUMBER, LEVEL, BOOL, TEXT, LIST, OBJECT = range(7)
"""Classes of values, in the order in which groups come."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A field by row as codes of its distinct values, which ascend.

    codes: int64 (n), -1 where missing. values, kinds: of each code; the kind is that of the first column that
    holds the value, as `kinds.kind_of` calls it.
    """

    codes: npt.NDArray[np.int64]
    values: list[Any]
    kinds: list[str]

    def pieces(self, codes: Sequence[int | None]) -> Iterator[tuple[str, pa.Array]]:
        """The values of some codes as one array for each kind that occurs in the field."""
        held = [_by_kind(value, kind) for value, kind in zip(self.values, self.kinds, strict=True)]
        for kind in dict.fromkeys(kind for one in held for kind in one):
            mine = [None if c is None else held[c].get(kind) for c in codes]
            yield kind, pa.array([_stored(value, kind) for value in mine], PIECE_TYPES[kind])


def coded(found: Sequence[Typed], n: int) -> Coded:
    """Give the codes of typed values."""
    codes = np.full(n, -1, np.int64)
    places: dict[Key, int] = {}
    held: list[tuple[Any, str]] = []
    for one in found:
        distinct, inverse = _distinct(one)
        mine = np.empty(len(distinct), np.int64)
        for i, value in enumerate(distinct):
            mine[i] = places.setdefault(key_of(value, one.kind), len(held))
            if mine[i] == len(held):
                held.append((value, one.kind))
            elif one.kind in ("int", "decimal"):  # a whole number is told as one, whichever column came first
                held[mine[i]] = value, one.kind
        codes[one.valid] = mine[inverse]
    order = sorted(places, key=_rank)
    renamed = np.empty(len(held) + 1, np.int64)
    renamed[[places[key] for key in order]] = np.arange(len(order))
    renamed[-1] = -1
    values = [held[places[key]] for key in order]
    return Coded(renamed[codes], [value for value, _ in values], [kind for _, kind in values])


def key_of(value: Any, kind: str = "") -> Key:
    """What makes a value equal to another; kind matters for severities alone, which are numbers as stored."""
    if kind == "level":
        return LEVEL, value
    if isinstance(value, bool):
        return BOOL, value
    if isinstance(value, (int, float, Decimal)):
        return (NUMBER, value) if value == value else (NOT_A_NUMBER,)
    if isinstance(value, str):
        return TEXT, value
    if isinstance(value, list):
        return LIST, *(None if item is None else key_of(item) for item in value)
    return (OBJECT,)


def _rank(key: Key) -> tuple[int, Any]:
    """Order of keys: by class, then by value; lists by their spelling."""
    if key[0] == LIST:
        return LIST, dumps(key[1:])
    return key[0], key[1] if len(key) > 1 else 0


def _distinct(one: Typed) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Distinct values as Python has them (severities by code), and which of them each valid row has."""
    if isinstance(one.values, np.ndarray):
        values, inverse = np.unique(signless(one.values[one.valid]), return_inverse=True)
        return values.tolist(), np.asarray(inverse, np.int64)
    if one.kind == "text":
        encoded = one.values.filter(pa.array(one.valid)).dictionary_encode()
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, np.int64)
    held = [value for value, ok in zip(one.to_python(), one.valid.tolist(), strict=True) if ok]
    return held, np.arange(len(held), dtype=np.int64)


def signless(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values with one zero: -0.0 equals 0.0."""
    return values + 0.0 if values.dtype.kind == "f" else values


def _by_kind(value: Any, kind: str) -> dict[str, Any]:
    """A value by its kind, a list of several types by those of its elements."""
    return pieces_of_list(value) if kind == MIXED_LIST else {kind: value}


def _stored(value: Any, kind: str) -> Any:
    """A value as a table keeps it; whole numbers of any size are text."""
    if value is None:
        return None
    if kind == "object":
        return True
    if kind == "decimal":
        return digits_of(value)
    if kind == "list of decimal":
        return [None if item is None else digits_of(item) for item in value]
    return value
