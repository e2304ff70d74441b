"""What a query reads: a run of events, on disk or still in memory, behind one small wall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import Int32s, Int64s, Keys, TextParts, UInt8s, UInt16s, Vectors
from .fixed_point import PLANE, Float32s, Int8s, Int16s, join, restore
from .tree import Tree

if TYPE_CHECKING:
    from .postings import PartsTable

NO_SHARD = 0xFFFF
"""Shard of rows whose head is not known (yet)."""

Guard = Callable[[npt.NDArray[np.integer[Any]] | None], None]
"""Checks the stored bytes of these vectors (None: of all) once. Raises DamageError."""


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

    codes: int8 (u, width), the high planes of the stored values (`fixed_point`), width = dim rounded up to a
    multiple of 64, zero padded, C-contiguous. rest: int8 (u, dim), the low planes. scale: float32 (u), 256 steps:
    exact ≈ codes * scale. err: float32 (u), the norm ‖exact − codes * scale‖, rounded up.
    have: bool (u), False where the vector is still to come.
    heads, n_tokens, head, second, qls: as in `Vectors`. exemplar: int64 (u), as in `Vectors`; where the vector is
    still to come, the lowest sequence number of the part's events with this text.
    guard: checks the bytes of codes and rest of these rows (None: all) the first time they are read.
    """

    key: Keys
    have: npt.NDArray[np.bool_]
    codes: Int8s
    rest: Int8s
    scale: Float32s
    err: Float32s
    heads: UInt8s
    n_tokens: UInt16s
    head: UInt8s
    second: UInt8s
    qls: Int8s
    exemplar: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    guard: Guard | None = None

    def __post_init__(self) -> None:
        if not len(self.exemplar):
            self.exemplar = np.full(len(self.key), -1, np.int64)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def dim(self) -> int:
        """Dimensions, 0 while no vector is known."""
        return int(self.rest.shape[1])

    def touch(self, rows: npt.NDArray[np.integer[Any]] | None = None) -> None:
        """Say that codes or rest of these rows (None: all) are about to be read. Raises DamageError.

        Whoever reads the two arrays themselves calls this first, once for all rows; the methods here do.
        """
        if self.guard is not None:
            self.guard(rows)

    def values(self, rows: npt.NDArray[np.integer[Any]]) -> Int16s:
        """Give the stored values of `rows`, int16 (k, dim)."""
        self.touch(rows)
        return join(self.codes[rows][:, : self.dim], self.rest[rows])

    def step(self, rows: npt.NDArray[np.integer[Any]]) -> Float32s:
        """Give the steps of `rows`, float32 (k)."""
        step: Float32s = self.scale[rows] / np.float32(PLANE)
        return step

    def exact(self, rows: npt.NDArray[np.integer[Any]]) -> Float32s:
        """Give the vectors of `rows`, float32 (k, dim)."""
        return restore(self.values(rows), self.step(rows))


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
    def partitions(self) -> Mapping[str, tuple[str, ...] | None]:
        """By text column, all its values (and perhaps some of deleted events), ascending; None: too many to list.

        A column that is absent is not known. No file is read for this.
        """
        ...

    def may_hold(self, name: str, value: str) -> bool:
        """Whether a text column may hold this value: false is certain, true also where nothing is known."""
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

    @property
    def n_vectors(self) -> int:
        """Number of distinct vectors that events use, those to come included."""
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
