"""What a query reads: a run of events, on disk or still in memory, behind one small wall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import Int32s, Int64s, Keys, TextParts, UInt8s, Vectors
from .tree import Tree

if TYPE_CHECKING:
    from .postings import PartsTable

NO_SHARD = 0xFFFF
"""Shard of rows whose head is not known (yet)."""


@dataclass(frozen=True, slots=True)
class FieldStats:
    """What a part knows of one physical column without reading it.

    n: rows with a value. minimum, maximum: of numbers (NaN left out) and `level`; None for other types.
    """

    n: int
    minimum: float | int | None = None
    maximum: float | int | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows `[lo, hi)` of one shard; inside a slice rows are in (ts, seq) order."""

    shard: int
    lo: int
    hi: int


@dataclass(slots=True)
class VectorTable:
    """The distinct vectors of a part; row i is `vec_id` i. Arrays are views of the file and must not be written.

    codes: int8 (u, width), width = dim rounded up to a multiple of 64, zero padded, C-contiguous.
    scale: float32 (u): exact ≈ codes * scale. err: float32 (u), the norm ‖exact − codes * scale‖, rounded up.
    exact: float16 (u, dim). have: bool (u), False where the vector is still to come.
    heads, n_tokens, head, second, qls: as in `Vectors`. exemplar: int64 (u), as in `Vectors`; where the vector is
    still to come, the lowest sequence number of the part's events with this text.
    """

    key: Keys
    have: npt.NDArray[np.bool_]
    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    err: npt.NDArray[np.float32]
    exact: npt.NDArray[np.float16]
    heads: UInt8s
    n_tokens: npt.NDArray[np.uint16]
    head: UInt8s
    second: UInt8s
    qls: npt.NDArray[np.int8]
    exemplar: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        if not len(self.exemplar):
            self.exemplar = np.full(len(self.key), -1, np.int64)

    def __len__(self) -> int:
        return len(self.key)


@dataclass(slots=True)
class Postings:
    """Where each vector is used: parts sorted by vector, then by (ts, seq) of their event.

    offsets: int64 (u + 1); the uses of vector v are `[offsets[v], offsets[v + 1])` of row and field.
    row: int32, row of the part. field: uint8, index into `PART_FIELDS`.
    """

    offsets: Int64s
    row: Int32s
    field: UInt8s


class Part(Protocol):
    """A run of events with its index: an immutable segment, or the memtable as a segment to be.

    Rows are ordered by (shard, ts, seq); a part without shards is one slice in (ts, seq) order.
    """

    @property
    def id(self) -> str:
        """Name of the segment's directory, or `wal-<seq>` with the first sequence number of a part of the log.

        A name says nothing of where a part lies: ask `is_stored`.
        """
        ...

    @property
    def is_stored(self) -> bool:
        """Whether this is a segment of the store, and not events that only the log holds."""
        ...

    @property
    def n_rows(self) -> int:
        """Events."""
        ...

    @property
    def t_min(self) -> int:
        """First event time, ns."""
        ...

    @property
    def t_max(self) -> int:
        """Last event time, ns, inclusive."""
        ...

    @property
    def pending(self) -> int:
        """Number of distinct vectors still to come."""
        ...

    @property
    def signals_pending(self) -> bool:
        """Whether signals that need vectors are still to come."""
        ...

    @property
    def fields(self) -> Mapping[str, FieldStats]:
        """Physical columns that hold at least one value."""
        ...

    @property
    def slices(self) -> Sequence[Slice]:
        """Rows by shard."""
        ...

    @property
    def tree(self) -> Tree:
        """The temporal tree over all slices."""
        ...

    @property
    def ts(self) -> Int64s:
        """Event times by row."""
        ...

    @property
    def seq(self) -> Int64s:
        """Arrival order by row."""
        ...

    def numbers(self, name: str) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_] | None]:
        """Values of a number, bool or level column by row, and which rows have one (None: all).

        Values of rows without one are arbitrary. Raises KeyError for a column that this part lacks.
        """
        ...

    def codes(self, name: str) -> tuple[Int32s, pa.Array] | None:
        """Dictionary codes by row (-1: missing) and the dictionary of a dictionary-encoded text column, else None."""
        ...

    def column(self, name: str, rows: npt.NDArray[np.intp] | None = None) -> pa.Array:
        """Any column, whole or at `rows` in that order; dictionary columns come decoded."""
        ...

    def vectors(self) -> VectorTable:
        """The distinct vectors."""
        ...

    def vec_of_row(self) -> Int32s:
        """Vector of each row's primary text, -1 where it has none."""
        ...

    def postings(self) -> Postings:
        """Where each vector is used."""
        ...

    def parts(self) -> TextParts:
        """Every embedded text of the part (row refers to this part's rows)."""
        ...

    def parts_table(self) -> PartsTable:
        """The same texts with their vectors instead of keys, ordered by (row, field, chunk)."""
        ...

    def template_of_row(self) -> Int32s:
        """Template of each row's body as index into `template_keys`, -1 where it has none."""
        ...

    def template_keys(self) -> Keys:
        """Distinct templates of bodies, ascending."""
        ...


__all__ = ["NO_SHARD", "FieldStats", "Part", "Postings", "Slice", "VectorTable", "Vectors"]
