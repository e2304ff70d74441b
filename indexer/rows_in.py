"""Rows from Python as JSON lines: nothing rounded, in blocks, so that a long stream is durable as it goes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from enum import Enum
from typing import Any, TypeGuard

from treering.storage.errors import InputError

from .whole_numbers import is_whole, json_text

BLOCK_BYTES = 1 << 20
"""Encoded bytes after which a block is given: the grain of group commit, as for files."""

BLOCK_S = 1.0
"""Age after which a block is given with the next row: what a slow stream may lose in a crash."""

ROWS_NAME = "rows"
"""Name of the source of rows from Python."""

_NO_VALUE = ("NaTType", "NAType")
_MAX_SCALED_DIGITS = 4000  # 1E+999999999 is a short text and a number that nobody wants written out


def is_rows(given: object) -> TypeGuard[Mapping[str, Any] | Iterable[Mapping[str, Any]]]:
    """Whether `given` is a row or an iterable of rows rather than a path, a file or a table."""
    if isinstance(given, str | bytes | bytearray | memoryview) or hasattr(given, "read"):
        return False
    return isinstance(given, Iterable) and not hasattr(given, "__fspath__")


def row_blocks(rows: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Give `rows` (a single mapping is one row) as blocks of whole JSON lines.

    Where the rows end in an error, what came before it is given first. Raises InputError, naming the position,
    for a row that is no mapping or cannot be written as JSON.
    """
    lines: list[bytes] = []
    size, begun_s = 0, time.monotonic()
    stream = iter((rows,)) if isinstance(rows, Mapping) else iter(rows)
    at = 0
    while True:
        try:
            row = next(stream)
            line = encode_row(row, at)
        except StopIteration:
            break
        except Exception:
            if lines:
                yield b"".join(lines)
            raise
        at += 1
        lines.append(line)
        size += len(line)
        if size >= BLOCK_BYTES or time.monotonic() - begun_s >= BLOCK_S:
            yield b"".join(lines)
            lines, size, begun_s = [], 0, time.monotonic()
    if lines:
        yield b"".join(lines)


def encode_row(row: object, at: int) -> bytes:
    """Give one row as a JSON line; `at` is its position, counted from 0.

    Raises InputError for what is no mapping, and for what holds itself or is nested too deeply.
    """
    check_row(row, at)
    try:
        return encode_value(row) + b"\n"
    except (ValueError, RecursionError, TypeError) as exc:
        raise InputError(f"row {at} cannot be written as JSON: {exc}; give plain values") from exc


def check_row(row: object, at: int) -> None:
    """Raise InputError, naming the position, for a row that is no mapping."""
    if not isinstance(row, Mapping):
        raise InputError(f"row {at} is {_shown(row)}, expected a mapping such as a dict{_hint(row)}")


def encode_value(value: object) -> bytes:
    """Give a Python value as JSON bytes; NaN and the infinities as the tokens that the JSON reader takes.

    Whole numbers of any size are exact, datetimes RFC 3339 with their zone (if they have one), time spans seconds,
    bytes UTF-8 with U+FFFD for what is none. Decimals are numbers where a float holds them exactly, else text.
    """
    plain = value if type(value) is dict else _plain(value)
    try:
        text = _ENCODER.encode(plain)
    except (TypeError, ValueError):  # keys that are no text, or a number of more digits than Python writes
        text = json_text(_deep(value))
    try:
        return text.encode()
    except UnicodeEncodeError:  # half characters: the reader makes U+FFFD of their escapes
        return json_text(_deep(value), ascii_only=True).encode()


def _plain(value: Any) -> Any:
    """Give a value that the encoder knows (members may still be of any kind)."""
    if value is None or isinstance(value, str | bool | int | float | list | tuple | dict):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if type(value).__name__ in _NO_VALUE:
        return None
    if isinstance(value, datetime):
        return _time_text(value)
    if isinstance(value, Decimal):
        return _number_or_text(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date | time_of_day):
        return value.isoformat()
    return _opened(value)


def _opened(value: Any) -> Any:
    """Give the members of containers, the Python values of array libraries' scalars, else text."""
    if isinstance(value, Mapping):
        return dict(value)
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return _of_numpy(value)
    if hasattr(value, "as_py"):
        return value.as_py()
    if hasattr(value, "tolist"):
        return value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return list(value) if isinstance(value, Collection) else str(value)


def _of_numpy(value: Any) -> Any:
    if value.ndim:
        return list(value) if value.dtype.kind in "mM" else value.tolist()
    scalar = value[()]
    if scalar.dtype.kind == "M":
        text = str(scalar)
        return None if text == "NaT" else text
    if scalar.dtype.kind == "m":
        seconds = scalar / scalar.dtype.type(1, "s") if str(scalar) != "NaT" else None
        return seconds if seconds is None else float(seconds)
    plain = scalar.item()
    return plain if type(plain).__module__ != "numpy" else float(plain)


def _time_text(value: datetime) -> str:
    """Give RFC 3339; an offset with seconds (local mean time), which it has not, as UTC."""
    offset = value.utcoffset()
    if offset is not None and offset.total_seconds() % 60:
        value = value.astimezone(UTC)
    return value.isoformat()


def _number_or_text(value: Decimal) -> int | float | str | Decimal:
    if not value.is_finite():
        return float(value) if not value.is_snan() else math.nan
    if value.adjusted() < _MAX_SCALED_DIGITS and int(value.as_tuple().exponent) >= 0:
        return int(value)  # by the scale, so that 2.00 is a float as 2.50 is
    if is_whole(value):
        return value
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)


def _deep(value: Any, path: tuple[int, ...] = ()) -> Any:
    """Give `value` with text for keys, and every member as the encoder knows it."""
    plain = _plain(value)
    if isinstance(plain, dict | list | tuple):
        if id(value) in path:
            raise ValueError("it holds itself")
        path = (*path, id(value))
        if isinstance(plain, dict):
            return {_key(key): _deep(item, path) for key, item in plain.items()}
        return [_deep(item, path) for item in plain]
    return (
        plain
        if plain is None or isinstance(plain, str | bool | int | float | Decimal)
        else _deep(plain, path)
    )


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    plain = _plain(key)
    if isinstance(plain, str):
        return plain
    return _ENCODER.encode(plain) if plain is None or isinstance(plain, bool | int | float) else str(plain)


def _shown(row: object) -> str:
    return "None" if row is None else f"of type {type(row).__name__}"


def _hint(row: object) -> str:
    is_path = isinstance(row, str) or hasattr(row, "__fspath__")
    return "; give several paths as arguments of their own" if is_path else ""


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
