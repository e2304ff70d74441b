"""What travels between the rooms: records as acknowledged, columns as decoded, vectors as computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .fixed_point import Float32s, Int8s, Int16s, quantise, restore

KEY = np.dtype([("hi", "<u8"), ("lo", "<u8")])
"""A 128-bit content key: of a masked log line, or of the exact text of a chunk. All zero: no key."""

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
UInt8s = npt.NDArray[np.uint8]
UInt16s = npt.NDArray[np.uint16]
Keys = npt.NDArray[np.void]
"""Array of dtype `KEY`."""

TS_ORIGINS = ("record", "previous", "file", "ingest", "observed")
"""Where an event's time came from: its own text, the line before it, the file's time, the clock, an observer."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where records came from and all that is needed to decode their bytes again.

    `name` is the path as given, or `stdin`; `reader` names the reader; `options` holds what the reader was told
    (`map`, `tz`, `year`, ...), JSON values only.
    """

    name: str
    reader: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RawBatch:
    """Records as they are acknowledged: fixed columns, one row a record. This is what the write-ahead log holds.

    ts_ns: int64 (n), nanoseconds since 1970 UTC. ts_origin: uint8 (n), index into `TS_ORIGINS`.
    source: uint16 (n), index into `sources`. offset, line: int64 (n), byte offset (of the decompressed stream) and
    1-based line of the record's start. ends: int64 (n), end of each record in `records`; record i is
    `records[ends[i - 1]:ends[i]]`.
    """

    sources: tuple[Source, ...]
    ts_ns: Int64s
    ts_origin: UInt8s
    source: npt.NDArray[np.uint16]
    offset: Int64s
    line: Int64s
    ends: Int64s
    records: bytes

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.ts_ns)

    def record(self, row: int) -> bytes:
        """Give the original bytes of one record."""
        return self.records[int(self.ends[row - 1]) if row else 0 : int(self.ends[row])]


@dataclass(slots=True)
class TextParts:
    """Embedded texts of events: one row for each (event, field, chunk), in that order.

    row: int32, event of the batch. field: uint8, index into `PART_FIELDS`. chunk: int16, 0-based chunk of a long
    text. key: `KEY`. primary: bool, whether this chunk stands for the event (at most one a row: chunk 0 of its
    primary text; it gives shard, heads and QLS).
    """

    row: Int32s
    field: UInt8s
    chunk: npt.NDArray[np.int16]
    key: Keys
    primary: npt.NDArray[np.bool_]

    @classmethod
    def empty(cls) -> TextParts:
        """No parts."""
        return cls(
            np.empty(0, np.int32),
            np.empty(0, np.uint8),
            np.empty(0, np.int16),
            np.empty(0, KEY),
            np.empty(0, np.bool_),
        )

    def __len__(self) -> int:
        return len(self.row)


PART_FIELDS = ("body", "prompt", "response", "context")
"""Canonical text fields that are embedded."""


@dataclass(slots=True)
class ColumnBatch:
    """Decoded events: physical columns by name, all of the same length, missing values null.

    Physical names: system and canonical fields and signals stand under their own name (`ts`, `seq`, `body`,
    `request_model`, `hallucination_score`); every original field stands under `path#type`, where the type is one of
    `i` int64, `f` float64, `b` bool, `s` string, `z` integer beyond 64 bits as decimal text, `o` empty object (true),
    or `[x]` list of x. A field that holds two types has two columns; each row fills at most one of them.

    Always there: `ts` int64, `seq` int64, `ts_origin` uint8, `source` dictionary, `reader` dictionary,
    `source_offset` int64, `source_line` int64. `record` (binary) is the original record, absent where the columns
    are the record (tables). `~residual` (binary) holds original fields that too few rows have to be columns, a JSON
    object a row (`docs/format/text.md`), absent where all are columns. template: key of the masked body of each row
    (zero: none).
    """

    n_rows: int
    columns: dict[str, pa.Array]
    parts: TextParts
    template: Keys

    @property
    def ts_ns(self) -> Int64s:
        """Event times, int64 nanoseconds since 1970 UTC."""
        return np.asarray(self.columns["ts"])


NO_HEAD = 255
"""Head of a text with too few tokens, or of a vector that was given."""


@dataclass(slots=True)
class Vectors:
    """Embeddings of distinct texts, one row a key.

    key: `KEY` (u). values: int16 (u, dim), step: float32 (u): the stored truth of a vector of unit length is
    their float32 product (`fixed_point`). heads: uint8 (u, layers * heads), attention entropy of each head in
    bits * 32 (0 where there are under 2 tokens). n_tokens: uint16 (u), without special tokens. head, second:
    uint8 (u), the last layer's sharpest and second sharpest head, calibrated (255: none). qls: int8 (u, 136),
    quantised log-signature of the token path. exemplar: int64 (u), sequence number of an event whose text was
    embedded; -1 where none is known or the vector was given (the default: all -1).
    Vectors of no known model have heads and qls of width 0.
    """

    key: Keys
    values: Int16s
    step: Float32s
    heads: UInt8s
    n_tokens: UInt16s
    head: UInt8s
    second: UInt8s
    qls: Int8s
    exemplar: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        if not len(self.exemplar):
            self.exemplar = np.full(len(self.key), -1, np.int64)

    @classmethod
    def blank(cls, key: Keys, dim: int, *, n_heads: int = 0, n_qls: int = 0) -> Vectors:
        """Give zero vectors of these keys, with nothing known beside them."""
        u = len(key)
        return cls(
            key=key,
            values=np.zeros((u, dim), np.int16),
            step=np.zeros(u, np.float32),
            heads=np.zeros((u, n_heads), np.uint8),
            n_tokens=np.zeros(u, np.uint16),
            head=np.full(u, NO_HEAD, np.uint8),
            second=np.full(u, NO_HEAD, np.uint8),
            qls=np.zeros((u, n_qls), np.int8),
        )

    @classmethod
    def of(cls, key: Keys, vectors: npt.NDArray[np.floating[Any]], **beside: npt.NDArray[Any]) -> Vectors:
        """Give vectors (u, dim) of unit length as they are stored.

        beside: `heads`, `qls` and so on, as the fields; what is left out is as in `blank`.
        """
        made = cls.blank(key, vectors.shape[1])
        made.values, made.step = quantise(vectors)
        return replace(made, **beside)

    @property
    def dim(self) -> int:
        """Dimensions."""
        return int(self.values.shape[1])

    def exact(self) -> Float32s:
        """Give the vectors, float32 (u, dim)."""
        return restore(self.values, self.step)

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: npt.NDArray[np.intp]) -> Vectors:
        """Give the vectors at `rows`, in that order."""
        return Vectors(
            self.key[rows],
            self.values[rows],
            self.step[rows],
            self.heads[rows],
            self.n_tokens[rows],
            self.head[rows],
            self.second[rows],
            self.qls[rows],
            self.exemplar[rows],
        )


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a store's vectors were made with; a store refuses to mix two of them.

    model_id: name and digest of the weights. basis_id, calibration_id: digests of the projection basis (with its QLS
    scales) and of the head calibration. qls_scale: float (136), value = code * scale.
    """

    model_id: str
    dim: int
    n_layers: int
    n_heads: int
    max_length: int
    basis_id: str
    calibration_id: str
    qls_scale: tuple[float, ...]
    dtype: str = "float32"


class Decoder(Protocol):
    """Turns acknowledged records into columns; pure, so that replaying the log gives the same columns."""

    def __call__(self, raw: RawBatch, first_seq: int) -> ColumnBatch:
        """Decode `raw`, whose records have the sequence numbers from `first_seq` on."""
        ...
