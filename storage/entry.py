"""What one append holds, and its bytes as the payload of a frame of the write-ahead log.

Payload: u32 length of the head, the head (JSON), then buffers; head and buffers are each padded to 8 bytes.
The head lists the buffers' sizes. All numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import KEY, ColumnBatch, RawBatch, Source, TextParts, Vectors
from .files import Data
from .ledger import Position
from .rejects import Reject
from .stored_file import Json
from .upgrade import FORMAT, position_to_2


class Kind(IntEnum):
    """What a frame holds; the number stands in the file."""

    RECORDS = 1
    TABLE = 2
    NOTES = 3
    """Rejects and positions, no events."""


@dataclass(slots=True)
class Entry:
    """One append: events as records (`raw`) or as a table (`columns`, no `raw`), and what belongs to them.

    `columns` beside `raw` is what decoding it gives; it is not stored.
    """

    first_seq: int
    raw: RawBatch | None = None
    columns: ColumnBatch | None = None
    vectors: Vectors | None = None
    positions: tuple[Position, ...] = ()
    rejects: tuple[Reject, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of events; they have the sequence numbers [first_seq, first_seq + n_rows)."""
        if self.raw is not None:
            return self.raw.n_rows
        return 0 if self.columns is None else self.columns.n_rows

    @property
    def kind(self) -> Kind:
        """Kind of the frame that holds this."""
        if self.n_rows == 0:
            return Kind.NOTES
        return Kind.TABLE if self.raw is None else Kind.RECORDS


def encode(entry: Entry) -> list[Data]:
    """Give the payload as chunks to be written one after the other; its length is a multiple of 8."""
    head: Json = {
        "positions": [p.to_json() for p in entry.positions],
        "rejects": [[r.source, r.line, r.offset, r.reason] for r in entry.rejects],
    }
    buffers: list[Data] = [
        _ends([r.record for r in entry.rejects]),
        b"".join(r.record for r in entry.rejects),
    ]
    if entry.raw is not None and entry.n_rows:
        buffers += _encode_records(entry.raw, head)
    elif entry.columns is not None and entry.n_rows:
        buffers += _encode_table(entry.columns, entry.vectors, head)
    return _pack(head, buffers)


def decode(kind: Kind, first_seq: int, n_rows: int, payload: memoryview, *, version: int = FORMAT) -> Entry:
    """Give the entry whose payload `encode` wrote, in format `version`."""
    head, buffers = _unpack(payload)
    positions = head["positions"] if version >= 2 else map(position_to_2, head["positions"])
    entry = Entry(
        first_seq,
        positions=tuple(Position.from_json(p) for p in positions),
        rejects=_decode_rejects(head["rejects"], buffers[0], buffers[1]),
    )
    if kind == Kind.RECORDS:
        entry.raw = _decode_records(head, n_rows, buffers[2:])
    elif kind == Kind.TABLE:
        entry.columns = _decode_table(first_seq, n_rows, buffers[2:])
        if "vectors" in head:
            decode_these = _decode_vectors if version >= 2 else _decode_vectors_of_format_1
            entry.vectors = decode_these(head["vectors"], buffers[9:])
    return entry


def numbered(batch: ColumnBatch, first_seq: int) -> ColumnBatch:
    """Give `batch` with the sequence numbers from `first_seq` on."""
    seq = pa.array(np.arange(first_seq, first_seq + batch.n_rows, dtype=np.int64))
    return ColumnBatch(batch.n_rows, {**batch.columns, "seq": seq}, batch.parts, batch.template)


def _encode_records(raw: RawBatch, head: Json) -> list[Data]:
    head["sources"] = [[s.name, s.reader, dict(s.options)] for s in raw.sources]
    return [
        _little(raw.ts_ns, "<i8"),
        _little(raw.offset, "<i8"),
        _little(raw.line, "<i8"),
        _little(raw.ends, "<i8"),
        _little(raw.source, "<u2"),
        _little(raw.ts_origin, "u1"),
        raw.records,
    ]


def _decode_records(head: Json, n_rows: int, buffers: Sequence[memoryview]) -> RawBatch:
    ts_ns, offset, line, ends = (np.frombuffer(b, "<i8") for b in buffers[:4])
    return RawBatch(
        sources=tuple(Source(*s) for s in head["sources"]),
        ts_ns=ts_ns,
        ts_origin=np.frombuffer(buffers[5], np.uint8),
        source=np.frombuffer(buffers[4], "<u2"),
        offset=offset,
        line=line,
        ends=ends,
        records=bytes(buffers[6]),
    )


