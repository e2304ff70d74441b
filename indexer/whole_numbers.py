"""Whole numbers of any size: digits to values and back, and JSON that holds them.

Python refuses to convert more digits than its settings allow, and takes time in their square below that.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, TypeGuard

MAX_INT_DIGITS = 640
"""Digits of the largest `int`: no setting of Python refuses as many.

Longer numbers are `Decimal`, which is as exact, compares and hashes with int and float by value, and takes time in
proportion to the digits.
"""

_MAX_INT_BITS = 2120  # a number of so many bits has at most 639 digits
_ONE = Decimal(1)


class BigInt(str):
    """A whole number of more than MAX_INT_DIGITS digits out of JSON, as its digits."""

    __slots__ = ()


def read_int(digits: str) -> int | BigInt:
    """Give a whole number of JSON for a reader that only passes it on."""
    return int(digits) if len(digits) <= MAX_INT_DIGITS else BigInt(digits)


def whole_number(digits: str) -> int | Decimal:
    """Give the value of a whole number by its digits, for one that compares, sorts or shows it."""
    return int(digits) if len(digits) <= MAX_INT_DIGITS else Decimal(digits)


def digits_of(value: int | Decimal) -> str:
    """Give the digits of a whole number."""
    if isinstance(value, int) and value.bit_length() <= _MAX_INT_BITS:
        return str(value)
    return format(Decimal(value), "f")


def is_whole(value: object) -> TypeGuard[int | Decimal]:
    """Whether a value is a whole number as `whole_number` gives it."""
    if isinstance(value, Decimal):
        return value.same_quantum(_ONE)
    return isinstance(value, int) and not isinstance(value, bool)


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """Give JSON of plain values, whole numbers of any size as their digits; NaN and infinities as Python spells them.

    ascii_only: escape all else, so that half characters can be written.
    """
    pieces: list[str] = []
    _write(value, pieces, json.JSONEncoder(ensure_ascii=ascii_only))
    return "".join(pieces)


def _write(value: Any, pieces: list[str], encoder: json.JSONEncoder) -> None:
    if isinstance(value, dict):
        mark = "{"
        for key, item in value.items():
            pieces += (mark, encoder.encode(key), ":")
            _write(item, pieces, encoder)
            mark = ","
        pieces.append("}" if value else "{}")
    elif isinstance(value, list | tuple):
        mark = "["
        for item in value:
            pieces.append(mark)
            _write(item, pieces, encoder)
            mark = ","
        pieces.append("]" if value else "[]")
    elif isinstance(value, BigInt):
        pieces.append(str(value))
    else:
        pieces.append(digits_of(value) if is_whole(value) else encoder.encode(value))
