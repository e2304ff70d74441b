"""The order of an answer: exact keys, missing values and NaN last in both directions, then (ts, seq)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .bound import BSort
from .field_values import Typed, typed_values
from .kinds import NUMBERS
from .rows import Mask, Rows

NUMBER, BOOL, TEXT, LAST = range(4)
"""A field of several types ranks its numbers first, then bools, then texts; lists, NaN, missing last."""

Key = npt.NDArray[Any]
"""A sort key, ascending, without NaN."""


def ordered(
    rows: Rows, order: Sequence[BSort], n: int | None, *, drop_missing: bool = False, keep_order: bool = False
) -> tuple[Rows, int]:
    """Give the first n rows (None: all) by these keys, ties by (ts, seq), and how many rows were ranked.

    Without keys the order is (ts, seq), or with keep_order the one the rows are in. drop_missing: rows
    without a value of the first key are not ranked (NaN is none; where some row has a number, texts and bools
    are none either).
    """
    if not order and keep_order:
        return rows.take(slice(0, n)), len(rows)
    keys: list[Key] = []
    for i, sort in enumerate(order):
        found, ranked = _keys(rows, sort)
        if i == 0 and drop_missing:
            kept = np.flatnonzero(ranked)
            rows, found = rows.take(kept), [key[kept] for key in found]
        keys.extend(found)
    return _sorted(rows, keys, n), len(rows)


def _sorted(rows: Rows, keys: list[Key], n: int | None) -> Rows:
    """The first n rows; only rows that reach the n-th best leading key are sorted at all."""
    keys = [*keys, rows.ts, rows.seq]
    kept = np.arange(len(rows))
    if n is not None and n < len(rows):
        lead = next((k for k in keys if len(k) and k.min() != k.max()), rows.seq)
        kept = np.flatnonzero(lead <= np.partition(lead, n - 1)[n - 1]) if n else kept[:0]
    if n is None and len(keys) == 2 and _in_time_order(rows):
        return rows
    order = kept[np.lexsort([key[kept] for key in reversed(keys)])]
    return rows.take(order[:n])


def _in_time_order(rows: Rows) -> bool:
    ts, seq = rows.ts, rows.seq
    return bool(np.all((ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (seq[1:] >= seq[:-1]))))


def _keys(rows: Rows, sort: BSort) -> tuple[list[Key], Mask]:
    """Keys of one sort field, and which rows have a value that ranks."""
    if sort.column is None:
        score = np.full(len(rows), -np.inf, np.float32) if rows.score is None else rows.score
        return [-score if sort.descending else score], score > -np.inf
    found = typed_values(rows, sort.column)
    rank = np.full(len(rows), LAST, np.int8)
    keys = _number_keys([t for t in found if t.kind in NUMBERS or t.kind == "level"], rank)
    keys.extend(_other_keys(found, rank))
    if sort.descending:
        # ~ is the falling order of whole numbers that cannot overflow, as - is of floats.
        keys = [~key if key.dtype.kind == "i" else -key for key in keys]
    for key in keys:
        key[rank == LAST] = 0
    has_numbers = any(t.kind in NUMBERS or t.kind == "level" for t in found)
    return [rank, *keys], (rank == NUMBER) if has_numbers else (rank < LAST)


def _number_keys(found: Sequence[Typed], rank: npt.NDArray[np.int8]) -> list[Key]:
    """Exact keys of numbers of all types."""
    if not found:
        return []
    for one in found:
        rank[one.valid] = NUMBER
    if any(t.kind == "decimal" for t in found):
        return [_ranks(found, rank)]
    if all(isinstance(t.values, np.ndarray) and t.values.dtype.kind in "iu" for t in found):
        whole = np.zeros(len(rank), np.int64)
        for one in found:
            whole[one.valid] = one.values[one.valid]
        return [whole]
    return _float_keys(found, rank)


def _float_keys(found: Sequence[Typed], rank: npt.NDArray[np.int8]) -> list[Key]:
    """Nearest float and what it is off.

    Rounding keeps the order, so of two numbers with different nearest floats these decide, else what they are
    off.
    """
    near, off = np.zeros(len(rank), np.float64), np.zeros(len(rank), np.int64)
    for one in found:
        values = one.values[one.valid]
        near[one.valid] = values
        if values.dtype.kind in "iu":
            off[one.valid] = [
                v - int(f) for v, f in zip(values.tolist(), near[one.valid].tolist(), strict=True)
            ]
    rank[np.isnan(near)] = LAST
    return [near, off] if off.any() else [near]


def _ranks(found: Sequence[Typed], rank: npt.NDArray[np.int8]) -> Key:
    """Numbers of any size by their place among each other (equal numbers share one)."""
    values: list[Any] = [None] * len(rank)
    for one in found:
        python = one.to_python()
        for i in np.flatnonzero(one.valid).tolist():
            values[i] = python[i]
    for i, value in enumerate(values):
        if value is not None and value != value:  # NaN
            values[i], rank[i] = None, LAST
    places = {value: i for i, value in enumerate(sorted({v for v in values if v is not None}))}
    return np.fromiter((0 if v is None else places[v] for v in values), np.int64, len(values))


def _other_keys(found: Sequence[Typed], rank: npt.NDArray[np.int8]) -> list[Key]:
    """Key of bools and texts, which rank behind numbers."""
    bools = [t for t in found if t.kind == "bool"]
    texts = [t for t in found if t.kind == "text"]
    if not bools and not texts:
        return []
    key = np.zeros(len(rank), np.int64)
    for one in bools:
        rank[one.valid] = BOOL
        key[one.valid] = one.values[one.valid]
    if texts:
        valid = np.logical_or.reduce([t.valid for t in texts])
        rank[valid] = TEXT
        key[valid] = _text_ranks(texts)[valid]
    return [key]


def _text_ranks(texts: Sequence[Typed]) -> npt.NDArray[np.int64]:
    """Place of each text by code point, which is the order of UTF-8 bytes; 0 where there is none."""
    whole = texts[0].to_arrow()
    for one in texts[1:]:
        whole = pc.coalesce(whole, one.to_arrow().cast(whole.type))
    encoded = whole.dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    codes = np.asarray(
        encoded.indices.fill_null(0) if len(order) else pa.array(np.zeros(len(whole), np.int64))
    )
    return places[codes] if len(order) else np.zeros(len(whole), np.int64)
