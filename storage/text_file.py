"""The compressed columns of a segment: read per batch and per column, and the decoded batches kept for a while."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow_file import ArrowFile, write_arrow
from .columns import Placed, concat, find_owners
from .files import Files
from .payloads import CUTS
from .residual import RESIDUAL, Cells, column_of, type_of, unpack_cells
from .spans import cut_spans, find_spans
from .stored_file import StoredFile
from .sums import Sums

BATCH_ROWS = 4096
"""Rows of a compressed batch, unless they are long: what is read to show one row."""

BATCH_BYTES = 1 << 20
"""Batches are halved until the largest column takes at most this, down to MIN_BATCH_ROWS."""

MIN_BATCH_ROWS = 64

Rows = npt.NDArray[np.intp]

Keep = Callable[[Hashable, Callable[[], pa.Array]], pa.Array]
"""Gives the decoded column batch of this key, made if it is not kept (any more)."""


def write_text(
    files: Files,
    path: Path,
    placed: Placed,
    n_rows: int,
    *,
    compression: str,
    sums: MutableMapping[str, Sums] | None = None,
) -> StoredFile:
    """Write the cold columns of a part."""
    columns = placed.cold
    owners = find_owners(columns)
    stored = {name: array for name, array in columns.items() if owners[name] == name}
    spans = _span_columns(stored)
    if spans:
        stored = {**{name: array for name, array in stored.items() if name != "body"}, **spans}
    if placed.residual is not None:
        stored[RESIDUAL] = placed.residual
    if placed.cuts is not None:
        stored[CUTS] = placed.cuts
    batch_rows = _batch_rows(stored, n_rows)
    facts = {
        "rows": n_rows,
        "batch_rows": batch_rows,
        "aliases": {name: owner for name, owner in sorted(owners.items()) if name != owner},
        "spans": {"body": "record"} if spans else {},
        "overflow": sorted(placed.overflow),
    }
    names = sorted(stored)
    schema = pa.schema([(name, stored[name].type) for name in names])
    batches = _batches([stored[name] for name in names], schema, n_rows, batch_rows)
    return write_arrow(
        files, path, schema, batches, kind="text", facts=facts, compression=compression, sums=sums
    )


class TextFile:
    """The cold columns of an open segment."""

    def __init__(self, file: ArrowFile, n_rows: int, keep: Keep) -> None:
        file.expect_rows(n_rows)
        self._file = file
        self._n_rows = n_rows
        self._aliases: Mapping[str, str] = file.facts["aliases"]
        self._spans: Mapping[str, str] = file.facts["spans"]
        self._overflow = frozenset(file.facts["overflow"])
        self._stored = frozenset(file.schema.names)
        self._batch_rows = int(file.facts["batch_rows"])
        self._keep = keep
        self._cells: tuple[int, Cells] | None = None
        if file.schema.names and file.n_batches != -(-n_rows // self._batch_rows):
            raise file.damage(f"it has {file.n_batches} batches for {n_rows} rows")

    def __contains__(self, name: str) -> bool:
        owner = self._aliases.get(name, name)
        return owner in self._stored or owner in self._spans or owner in self._overflow

    @property
    def aliases(self) -> Mapping[str, str]:
        """Columns that equal another, by that one's name."""
        return self._aliases

    def column(self, name: str, rows: Rows | None) -> pa.Array:
        """Give a column, whole or at `rows` in that order."""
        name = self._aliases.get(name, name)
        if rows is None:
            pieces = [self._decode(name, number) for number in range(self._file.n_batches)]
            return concat(pieces) if pieces else pa.array([], self.kind(name))
        return self._at(name, np.asarray(rows, np.int64))

    def kind(self, name: str) -> pa.DataType:
        """Give the type of a column."""
        name = self._aliases.get(name, name)
        if name in self._spans:
            return pa.string()
        if name in self._overflow:
            return type_of(name)
        return self._file.schema.field(name).type

    def residual(self) -> pa.Array | None:
        """Give the rarest original fields by row, None where there are none."""
        return self.column(RESIDUAL, None) if self._overflow else None

    @property
    def overflow(self) -> frozenset[str]:
        """Names of the rarest original fields."""
        return self._overflow

    @property
    def is_cut(self) -> bool:
        """Whether payloads were cut out of records."""
        return CUTS in self._stored

    def _cells_of(self, number: int) -> Cells:
        # Whoever asks for one of the rarest fields asks for the others next.
        if self._cells is None or self._cells[0] != number:
            self._cells = (number, unpack_cells(self._kept_batch(RESIDUAL, number)))
        return self._cells[1]

    def _length(self, number: int) -> int:
        return min(self._batch_rows, self._n_rows - number * self._batch_rows)

    def _at(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        numbers, places = np.divmod(rows, self._batch_rows)
        wanted = np.unique(numbers)
        if not len(wanted):
            return pa.array([], self.kind(name))
        if len(wanted) == 1:
            return self._kept_batch(name, int(wanted[0])).take(pa.array(places))
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], wanted, side="right")
        pieces = []
        for number, start, end in zip(wanted, [0, *ends[:-1]], ends, strict=True):
            pieces.append(self._kept_batch(name, int(number)).take(pa.array(places[order[start:end]])))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return concat(pieces).take(pa.array(back))

    def _kept_batch(self, name: str, number: int) -> pa.Array:
        return self._keep((name, number), lambda: self._decode(name, number))

    def _decode(self, name: str, number: int) -> pa.Array:
        if name in self._spans:
            start, length = (self._decode(part, number) for part in _span_names(name))
            return cut_spans(self._kept_batch(self._spans[name], number), start, length)
        if name in self._overflow:
            return column_of(self._cells_of(number), name, self._length(number))
        array = self._file.batch_column(number, name)
        expected = self._length(number)
        if len(array) != expected:
            raise self._file.damage(f"record batch {number} has {len(array)} rows, expected {expected}")
        return array


def _span_columns(stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    if "body" not in stored or "record" not in stored:
        return {}
    spans = find_spans(stored["body"], stored["record"])
    return {} if spans is None else dict(zip(_span_names("body"), spans, strict=True))


def _span_names(name: str) -> tuple[str, str]:
    return f"{name}~start", f"{name}~length"


def _batch_rows(stored: Mapping[str, pa.Array], n_rows: int) -> int:
    largest = max((array.nbytes for array in stored.values()), default=0)
    batch_rows = BATCH_ROWS
    while batch_rows > MIN_BATCH_ROWS and largest * batch_rows > BATCH_BYTES * n_rows:
        batch_rows //= 2
    return batch_rows


def _batches(
    arrays: list[pa.Array], schema: pa.Schema, n_rows: int, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    for start in range(0, n_rows if arrays else 0, batch_rows):
        yield pa.RecordBatch.from_arrays([a.slice(start, batch_rows) for a in arrays], schema=schema)
