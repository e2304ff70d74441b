"""Arrow columns as original fields: the columns by path and type that the same rows would give as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.errors import InputError
from treering.storage.schema import PATH_TYPES

from .blobs import mark_blobs
from .flatten import Flattener, beside
from .jsonl import load
from .rows_in import encode_value

JSON_MARK = {b"treering": b"json"}
"""Metadata of a binary column whose cells are JSON: values of several types, which Arrow has no column for."""

_MARKED_LENGTH = 64
_BIG = 1 << 63
_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

Found = dict[str, pa.Array]
"""Columns of one path by type code."""


def original_columns(table: pa.Table) -> dict[str, pa.Array]:
    """Give the columns `path#type` of a table, ordered as the rows' values come.

    What Arrow and JSON both have stays as it is. Structs become dotted paths, times RFC 3339, time spans seconds,
    bytes text; every other type goes through JSON. Raises InputError for a column that cannot be read.
    """
    columns: dict[str, pa.Array] = {}
    rank: dict[str, tuple[int, bool]] = {}
    for field in sorted(
        table.schema, key=lambda field: "." in field.name
    ):  # a key with a dot wins over nesting
        for path, found in _read(field, table.column(field.name)):
            _overlay(columns, path, found)
            for name in (name for code in PATH_TYPES if (name := f"{path}#{code}") in columns):
                if name not in rank:
                    rank[name] = (_first_value(columns[name]), "." in field.name)
    order = {field.name: at for at, field in enumerate(table.schema)}
    names = sorted(columns, key=lambda name: (*rank[name], _position(name, order)))
    return {name: columns[name] for name in names if columns[name].null_count < table.num_rows}


def python_values(field: pa.Field, column: pa.ChunkedArray) -> list[Any]:
    """Give the values of a column as the JSON reader gives them."""
    return _json_values(field, _one_array(column))


def _read(field: pa.Field, column: pa.ChunkedArray) -> Iterator[tuple[str, Found]]:
    try:
        yield from _leaves(field.name, field, _one_array(column))
    except (pa.ArrowException, ValueError, OverflowError) as exc:
        told = str(exc).partition("\n")[0]
        raise InputError(f"column {field.name!r} ({field.type}): {told}; cast it or leave it out") from exc


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _leaves(path: str, field: pa.Field, array: pa.Array) -> Iterator[tuple[str, Found]]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _leaves(path, field.with_type(kind.value_type), array.dictionary_decode())
    elif pa.types.is_struct(kind) and kind.num_fields:
        for child, values in zip(kind, array.flatten(), strict=True):
            yield from _leaves(f"{path}.{child.name}", child, values)
    else:
        found = None if is_json(field) else _plain(array)
        if found is not None:
            yield path, found
        else:
            yield from _through_json(path, _json_values(field, array))


def _plain(array: pa.Array) -> Found | None:
    """Give the columns of an array of a type that JSON has too, None for any other."""
    kind = array.type
    if pa.types.is_null(kind):
        return {}
    if pa.types.is_boolean(kind):
        return {"b": array}
    if pa.types.is_integer(kind):
        return _integers(array)
    if pa.types.is_floating(kind):
        return {"f": array.cast(pa.float64())}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return {"s": _marked(array.cast(pa.string()))}
    if pa.types.is_timestamp(kind):
        return {"s": _time_texts(array)}
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return {"s": array.cast(pa.string())}
    if pa.types.is_duration(kind):
        counts = array.cast(pa.int64()).cast(pa.float64(), safe=False)
        return {"f": pc.divide(counts, float(_PER_S[kind.unit]))}
    return _lists(array)


def _integers(array: pa.Array) -> Found:
    if array.type != pa.uint64():
        return {"i": array.cast(pa.int64())}
    is_big = pc.greater_equal(array, pa.scalar(_BIG, pa.uint64()))
    small = pc.if_else(is_big, pa.scalar(None, pa.uint64()), array).cast(pa.int64())
    if not pc.any(is_big).as_py():
        return {"i": small}
    return {"i": small, "z": pc.if_else(is_big, array.cast(pa.string()), pa.scalar(None, pa.string()))}


def _lists(array: pa.Array) -> Found | None:
    """Give lists of numbers or bools; an empty list is one of texts, as in JSON, where nothing tells."""
    kind = array.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return None
    code = _code_of_items(kind.value_type)
    if code is None or array.flatten().null_count:
        return None
    lists = array.cast(PATH_TYPES[code])
    if lists.null_count:  # copied, because a null may still hold items, which some functions of Arrow count
        lists = lists.take(pa.array(np.arange(len(lists))))
    is_empty = pc.equal(pc.list_value_length(lists), 0)
    if not pc.any(is_empty).as_py():
        return {code: lists}
    nothing = pa.scalar(None, lists.type)
    empty = pc.if_else(is_empty, pa.scalar([], PATH_TYPES["[s]"]), pa.scalar(None, PATH_TYPES["[s]"]))
    return {code: pc.if_else(is_empty, nothing, lists), "[s]": empty}


def _code_of_items(kind: pa.DataType) -> str | None:
    if pa.types.is_boolean(kind):
        return "[b]"
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return "[i]"
    return "[f]" if pa.types.is_floating(kind) else None


def _marked(texts: pa.Array) -> pa.Array:
    """Give texts with base64 payloads as markers."""
    long = np.flatnonzero(
        np.asarray(pc.fill_null(pc.greater_equal(pc.utf8_length(texts), _MARKED_LENGTH), False))
    )
    values = texts.take(pa.array(long)).to_pylist()
    marked = [mark_blobs(value) for value in values]
    if marked == values:
        return texts
    mask = np.zeros(len(texts), np.bool_)
    mask[long] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(marked, pa.string()))


def _time_texts(array: pa.Array) -> pa.Array:
    """Give RFC 3339 with the zone of the column (none: none), spelled as Python spells datetimes."""
    zone = array.type.tz
    try:
        texts = pc.strftime(array, "%Y-%m-%dT%H:%M:%S%z" if zone else "%Y-%m-%dT%H:%M:%S")
    except pa.ArrowInvalid:  # a zone that this machine does not know: the same instants in UTC
        texts = pc.binary_join_element_wise(
            pc.strftime(array.cast(pa.timestamp(array.type.unit)), "%Y-%m-%dT%H:%M:%S"), "+0000", ""
        )
    for pattern, put in (
        (r"\.0+([+-]|$)", r"\1"),
        (r"(\.[0-9]{3})([+-]|$)", r"\1000\2"),
        (r"(\.[0-9]{6})000([+-]|$)", r"\1\2"),
        (r"([+-][0-9]{2})([0-9]{2})$", r"\1:\2"),
    ):
        texts = pc.replace_substring_regex(texts, pattern, put)
    return texts


def _json_values(field: pa.Field, array: pa.Array) -> list[Any]:
    """Give the values of an array as the JSON reader gives them; a map is an object."""
    if is_json(field):
        cells: Iterable[bytes | None] = array.to_pylist()
    else:
        values = array.to_pylist()
        if pa.types.is_map(array.type):
            values = [None if value is None else dict(value) for value in values]
        cells = (None if value is None else encode_value(value) for value in values)
    return [None if cell is None else load(b'{"v":%b}' % cell)["v"] for cell in cells]


def is_json(field: pa.Field) -> bool:
    """Whether the cells of a column are JSON, see `JSON_MARK`."""
    return bool(field.metadata) and JSON_MARK.items() <= field.metadata.items()


def _through_json(path: str, values: Sequence[Any]) -> Iterator[tuple[str, Found]]:
    flat = Flattener()
    for row, value in enumerate(values):
        flat.add(row, {path: value})
    by_path: dict[str, Found] = {}
    for name, array in flat.arrays(len(values)).items():
        inner, _, code = name.rpartition("#")
        by_path.setdefault(inner, {})[code] = array
    yield from by_path.items()


def _overlay(columns: dict[str, pa.Array], path: str, found: Found) -> None:
    """Put the columns of a path; where two fields of a row have one path, the later is its value (see `beside`)."""
    held = {code: columns[name] for code in PATH_TYPES if (name := f"{path}#{code}") in columns}
    if held and found:
        twice = pc.and_(
            _any([a.is_valid() for a in held.values()]), _any([a.is_valid() for a in found.values()])
        )
        rows = np.flatnonzero(np.asarray(twice))
        if len(rows):
            held, found = _both(held, found, rows)
    for code, array in found.items():
        columns[f"{path}#{code}"] = pc.coalesce(array, held[code]) if code in held else array
    for code in held.keys() - found.keys():
        columns[f"{path}#{code}"] = held[code]


def _both(held: Found, found: Found, rows: npt.NDArray[np.intp]) -> tuple[Found, Found]:
    """Give the columns of two fields such that in these rows the later holds what both have, the earlier nothing."""
    n_rows, at = len(next(iter(found.values()))), pa.array(rows)
    cells = [beside(value, other) for value, other in zip(_cells(found, at), _cells(held, at), strict=True)]
    place = np.full(n_rows, -1, np.int64)
    place[rows] = np.arange(len(rows))
    both = {
        code: pa.array([one.get(code) for one in cells], PATH_TYPES[code]).take(
            pa.array(place, mask=place < 0)
        )
        for code in dict.fromkeys([*found, *(code for one in cells for code in one)])
    }
    kept = _cleared(found, place >= 0)
    return _cleared(held, place >= 0), {
        code: pc.coalesce(array, kept[code]) if code in kept else array for code, array in both.items()
    }


def _cleared(found: Found, rows: npt.NDArray[np.bool_]) -> Found:
    mask = pa.array(rows)
    return {code: pc.if_else(mask, pa.scalar(None, array.type), array) for code, array in found.items()}


def _cells(found: Found, rows: pa.Array) -> list[dict[str, Any]]:
    """Give what these rows hold, by type code."""
    columns = {code: array.take(rows).to_pylist() for code, array in found.items()}
    return [
        {code: values[i] for code, values in columns.items() if values[i] is not None}
        for i in range(len(rows))
    ]


def _any(masks: list[pa.Array]) -> pa.Array:
    result = masks[0]
    for mask in masks[1:]:
        result = pc.or_(result, mask)
    return result


def _first_value(array: pa.Array) -> int:
    first = pc.index(array.is_valid(), True).as_py()
    return len(array) if first < 0 else int(first)


def _position(name: str, order: Mapping[str, int]) -> int:
    """Give the place in its table of the column that a path comes from."""
    path = name.rpartition("#")[0]
    while path not in order and "." in path:
        path = path.rpartition(".")[0]
    return order.get(path, len(order))
