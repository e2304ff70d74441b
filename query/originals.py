"""The original fields of events, under their own names and in their own order."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from treering.indexer.whole_numbers import whole_number
from treering.storage.part import Part
from treering.storage.schema import split_physical

from .bound import Column
from .field_values import python_values
from .kinds import by_code
from .rows import RowIds, Rows, holds

LONG_NUMBER = re.compile(rb"[0-9]{18}")
"""Where a number may be beyond 64 bits, which the fast parser would round."""

TEXT_FIELDS = ("level", "logger", "process", "pid", "body")
"""What a line of plain text is taken apart into."""

PLACE_FIELDS = ("source", "source_line")
"""Where a line of plain text came from."""

Record = dict[str, Any]


def originals(rows: Rows, *, finite: bool = True) -> list[Record]:
    """The original fields of each row, fit for JSON: NaN and infinities None, half characters replaced.

    With finite=False NaN and infinities stay.
    """
    out: list[Record] = [{}] * len(rows)
    for part, positions, row_ids in rows.by_part():
        for at, record in zip(
            positions.tolist(), _of_part(rows, part, positions, row_ids, finite=finite), strict=True
        ):
            out[at] = record
    return out


def _of_part(rows: Rows, part: Part, positions: RowIds, row_ids: RowIds, *, finite: bool) -> list[Record]:
    found = [_parsed(raw, finite=finite) for raw in _raw(part, row_ids)]
    rest = [i for i, (record, _) in enumerate(found) if record is None]
    out: list[Record] = [record or {} for record, _ in found]
    if rest:
        rebuilt = _rebuilt(rows.take(positions[rest]), part, [found[i][1] for i in rest], finite=finite)
        for i, record in zip(rest, rebuilt, strict=True):
            out[i] = record
    return out


def _raw(part: Part, rows: RowIds) -> list[bytes | None]:
    try:
        column: pa.Array = part.column("record", rows)
    except KeyError:  # the part's columns are its records
        return [None] * len(rows)
    return list(column.to_pylist())


def _parsed(raw: bytes | None, *, finite: bool) -> tuple[Record | None, bool]:
    """A JSON record as a dict, else None; and whether it is a line of text."""
    if raw is None:
        return None, False
    text = raw.strip()
    if not text.startswith(b"{"):
        return None, True
    if LONG_NUMBER.search(text):
        return _parsed_leniently(text, finite=finite)
    try:
        return orjson.loads(text), False
    except orjson.JSONDecodeError:
        return _parsed_leniently(text, finite=finite)


def _parsed_leniently(text: bytes, *, finite: bool) -> tuple[Record | None, bool]:
    """The same with exact long numbers, and for NaN, Infinity, half characters and bad UTF-8."""
    try:
        record = json.loads(text.decode("utf-8", "replace"), strict=False, parse_int=whole_number)
    except (ValueError, RecursionError):
        return None, True
    return (json_safe(record, finite=finite), False) if isinstance(record, dict) else (None, True)


def json_safe(value: Any, *, finite: bool = True) -> Any:
    """A value that strict JSON and UTF-8 can hold; with finite=False NaN and infinities stay."""
    if isinstance(value, float):
        return value if math.isfinite(value) or not finite else None
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, dict):
        return {json_safe(k): json_safe(v, finite=finite) for k, v in value.items()}
    if isinstance(value, list):
        return [json_safe(v, finite=finite) for v in value]
    return value


def spelt(value: Any) -> Any:
    """The same for a statistic or a group, where null means that there is none: `NaN`, `Infinity` as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return [spelt(item) for item in value] if isinstance(value, list) else json_safe(value)


def _rebuilt(rows: Rows, part: Part, is_text: list[bool], *, finite: bool) -> list[Record]:
    """Records of rows that keep no JSON: lines of text, and rows of tables."""
    texts = [Column(name, (name,), "text") for name in TEXT_FIELDS if holds(part, name)]
    places = [Column(name, (name,), "text") for name in PLACE_FIELDS if holds(part, name)]
    paths: dict[str, list[str]] = {}
    for name in part.fields:
        path, code = split_physical(name)
        if code:
            paths.setdefault(path, []).append(name)
    found = [Column(path, by_code(names), "mixed") for path, names in paths.items()]
    out: list[Record] = [{} for _ in range(len(rows))]
    chosen = np.asarray(is_text, np.bool_)
    _put(out, rows, np.flatnonzero(chosen), texts, finite=finite)
    _put(out, rows, np.arange(len(rows)), found, finite=finite)
    _put(out, rows, np.flatnonzero(chosen), places, finite=finite)
    return out


def _put(out: list[Record], rows: Rows, places: RowIds, columns: list[Column], *, finite: bool) -> None:
    if not len(places):
        return
    some = rows.take(places)
    for column in columns:
        for at, value in zip(places.tolist(), python_values(some, column), strict=True):
            if value is not None and column.name not in out[at]:
                out[at][column.name] = json_safe(value, finite=finite)
