"""Canonical fields out of original columns: native names, types and units made one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.batch import TS_ORIGINS
from treering.storage.schema import ARROW_TYPES, CANONICAL, PATH_TYPES

from .levels import code_of_number, code_of_otel, code_of_python, code_of_word
from .messages import find
from .native_names import FIELD_PATHS, LEVEL_PATHS, OBSERVED_PATHS, PREFIXES, TIME_PATHS
from .times import parse_time

_UNITS_NS = {"UnixNano": 1, "_ns": 1, "_us": 1_000, "_ms": 1_000_000}

_DURATION = re.compile(r'"?(\d+(?:\.\d+)?)\s*(ns|us|µs|μs|ms|s|m|h)"?')
_UNIT_S = {
    "ns": "1e-9",
    "us": "1e-6",
    "µs": "1e-6",
    "μs": "1e-6",
    "ms": "1e-3",
    "s": "1",
    "m": "60",
    "h": "3600",
}
_ID_PATH = re.compile(
    r"(?:^|[._-])(?:u?u?id|guid|hash|sha256|etag|ids)$|[a-z](?:Id|ID|Ids|Hash)$|^ID$", re.ASCII
)
_RECORD, _OBSERVED, _INGEST = (TS_ORIGINS.index(name) for name in ("record", "observed", "ingest"))


def record_time(
    record: Mapping[str, Any], now_ns: int, *, tz: tzinfo = UTC, path: str | None = None
) -> tuple[int, int]:
    """Give a record's time and where it came from (an index into `TS_ORIGINS`).

    The first usable of `path` (if given) and `TIME_PATHS`, then of `OBSERVED_PATHS`, else `now_ns`. Zero
    nanoseconds in an OpenTelemetry field means unknown.
    """
    for paths, origin in (
        ((path,) if path else (), _RECORD),
        (TIME_PATHS, _RECORD),
        (OBSERVED_PATHS, _OBSERVED),
    ):
        for name in paths:
            value = record.get(name) if name != path else find(record, name)
            if value is None:
                continue
            ns = parse_time(value, tz, unit_ns(name))
            if ns is not None and not (ns == 0 and name.endswith("UnixNano")):
                return ns, origin
    return now_ns, _INGEST


@lru_cache(maxsize=256)
def unit_ns(path: str) -> int | None:
    """Give the unit in nanoseconds that the name of a time says (`_ms`, `UnixNano`), None where it says none."""
    return next((unit for suffix, unit in _UNITS_NS.items() if path.endswith(suffix)), None)


def canonical_columns(
    columns: Mapping[str, pa.Array], n_rows: int, overrides: Mapping[str, str] | None = None
) -> dict[str, pa.Array]:
    """Give the canonical fields that `columns` (`path#type` by name) hold, by name.

    overrides: canonical field to native path, taken in place of the field's own list. A row gets the first
    path that has a value of a fitting type: numbers for numbers (and Rust durations such as ``1.2s`` for
    times), strings and integers for text, texts or lists of them for lists of text.
    """
    overrides = overrides or {}
    found = {}
    for field in CANONICAL:
        if field.name in ("severity", "level"):
            continue
        paths = overrides.get(field.name) or FIELD_PATHS.get(field.name, field.name)
        specs = [paths] if field.name in overrides else paths.split()
        array = _first_of(columns, field.type, specs, field.name)
        if array is not None:
            found[field.name] = array
    found.update(_levels(columns, n_rows, overrides))
    _fold_ids(found)
    return found


def joined_texts(
    columns: Mapping[str, pa.Array], rows: np.ndarray[Any, np.dtype[np.bool_]]
) -> pa.Array | None:
    """Give the texts of each row in `rows` (bool) joined by blanks; no ids, times or levels."""
    texts = [_as_text(array).to_pylist() for name, array in columns.items() if is_prose(name)]
    if not texts:
        return None
    joined = [
        " ".join(filter(None, row)) if wanted else "" for wanted, *row in zip(rows, *texts, strict=True)
    ]
    return pa.array([text or None for text in joined], pa.string())


def is_prose(name: str) -> bool:
    """Whether a column (`path#type`) holds texts for people: no ids, times or levels."""
    path, _, code = name.rpartition("#")
    last = path.rpartition(".")[2]
    if code not in ("s", "[s]") or path in TIME_PATHS or path in OBSERVED_PATHS or path in LEVEL_PATHS:
        return False
    return not (_ID_PATH.search(path) or last in TIME_PATHS or last.endswith(("Time", "_time", "_at", "At")))


def _as_text(array: pa.Array) -> pa.Array:
    if not pa.types.is_list(array.type):
        return array
    if not array.flatten().null_count:
        return pc.binary_join(array, " ")
    return pa.array(
        [None if items is None else join_texts(items) for items in array.to_pylist()], pa.string()
    )


def join_texts(items: list[str | None]) -> str:
    """Give the texts of a list joined by blanks; members of other types are null among them."""
    return " ".join(item for item in items if item is not None)


def _first_of(columns: Mapping[str, pa.Array], type_: str, specs: list[str], name: str) -> pa.Array | None:
    found: pa.Array | None = None
    for spec in specs:
        path, star, factor = spec.rpartition("*")
        if not star or not _is_number(factor):
            path, factor = spec, "1"
        for prefix in PREFIXES:
            array = _read(columns, prefix + path, type_, float(factor), name)
            if array is None or array.null_count == len(array):
                continue
            found = array if found is None else pc.coalesce(found, array)
        if found is not None and found.null_count == 0:
            break
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read(
    columns: Mapping[str, pa.Array], path: str, type_: str, factor: float, name: str
) -> pa.Array | None:
    """Give the values at `path` as `type_`, null where none fits; None where no column does."""
    arrays = [
        _convert(columns[key], code, type_, factor, name)
        for code in _CODES[type_]
        if (key := f"{path}#{code}") in columns
    ]
    arrays = [array for array in arrays if array is not None]
    if not arrays:
        return None
    found = arrays[0] if len(arrays) == 1 else pc.coalesce(*arrays)
    return _of_one_type(columns, path, found) if type_ == "floats" else found


def _of_one_type(columns: Mapping[str, pa.Array], path: str, found: pa.Array) -> pa.Array:
    """Give what was read without lists that mix types: their numbers are no series."""
    lists = [
        columns[key].is_valid()
        for code in PATH_TYPES
        if code[0] == "[" and (key := f"{path}#{code}") in columns
    ]
    if len(lists) < 2:
        return found
    is_mixed = np.add.reduce([np.asarray(is_valid, np.int8) for is_valid in lists]) > 1
    return pc.if_else(pa.array(is_mixed), pa.scalar(None, found.type), found) if is_mixed.any() else found


_CODES = {
    "int": ("i", "f"),
    "float": ("f", "i", "s"),
    "bool": ("b",),
    "text": ("s", "i", "z", "[s]"),
    "texts": ("[s]", "s"),
    "floats": ("[f]", "[i]", "f", "i"),
}


def _convert(array: pa.Array, code: str, type_: str, factor: float, name: str) -> pa.Array | None:
    target = ARROW_TYPES[type_]
    if type_ == "text":
        if code == "[s]":  # one finish reason of several choices; a list of prompts is no prompt
            return pc.binary_join(array, ",") if name == "finish_reason" else None
        return array if code == "s" else array.cast(pa.string())
    if type_ == "texts":
        return array if code == "[s]" else _wrapped(array)
    if type_ == "int":
        whole = array if code == "i" else _whole(array)
        return (
            whole
            if factor == 1
            else pc.multiply(whole.cast(pa.float64(), safe=False), factor).cast(pa.int64(), safe=False)
        )
    if type_ == "float":
        return _durations(array, name) if code == "s" else _scaled(array, factor)
    if type_ == "floats":
        return _float_lists(array, code, factor)
    return array.cast(target)


def _whole(array: pa.Array) -> pa.Array:
    values = array.to_numpy(zero_copy_only=False).astype(np.float64)
    is_whole = (values == np.floor(values)) & (np.abs(values) < 2.0**63)
    return pa.array(np.where(is_whole, values, 0).astype(np.int64), mask=~is_whole)


def _scaled(array: pa.Array, factor: float) -> pa.Array:
    numbers = array.cast(pa.float64(), safe=False)
    # Dividing by a whole number rounds once: 812 ms is 0.812 s, not 0.8120000000000001.
    return (
        numbers
        if factor == 1
        else pc.divide(numbers, round(1 / factor))
        if factor < 1
        else pc.multiply(numbers, factor)
    )


def _durations(array: pa.Array, name: str) -> pa.Array | None:
    if not name.endswith("_s"):
        return None
    matches = [_DURATION.fullmatch(text) if text else None for text in array.to_pylist()]
    seconds = [float(Decimal(m[1]) * Decimal(_UNIT_S[m[2]])) if m else None for m in matches]
    return pa.array(seconds, pa.float64())


def _wrapped(array: pa.Array) -> pa.Array:
    offsets = np.zeros(len(array) + 1, np.int32)
    offsets[1:] = np.cumsum(array.is_valid())
    present = array.drop_null()
    mask = pa.array(np.asarray(array.is_null()))
    return pa.ListArray.from_arrays(pa.array(offsets), present, mask=mask)


def _float_lists(array: pa.Array, code: str, factor: float) -> pa.Array:
    lists = array if code.startswith("[") else _wrapped(array)
    floats = lists.cast(pa.list_(pa.float64()), safe=False)
    if factor == 1:
        return floats
    scaled = _scaled(floats.values, factor)
    return pa.ListArray.from_arrays(floats.offsets, scaled, mask=pa.array(np.asarray(floats.is_null())))


def _levels(
    columns: Mapping[str, pa.Array], n_rows: int, overrides: Mapping[str, str]
) -> dict[str, pa.Array]:
    given = overrides.get("level") or overrides.get("severity")
    codes = np.zeros(n_rows, np.uint8)
    severity: pa.Array | None = None
    for path in (given,) if given else LEVEL_PATHS:
        for prefix in PREFIXES:
            words = columns.get(f"{prefix}{path}#s")
            if words is not None:
                severity = words if severity is None else pc.coalesce(severity, words)
                codes = np.where(codes == 0, _word_codes(words), codes)
            numbers = columns.get(f"{prefix}{path}#i")
            if numbers is not None:
                codes = np.where(codes == 0, _number_codes(numbers, path), codes)
    found = {} if severity is None else {"severity": severity}
    if codes.any():
        found["level"] = pa.array(codes, pa.uint8(), mask=codes == 0)
    return found


def _word_codes(words: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    encoded = words.dictionary_encode()
    table = np.array([code_of_word(word) for word in encoded.dictionary.to_pylist()] + [0], np.uint8)
    codes: np.ndarray[Any, np.dtype[np.uint8]] = table[encoded.indices.fill_null(len(table) - 1).to_numpy()]
    return codes


def _number_codes(numbers: pa.Array, path: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    read = {"levelno": code_of_python, "severityNumber": code_of_otel, "severity_number": code_of_otel}.get(
        path, code_of_number
    )
    return np.array([0 if n is None else read(n) for n in numbers.to_pylist()], np.uint8)


def _fold_ids(found: dict[str, pa.Array]) -> None:
    """Make hex trace ids comparable: lower case, and an empty id is no id."""
    for name in ("trace_id", "span_id", "parent_span_id"):
        if name in found:
            ids = found[name]
            hexes = pc.match_substring_regex(ids, "^[0-9a-fA-F]+$")
            folded = pc.if_else(hexes, pc.utf8_lower(ids), ids)
            found[name] = pc.if_else(pc.equal(folded, ""), pa.scalar(None, pa.string()), folded)
