"""Columns of several batches as one: types made equal, equal columns made one object, the rarest set aside."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .agreement import plain_type
from .columns import (
    SYSTEM_HOT,
    Numbers,
    concat,
    is_number,
    is_text,
    number_view,
    plain,
    precedence,
    wide_type,
)
from .errors import StoreError
from .residual import RESIDUAL, split_residual


def join_columns(batches: Sequence[Mapping[str, pa.Array]], lengths: Sequence[int]) -> dict[str, pa.Array]:
    """Put the columns of several batches one after the other; a batch that lacks a column gives nulls.

    Columns without any value are left out, and equal columns become the same object. Of the original fields
    the rarest beyond MAX_ORIGINAL are in the column RESIDUAL, as they may be in a batch; they are never laid out
    over all rows. Raises StoreError where two batches give a column different types.
    """
    batches, residual = split_residual(batches, lengths)
    names = sorted({name for batch in batches for name in batch})
    joined: dict[str, pa.Array] = {}
    seen: dict[tuple[int, ...], pa.Array] = {}
    for name in names:
        pieces = [batch.get(name) for batch in batches]
        key = tuple(id(piece) for piece in pieces)
        if key not in seen:
            seen[key] = join_pieces(name, pieces, lengths)
        if seen[key].null_count < len(seen[key]) or name in SYSTEM_HOT:
            joined[name] = seen[key]
    joined = _same_objects(joined)
    if residual is not None:
        joined[RESIDUAL] = residual
    return joined


def join_pieces(name: str, pieces: Sequence[pa.Array | None], lengths: Sequence[int]) -> pa.Array:
    """Put the pieces of one column one after the other, None as nulls.

    Raises StoreError where two have different types.
    """
    pieces = [_plain_items(_decode_numbers(piece)) for piece in pieces]
    typed = [piece for piece in pieces if piece is not None and not pa.types.is_null(piece.type)]
    if not typed:
        return pa.nulls(sum(lengths))
    # A piece without values has nothing to disagree with.
    given = [piece for piece in typed if piece.null_count < len(piece)] or typed
    if any(pa.types.is_dictionary(piece.type) for piece in given):
        return _join_coded(pieces, lengths)
    kind = given[0].type
    if wide := next((piece.type for piece in given if piece.type == wide_type(kind)), None):
        kind = wide
    return concat([_as_type(name, piece, kind, n) for piece, n in zip(pieces, lengths, strict=True)])


def _as_type(name: str, piece: pa.Array | None, kind: pa.DataType, length: int) -> pa.Array:
    if piece is not None and piece.type == kind:
        return piece
    if piece is None or piece.null_count == len(piece):
        return pa.nulls(length, kind)
    if wide_type(piece.type) == kind:
        return piece.cast(kind)
    raise StoreError(
        f"column {name}: a batch has type {piece.type}, another {kind}; "
        "give both the same type, or store them under two names"
    )


def _plain_items(piece: pa.Array | None) -> pa.Array | None:
    """Give a list column whose items have neither a dictionary nor 64-bit offsets."""
    if piece is None or not pa.types.is_nested(piece.type):
        return piece
    items = plain_type(piece.type).value_type
    return piece.cast(pa.large_list(items) if pa.types.is_large_list(piece.type) else pa.list_(items))


def _decode_numbers(piece: pa.Array | None) -> pa.Array | None:
    """Decode a dictionary of anything but texts."""
    if piece is None or not pa.types.is_dictionary(piece.type) or is_text(piece.type.value_type):
        return piece
    return piece.dictionary_decode()


def _join_coded(pieces: Sequence[pa.Array | None], lengths: Sequence[int]) -> pa.Array:
    kind = pa.dictionary(pa.int32(), pa.string())
    coded = []
    for piece, length in zip(pieces, lengths, strict=True):
        if piece is None or piece.null_count == len(piece):
            coded.append(pa.nulls(length, kind))
        elif pa.types.is_dictionary(piece.type) and not piece.dictionary.null_count:
            values = piece.dictionary.cast(pa.string())
            coded.append(pa.DictionaryArray.from_arrays(piece.indices.cast(pa.int32()), values))
        else:
            coded.append(plain(piece).cast(pa.string()).dictionary_encode())
    chunks = pa.chunked_array(coded, kind).unify_dictionaries().chunks
    indices = pa.concat_arrays([chunk.indices for chunk in chunks])
    return pa.DictionaryArray.from_arrays(indices, chunks[0].dictionary)


class Distinct:
    """Columns, of which equal ones become the same object."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], list[pa.Array]] = {}

    def same(self, array: pa.Array) -> pa.Array:
        """Give the first column with these values: this one, or one that was given before."""
        mark = (str(array.type), array.null_count, len(array), _content_mark(array))
        rivals = self._kept.setdefault(mark, [])
        found = next((rival for rival in rivals if rival is array or _equal(rival, array)), None)
        if found is None:
            rivals.append(array)
            return array
        return found


def _same_objects(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    distinct, same = Distinct(), dict[int, pa.Array]()
    for name in sorted(columns, key=precedence):
        array = columns[name]
        if id(array) not in same:
            same[id(array)] = distinct.same(array)
        columns[name] = same[id(array)]
    return columns


def _content_mark(array: pa.Array) -> int:
    """Give a number that equal columns share and different ones hardly ever; all lists share one."""
    if pa.types.is_dictionary(array.type):
        return hash((_content_mark(array.indices), _content_mark(array.dictionary)))
    if not is_number(array.type) and plain_type(array.type) not in (pa.bool_(), pa.string(), pa.binary()):
        return 0
    mask = number_view(array.is_valid())[0]
    if is_number(array.type) or pa.types.is_boolean(array.type):
        values = number_view(array)[0]
        return _crc32(np.where(mask, values, np.zeros(1, values.dtype)), _crc32(mask))
    lengths = pc.binary_length(array).fill_null(0)
    present = array.drop_null() if array.null_count else array
    return zlib.crc32(_text_bytes(present), _crc32(number_view(lengths)[0]))


def _crc32(values: Numbers, start: int = 0) -> int:
    return zlib.crc32(values.view(np.uint8).data, start)


def _text_bytes(array: pa.Array) -> pa.Buffer | bytes:
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return b""
    kind = np.int64 if array.type in (pa.large_string(), pa.large_binary()) else np.int32
    bounds = np.frombuffer(offsets, kind)
    start, end = int(bounds[array.offset]), int(bounds[array.offset + len(array)])
    return data.slice(start, end - start)


def _equal(first: pa.Array, second: pa.Array) -> bool:
    # Bit by bit, so that NaN equals itself and -0.0 does not equal 0.0.
    if pa.types.is_floating(first.type):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[first.type.bit_width]
        first, second = first.view(bits), second.view(bits)
    elif pa.types.is_nested(first.type):
        return False
    return bool(first.equals(second))
