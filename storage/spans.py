"""A text that stands in its record is stored as where it stands: start and length in bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .columns import number_view

SAMPLE_ROWS = 64
"""Rows that are tried before the whole column is."""

BLOCK_ROWS = 65_536
"""Rows that are turned into Python objects at once."""

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


def find_spans(text: pa.Array, record: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Give start and length (int32) of each text in its record, or None unless every text stands there.

    text: string, record: binary, of the same length; both with 32-bit offsets.
    """
    if (
        not pa.types.is_string(text.type)
        or not pa.types.is_binary(record.type)
        or not _may_stand(text, record)
    ):
        return None
    starts = _suffixes(text, record)
    if starts is None:
        starts = _search(text, record)
    if starts is None:
        return None
    missing = _missing(text)
    lengths = np.diff(_offsets(text))
    return pa.array(starts.astype(np.int32), mask=missing), pa.array(lengths.astype(np.int32), mask=missing)


def cut_spans(record: pa.Array, start: pa.Array, length: pa.Array) -> pa.Array:
    """Give the texts that `find_spans` found, as strings."""
    starts, mask = number_view(start)
    lengths, _ = number_view(length)
    base = _offsets(record)[:-1]
    if mask is not None:
        starts, lengths = np.where(mask, starts, 0), np.where(mask, lengths, 0)
    return _cut(record, base + starts, base + starts + lengths, None if mask is None else ~mask)


def _missing(array: pa.Array) -> Bools | None:
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def _cut(record: pa.Array, first: Int64s, last: Int64s, missing: Bools | None) -> pa.Array:
    # Texts and the gaps between them, one after the other, make one array over the record's own bytes; every
    # second element is a text.
    if not len(record):
        return pa.array([], pa.string())
    edges = np.stack([first, last], axis=1).ravel().astype(np.int32)
    contents = record.buffers()[2] or pa.py_buffer(b"")
    pieces = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), contents])
    rows = pa.array(np.arange(0, len(edges), 2), mask=missing)
    texts = pieces.take(rows)
    return pa.Array.from_buffers(pa.string(), len(texts), texts.buffers(), texts.null_count)


def _may_stand(text: pa.Array, record: pa.Array) -> bool:
    rows = (
        pa.array(np.unique(np.linspace(0, len(text) - 1, SAMPLE_ROWS, dtype=np.int64))) if len(text) else []
    )
    pairs = zip(text.take(pa.array(rows, pa.int64())), record.take(pa.array(rows, pa.int64())), strict=True)
    return all(
        not part.is_valid or (whole.is_valid and part.as_py().encode() in whole.as_py())
        for part, whole in pairs
    )


def _suffixes(text: pa.Array, record: pa.Array) -> Int64s | None:
    """Give the starts if every text is the end of its record: the case of plain logs, in one comparison."""
    lengths, whole = np.diff(_offsets(text)), np.diff(_offsets(record))
    missing = _missing(text)
    lengths = lengths if missing is None else np.where(missing, 0, lengths)
    starts = whole - lengths
    if (starts < 0).any():
        return None
    ends = _offsets(record)[1:]
    return starts if _cut(record, ends - lengths, ends, missing).equals(text) else None


def _search(text: pa.Array, record: pa.Array) -> Int64s | None:
    starts = np.zeros(len(text), np.int64)
    for block in range(0, len(text), BLOCK_ROWS):
        pairs = zip(
            _bytes(text.slice(block, BLOCK_ROWS)), _bytes(record.slice(block, BLOCK_ROWS)), strict=True
        )
        for row, (part, whole) in enumerate(pairs, block):
            if part is not None:
                starts[row] = -1 if whole is None else whole.find(part)
                if starts[row] < 0:
                    return None
    return starts


def _bytes(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = pc.cast(array, pa.binary()).to_pylist()
    return values


def _offsets(array: pa.Array) -> Int64s:
    if not len(array):
        return np.zeros(1, np.int64)
    flat = np.frombuffer(array.buffers()[1], np.int32)
    return flat[array.offset : array.offset + len(array) + 1].astype(np.int64)
