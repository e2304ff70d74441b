"""What a meaning is compared with: vectors of unit length, and the texts of an event that they are for."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.indexer.whole_numbers import digits_of
from treering.storage.batch import PART_FIELDS
from treering.storage.errors import QueryError

from .aliases import fold_name
from .ast import Name
from .bound import Column
from .literals import MAX_DIGITS

_NUMBER = re.compile(rf"-?[0-9]{{1,{MAX_DIGITS}}}")

Vector = npt.NDArray[np.float32]

MAX_FLOAT32 = float(np.finfo(np.float32).max)


def part_field(name: Name) -> int:
    """Which embedded text a name means."""
    field = fold_name(name.text)
    if field not in PART_FIELDS:
        raise QueryError(
            f"{name.text} is not compared by meaning, only {', '.join(PART_FIELDS)} are: "
            'write `~ "text"` for all of them',
            position=name.position,
        )
    return PART_FIELDS.index(field)


def unit_vector(given: Any, what: str) -> Vector:
    """Give a vector as float32 of unit length. Raises QueryError for what is none."""
    if given is None or isinstance(given, (bool, int, float, bytes, dict, set)):
        raise QueryError(f"{what} is {given!r:.60}: `~` takes a text or a vector")
    try:
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise QueryError(f"{what} is no vector: give a one-dimensional array of numbers") from None
    if vector.ndim != 1 or not len(vector):
        raise QueryError(f"{what} has the shape {vector.shape}: give a one-dimensional vector")
    if not (np.abs(vector) <= MAX_FLOAT32).all():
        raise QueryError(f"{what} holds NaN, an infinity or a number beyond float32: give finite numbers")
    length = float(np.linalg.norm(vector))
    if length == 0:
        raise QueryError(f"{what} has the length 0: it points nowhere")
    return (vector / length).astype(np.float32)


def spellings(column: Column, value: Any) -> list[Any]:
    """The value as the column may hold it: an id that looks like a number may be stored as text."""
    if isinstance(value, bool):
        return [value]
    if isinstance(value, int):
        return [digits_of(value)] if column.type == "text" else [value, digits_of(value)]
    if isinstance(value, str) and _NUMBER.fullmatch(value) and column.type != "text":
        return [value, int(Decimal(value))]
    return [value]
