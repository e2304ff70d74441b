"""Columns of a part: equal ones found, placed hot (mapped) or cold (compressed); and views of them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .part import FieldStats
from .payloads import CUTS
from .residual import RESIDUAL, type_of, unpack_cells
from .schema import split_physical

SYSTEM_HOT = ("ts", "seq")
"""Columns that every part has, hot and without nulls."""

SYSTEM_COLD = ("ts_origin", "source_offset", "source_line")
"""Numbers that are read with the record and never searched."""

FREE_TEXTS = ("body", "prompt", "response", "context_hint")
"""Texts that people or programs write: short as they may be, they are no ids."""

SHORT_TEXT_BYTES = 64
"""Texts of at most this mean length are worth a dictionary even when all differ (ids)."""

DICTIONARY_GAIN = 4
"""Longer texts are, once their distinct values take a quarter of the plain bytes; lz4 gains about as much."""

LONG_TEXT_BYTES = 256
"""Texts of at least this mean length are coded only once it is known to pay: coding needs three times their bytes."""

HOT_BYTES_PER_VALUE = {False: 64, True: 1024}
"""What a hot column may cost for each value it holds; True: canonical fields and signals, often asked for."""

MAX_OFFSET = 2**31 - 1
"""Text bytes or list items that 32-bit offsets reach; a longer column gets 64-bit ones (`large_string`)."""

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]


@dataclass(slots=True)
class Placed:
    """The columns of a part: hot are numbers, bools and dictionary-coded texts (int32 codes), cold the rest.

    Columns with equal values are one and the same array object. residual: the original fields beyond
    MAX_ORIGINAL, which are no columns, by row; None where there are none, overflow: their names. fields:
    statistics of all that hold a value. cuts: where payloads were cut out of the records, by row (`CUTS`); None
    where nothing was.
    """

    hot: dict[str, pa.Array]
    cold: dict[str, pa.Array]
    residual: pa.Array | None
    overflow: frozenset[str]
    fields: dict[str, FieldStats]
    cuts: pa.Array | None = None


def take_columns(columns: Mapping[str, pa.Array], rows: Rows | None) -> dict[str, pa.Array]:
    """Give the columns at `rows` (None: as they are); equal columns stay one object."""
    if rows is None:
        return dict(columns)
    index = pa.array(rows)
    taken: dict[int, pa.Array] = {}
    for array in columns.values():
        if id(array) not in taken:
            taken[id(array)] = array.take(index)
    return {name: taken[id(array)] for name, array in columns.items()}


def place_columns(columns: Mapping[str, pa.Array], n_rows: int) -> Placed:
    """Decide for each column where it lies and how its texts are coded."""
    residual, cuts = columns.get(RESIDUAL), columns.get(CUTS)
    cells = {} if residual is None else unpack_cells(residual)
    columns = {name: array for name, array in columns.items() if name not in (RESIDUAL, CUTS)}
    owners = find_owners(columns)
    hot: dict[str, pa.Array] = {}
    cold: dict[str, pa.Array] = {}
    fields: dict[str, FieldStats] = {}
    for name, owner in sorted(owners.items(), key=lambda pair: pair[0] != pair[1]):
        if name != owner:
            side = hot if owner in hot else cold
            side[name] = side[owner]
        else:
            array, is_hot = _place(name, columns[name], n_rows)
            (hot if is_hot else cold)[name] = array
        if n_rows:
            fields[name] = fields[owner] if name != owner else field_stats(columns[name])
    fields |= {
        name: field_stats(pa.array(values, type_of(name))) for name, (_, values) in sorted(cells.items())
    }
    return Placed(hot, cold, residual if cells else None, frozenset(cells), fields, cuts)


def find_owners(columns: Mapping[str, pa.Array]) -> dict[str, str]:
    """Name, for each column, the one of its equals that is stored: itself, or one that comes before it.

    Times and arrival numbers come first, then canonical names, as they are placed more generously than
    original paths; what is never searched comes last.
    """
    first: dict[int, str] = {}
    for name in sorted(columns, key=precedence):
        first.setdefault(id(columns[name]), name)
    return {name: first[id(array)] for name, array in columns.items()}


def precedence(name: str) -> tuple[bool, bool, bool, str]:
    """Give the rank of a column among its equals, the owner first."""
    return name not in SYSTEM_HOT, name in SYSTEM_COLD, is_original(name), name


def is_original(name: str) -> bool:
    """Whether a physical column is an original field, `path#type`."""
    return split_physical(name)[1] != ""


def field_stats(array: pa.Array) -> FieldStats:
    """Count the values of a column and find the bounds of its numbers."""
    n = len(array) - array.null_count
    if not is_number(array.type) or not n:
        return FieldStats(n)
    values, mask = number_view(array)
    present = values if mask is None else values[mask]
    if values.dtype.kind == "f":
        present = present[~np.isnan(present)]
    return FieldStats(n, present.min().item(), present.max().item()) if len(present) else FieldStats(n)


def number_view(array: pa.Array) -> tuple[Numbers, Bools | None]:
    """Give the values of a number or bool column, and which rows have one (None: all).

    Numbers are a view of the column; bools and the mask are unpacked from bits.
    """
    mask = _bits(array.buffers()[0], array) if array.null_count else None
    if pa.types.is_boolean(array.type):
        return _bits(array.buffers()[1], array), mask
    kind = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, kind), mask
    return np.frombuffer(buffer, kind, len(array), array.offset * kind.itemsize), mask


def code_view(array: pa.DictionaryArray) -> npt.NDArray[np.int32]:
    """Give the codes of a dictionary column, -1 where a row has none."""
    values, mask = number_view(array.indices)
    codes: npt.NDArray[np.int32] = values.astype(np.int32, copy=mask is not None)
    if mask is not None:
        codes[~mask] = -1
    return codes


def is_number(kind: pa.DataType) -> bool:
    """Whether a column type is a number."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column type is text that is not dictionary-encoded."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """Put arrays of one type one after the other, with 64-bit offsets where 32-bit ones are too short."""
    if len(arrays) == 1:
        return arrays[0]
    wide = wide_type(arrays[0].type)
    if wide is not None and sum(_content_length(array) for array in arrays) > MAX_OFFSET:
        arrays = [array.cast(wide) for array in arrays]
    return pa.concat_arrays(arrays)