def _encode_table(batch: ColumnBatch, vectors: Vectors | None, head: Json) -> list[Data]:
    names = [name for name in batch.columns if name != "seq"]
    table = pa.RecordBatch.from_arrays([batch.columns[name] for name in names], names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    parts = batch.parts
    buffers: list[Data] = [
        sink.getvalue(),
        _little(batch.template, KEY),
        _little(parts.row, "<i4"),
        _little(parts.field, "u1"),
        _little(parts.chunk, "<i2"),
        _little(parts.key, KEY),
        _little(parts.primary, "?"),
    ]
    if vectors is None:
        return buffers
    head["vectors"] = {
        "dim": vectors.dim,
        "heads": vectors.heads.shape[1],
        "qls": vectors.qls.shape[1],
    }
    return [
        *buffers,
        _little(vectors.key, KEY),
        _little(vectors.values, "<i2"),
        _little(vectors.step, "<f4"),
        _little(vectors.heads, "u1"),
        _little(vectors.n_tokens, "<u2"),
        _little(vectors.head, "u1"),
        _little(vectors.second, "u1"),
        _little(vectors.qls, "i1"),
    ]


def _decode_table(first_seq: int, n_rows: int, buffers: Sequence[memoryview]) -> ColumnBatch:
    with pa.ipc.open_stream(pa.py_buffer(buffers[0])) as reader:
        table = reader.read_next_batch()
    parts = TextParts(
        row=np.frombuffer(buffers[2], "<i4"),
        field=np.frombuffer(buffers[3], "u1"),
        chunk=np.frombuffer(buffers[4], "<i2"),
        key=np.frombuffer(buffers[5], KEY),
        primary=np.frombuffer(buffers[6], "?"),
    )
    columns = dict(zip(table.schema.names, table.columns, strict=True))
    return numbered(ColumnBatch(n_rows, columns, parts, np.frombuffer(buffers[1], KEY)), first_seq)


def _decode_vectors(widths: Json, buffers: Sequence[memoryview]) -> Vectors:
    key, values = np.frombuffer(buffers[0], KEY), np.frombuffer(buffers[1], "<i2")
    return Vectors(
        key=key,
        values=_rows(values, len(key), widths["dim"]),
        step=np.frombuffer(buffers[2], "<f4"),
        **_decode_sides(widths, len(key), buffers[3:]),
    )


def _decode_vectors_of_format_1(widths: Json, buffers: Sequence[memoryview]) -> Vectors:
    key, exact = np.frombuffer(buffers[0], KEY), np.frombuffer(buffers[1], "<f2")
    sides = _decode_sides(widths, len(key), buffers[2:])
    return Vectors.of(key, _rows(exact, len(key), widths["dim"]), **sides)


def _decode_sides(widths: Json, n: int, buffers: Sequence[memoryview]) -> dict[str, npt.NDArray[Any]]:
    return {
        "heads": _rows(np.frombuffer(buffers[0], "u1"), n, widths["heads"]),
        "n_tokens": np.frombuffer(buffers[1], "<u2"),
        "head": np.frombuffer(buffers[2], "u1"),
        "second": np.frombuffer(buffers[3], "u1"),
        "qls": _rows(np.frombuffer(buffers[4], "i1"), n, widths["qls"]),
    }


def _rows(flat: npt.NDArray[Any], n: int, width: int) -> npt.NDArray[Any]:
    # Both said, not -1: what was given with the events has no heads, and nothing can be divided by no width.
    return flat.reshape(n, width)


def _decode_rejects(
    heads: Sequence[Sequence[Any]], ends: memoryview, records: memoryview
) -> tuple[Reject, ...]:
    stops = np.frombuffer(ends, "<i8").tolist()
    starts = [0, *stops[:-1]]
    return tuple(
        Reject(source, line, offset, reason, bytes(records[start:stop]))
        for (source, line, offset, reason), start, stop in zip(heads, starts, stops, strict=False)
    )


def _ends(records: Sequence[bytes]) -> npt.NDArray[np.int64]:
    return np.cumsum([len(r) for r in records], dtype=np.int64)


def _little(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> Data:
    return np.ascontiguousarray(array, dtype).view(np.uint8).reshape(-1)


def _pack(head: Json, buffers: Sequence[Data]) -> list[Data]:
    views = [pa.py_buffer(b) for b in buffers]
    head["buffers"] = [view.size for view in views]
    text = json.dumps(head, allow_nan=False, separators=(",", ":")).encode("ascii")
    start = struct.pack("<I", len(text)) + text
    chunks: list[Data] = [start, _padding(len(start))]
    for view in views:
        chunks += [view, _padding(view.size)]
    return chunks


def _unpack(payload: memoryview) -> tuple[Json, list[memoryview]]:
    (n_head,) = struct.unpack_from("<I", payload)
    head: Json = json.loads(bytes(payload[4 : 4 + n_head]))
    buffers, start = [], _padded(4 + n_head)
    for n_bytes in head["buffers"]:
        buffers.append(payload[start : start + n_bytes])
        start += _padded(n_bytes)
    return head, buffers


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // 8) * 8


def _padding(n_bytes: int) -> bytes:
    return bytes(_padded(n_bytes) - n_bytes)
