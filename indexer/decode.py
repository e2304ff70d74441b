"""Acknowledged records as typed columns: the pure function that ingest, recovery and queries share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.storage.batch import KEY, ColumnBatch, RawBatch, Source
from treering.storage.errors import DamageError

from .json_columns import json_columns
from .parts import body_keys, text_parts
from .text_columns import text_columns

READERS = ("jsonl", "json", "text")
"""Readers whose records the decoder understands."""


class Decoder:
    """Decodes records by the reader of their source; implements `treering.storage.batch.Decoder`."""

    def __call__(self, raw: RawBatch, first_seq: int) -> ColumnBatch:
        """Give the columns, embedded parts and template keys of `raw`; seq counts from `first_seq`.

        Raises DamageError for a reader that is not known here.
        """
        columns = _system_columns(raw, first_seq)
        columns.update(_source_columns(raw))
        columns.update(_signal_columns(columns, raw.n_rows))
        body = columns.get("body")
        keys = body_keys(body) if body is not None and raw.n_rows else np.zeros(raw.n_rows, KEY)
        return ColumnBatch(raw.n_rows, columns, text_parts(columns, keys), keys)


def _system_columns(raw: RawBatch, first_seq: int) -> dict[str, pa.Array]:
    indices = pa.array(raw.source.astype(np.int32))
    return {
        "ts": pa.array(raw.ts_ns),
        "seq": pa.array(np.arange(first_seq, first_seq + raw.n_rows, dtype=np.int64)),
        "ts_origin": pa.array(raw.ts_origin),
        "source": _dictionary(indices, [source.name for source in raw.sources]),
        "reader": _dictionary(indices, [source.reader for source in raw.sources]),
        "source_offset": pa.array(raw.offset),
        "source_line": pa.array(raw.line),
        "record": _records_array(raw),
    }


def _dictionary(indices: pa.Array, names: Sequence[str]) -> pa.Array:
    distinct = list(dict.fromkeys(names))
    codes = np.array([distinct.index(name) for name in names], np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes[np.asarray(indices)]), pa.array(distinct, pa.string())
    )


def _records_array(raw: RawBatch) -> pa.Array:
    starts = np.concatenate(([0], raw.ends))
    if raw.n_rows and starts[-1] > np.iinfo(np.int32).max:
        raise DamageError(
            f"batch of {starts[-1]} bytes: over the 2 GiB that one batch may hold; load it in parts"
        )
    offsets = pa.py_buffer(starts.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), raw.n_rows, [None, offsets, pa.py_buffer(raw.records)])


def _source_columns(raw: RawBatch) -> dict[str, pa.Array]:
    """Give the columns of each source's records, laid out over all rows of the batch."""
    starts = np.concatenate(([0], raw.ends[:-1])) if raw.n_rows else raw.ends
    spans = list(zip(starts.tolist(), raw.ends.tolist(), strict=True))
    records = [raw.records[lo:hi] for lo, hi in spans]
    used = np.unique(raw.source)
    if len(used) == 1:
        return _decode(raw.sources[int(used[0])], records)
    columns: dict[str, pa.Array] = {}
    for index in used:
        rows = np.flatnonzero(raw.source == index)
        decoded = _decode(raw.sources[int(index)], [records[row] for row in rows])
        for name, array in decoded.items():
            columns[name] = _merged(columns.get(name), _plain(array), rows, raw.n_rows)
    return columns


def _decode(source: Source, records: Sequence[bytes]) -> dict[str, pa.Array]:
    if source.reader == "text":
        return text_columns(records, source.options.get("formats", ()))
    if source.reader in ("jsonl", "json"):
        return json_columns(records, source.options.get("map"))
    raise DamageError(f"{source.name}: reader {source.reader!r} is not known here, expected one of {READERS}")


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _merged(before: pa.Array | None, array: pa.Array, rows: npt.NDArray[np.intp], n_rows: int) -> pa.Array:
    """Give `array` at `rows` of `n_rows`, elsewhere what was there before."""
    at = np.full(n_rows, -1, np.int64)
    at[rows] = np.arange(len(rows))
    laid_out = array.take(pa.array(at, mask=at < 0))
    return laid_out if before is None else pa.compute.coalesce(before, laid_out)


def _signal_columns(columns: dict[str, pa.Array], n_rows: int) -> dict[str, pa.Array]:
    from .signals import plain_signals

    return dict(plain_signals(columns, n_rows))