def shrink_codes(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Give a dictionary column with the narrowest code type that holds its codes."""
    narrow = _index_type(len(array.dictionary))
    return pa.DictionaryArray.from_arrays(array.indices.cast(narrow), array.dictionary)


def _place(name: str, array: pa.Array, n_rows: int) -> tuple[pa.Array, bool]:
    n_values = len(array) - array.null_count
    limit = HOT_BYTES_PER_VALUE[not is_original(name)] * n_values
    if name in SYSTEM_HOT:
        return array, True
    if is_number(array.type) and not pa.types.is_float16(array.type):
        return array, name not in SYSTEM_COLD and n_rows * array.type.bit_width <= 8 * limit
    if pa.types.is_boolean(array.type):
        return array, n_rows <= 8 * limit
    if is_text(array.type) or pa.types.is_dictionary(array.type):
        return _place_text(name, array, limit)
    return array, False


def _place_text(name: str, array: pa.Array, limit: int) -> tuple[pa.Array, bool]:
    if _is_long(array) and not _pays(name, *_distinct(array), *_values(array)):
        return array, False
    coded = compact_codes(array) if pa.types.is_dictionary(array.type) else _encode(array)
    if coded is None:
        return array, False
    lengths = pc.binary_length(coded.dictionary).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(_valid_codes(coded), minlength=len(lengths))
    pays = _pays(name, len(lengths), int(lengths.sum()), int(counts.sum()), int(lengths @ counts))
    if pays and len(array) * _index_type(len(lengths)).bit_width <= 8 * limit:
        return coded, True
    return plain(array), False


def _pays(name: str, n_distinct: int, coded_bytes: int, n_values: int, plain_bytes: int) -> bool:
    """Whether texts are better coded. n_distinct, coded_bytes: of the different ones; the others: of all."""
    if name in FREE_TEXTS:
        return 2 * n_distinct <= n_values and DICTIONARY_GAIN * coded_bytes <= 2 * plain_bytes
    return plain_bytes <= SHORT_TEXT_BYTES * n_values or DICTIONARY_GAIN * coded_bytes <= plain_bytes


def _is_long(array: pa.Array) -> bool:
    if not pa.types.is_string(array.type):
        return False
    n_values, n_bytes = _values(array)
    return n_bytes >= LONG_TEXT_BYTES * max(n_values, 1)


def _values(array: pa.Array) -> tuple[int, int]:
    return len(array) - array.null_count, _content_length(array)


def _distinct(array: pa.Array) -> tuple[int, int]:
    """Give how many texts differ, and their bytes; two of one length and checksum count once."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].tolist()
    view = memoryview(data)
    marks = {(end - start, zlib.crc32(view[start:end])) for start, end in pairwise(bounds)}
    return len(marks), sum(n_bytes for n_bytes, _ in marks)


def _encode(array: pa.Array) -> pa.DictionaryArray | None:
    # A dictionary has 32-bit offsets; texts of more than 2 GiB would never pay as one.
    if pa.types.is_large_string(array.type):
        return None
    return array.dictionary_encode()


def compact_codes(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Give a dictionary column whose dictionary has no value that no row has; its order stays."""
    used = np.zeros(len(array.dictionary), np.bool_)
    used[_valid_codes(array)] = True
    if used.all():
        return array
    place = np.cumsum(used, dtype=np.int32) - 1
    codes = code_view(array)
    missing = codes < 0
    indices = pa.array(place[np.where(missing, 0, codes)] if len(place) else codes, mask=missing)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.filter(pa.array(used)))


def _valid_codes(array: pa.DictionaryArray) -> npt.NDArray[np.int32]:
    codes = code_view(array)
    return codes[codes >= 0] if array.null_count else codes


def plain(array: pa.Array) -> pa.Array:
    """Give a column without a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _index_type(n_values: int) -> pa.DataType:
    return pa.int8() if n_values <= 2**7 else pa.int16() if n_values <= 2**15 else pa.int32()


def _bits(buffer: pa.Buffer | None, array: pa.Array) -> Bools:
    if buffer is None or not len(array):
        return np.ones(len(array), np.bool_)
    first, skip = divmod(array.offset, 8)
    packed = np.frombuffer(buffer, np.uint8)[first : first + -(-(skip + len(array)) // 8)]
    unpacked = np.unpackbits(packed, bitorder="little", count=skip + len(array))[skip:]
    return unpacked.view(np.bool_)


def wide_type(kind: pa.DataType) -> pa.DataType | None:
    """Give the same type with 64-bit offsets, None for one without offsets or that has them."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    return pa.large_list(kind.value_type) if pa.types.is_list(kind) else None


def _content_length(array: pa.Array) -> int:
    if not len(array):
        return 0
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return int(offsets[array.offset + len(array)] - offsets[array.offset])
