"""A part in memory: columns and tables that somebody put together, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import Int32s, Keys
from .columns import Placed, find_owners, is_number
from .part import FieldStats, Postings, Slice, VectorTable
from .partitions import partition_values
from .patt import build_tree
from .payloads import CUTS, NO_PAYLOADS, Payloads
from .postings import PartsTable
from .residual import Cells, column_of, unpack_cells
from .rows import RowIndex, Rows
from .tree import Tree
from .tree_sources import Source

Sources = Callable[[], Sequence[Source]]
"""Gives the parts that a part was merged from, as a tree sees them."""

MAX_SUMMARISED = 128
"""Number columns that a tree summarises; canonical fields and signals come first."""


class MemoryPart(Rows):
    """A part in memory; what is costly (codes of vectors, postings, tree) is made when first asked for."""

    def __init__(
        self,
        part_id: str,
        placed: Placed,
        n_rows: int,
        slices: Sequence[Slice],
        *,
        parts: PartsTable,
        keys: Keys,
        have: npt.NDArray[np.bool_],
        make_vectors: Callable[[], VectorTable],
        template: Int32s,
        template_keys: Keys,
        qls_scale: Sequence[float] | None,
        signals_pending: bool,
        sources: Sources | None = None,
        payloads: Payloads = NO_PAYLOADS,
    ) -> None:
        super().__init__(part_id, n_rows, slices)
        self.placed = placed
        self._parts = parts
        self._keys = keys
        self._pending = int(len(have) - np.count_nonzero(have))
        self._make_vectors = make_vectors
        self._template = template
        self._template_keys = template_keys
        self._qls_scale = qls_scale
        self._signals_pending = signals_pending
        self._sources = sources
        self._payloads = payloads

    @property
    def is_stored(self) -> bool:
        """Whether this is a segment of the store: no, it is in memory."""
        return False

    @property
    def pending(self) -> int:
        """Number of distinct vectors still to come."""
        return self._pending

    @property
    def signals_pending(self) -> bool:
        """Whether signals that need vectors are still to come."""
        return self._signals_pending

    @property
    def fields(self) -> Mapping[str, FieldStats]:
        """Physical columns that hold at least one value."""
        return self.placed.fields

    @property
    def tree(self) -> Tree:
        """PATT over the part's rows."""
        return self._tree

    def vectors(self) -> VectorTable:
        """Give the dictionary of distinct vectors."""
        return self._table

    def vec_of_row(self) -> Int32s:
        """Give the vector of each row's primary text, -1 where it has none."""
        return self._vec_of_row

    def postings(self) -> Postings:
        """Give where each vector is used."""
        return self._postings

    def parts_table(self) -> PartsTable:
        """Give every embedded text with its vector."""
        return self._parts

    def vector_keys(self) -> Keys:
        """Give the keys of the vector dictionary, ascending by (hi, lo)."""
        return self._keys

    def template_of_row(self) -> Int32s:
        """Give the template of each row's body as index into `template_keys`, -1 where it has none."""
        return self._template

    def template_keys(self) -> Keys:
        """Give the distinct template keys, ascending by (hi, lo)."""
        return self._template_keys

    def residual(self) -> pa.Array | None:
        """Give the rarest original fields, a JSON object a row, None where there are none."""
        return self.placed.residual

    def overflow(self) -> frozenset[str]:
        """Name the fields in `residual`."""
        return self.placed.overflow

    @property
    def is_cut(self) -> bool:
        """Whether payloads were cut out of records."""
        return self.placed.cuts is not None

    def payloads(self) -> Payloads:
        """Give the payloads that were cut out of records."""
        return self._payloads

    def owners(self) -> Mapping[str, str]:
        """Name, for each column, the one of its equals that is stored."""
        return find_owners({**self.placed.hot, **self.placed.cold})

    @cached_property
    def partitions(self) -> Mapping[str, tuple[str, ...] | None]:
        """All values of the partition columns; None: too many to list."""
        return partition_values(self.placed)

    @cached_property
    def _table(self) -> VectorTable:
        return self._make_vectors()

    @cached_property
    def _vec_of_row(self) -> Int32s:
        return self._parts.vec_of_row(self.n_rows)

    @cached_property
    def _postings(self) -> Postings:
        return self._postings_of_parts()

    @cached_property
    def _tree(self) -> Tree:
        return build_tree(
            self.ts,
            self.seq,
            self.slices,
            numbers={name: self.numbers(name) for name in summarised(_types(self.placed.hot))},
            level=self.numbers("level") if "level" in self.placed.hot else None,
            vec_of_row=self.vec_of_row(),
            table=self.vectors() if self._qls_scale is not None else None,
            qls_scale=self._qls_scale,
            sources=() if self._sources is None else self._sources(),
        )

    @cached_property
    def _cells(self) -> Cells:
        return {} if self.placed.residual is None else unpack_cells(self.placed.residual)

    def _hot(self) -> Mapping[str, pa.Array]:
        return self.placed.hot

    def _has_cold(self, name: str) -> bool:
        return self.has_cold(name)

    def has_cold(self, name: str) -> bool:
        """Whether a column is among those that are not hot."""
        return name in self.placed.cold or name in self.placed.overflow or (name == CUTS and self.is_cut)

    def _cold(self, name: str, rows: RowIndex | None) -> pa.Array:
        array = self._whole(name)
        return array if rows is None else array.take(pa.array(np.asarray(rows, np.int64)))

    def _whole(self, name: str) -> pa.Array:
        if name == CUTS:
            return self.placed.cuts
        if name in self.placed.overflow:
            return column_of(self._cells, name, self.n_rows)
        return self.placed.cold[name]


def summarised(hot: Mapping[str, pa.DataType]) -> list[str]:
    """Name the columns that a tree summarises: hot numbers, neither times nor severities."""
    names = [name for name, kind in hot.items() if name not in ("ts", "seq", "level") and is_number(kind)]
    return sorted(names, key=lambda name: ("#" in name, name))[:MAX_SUMMARISED]


def _types(columns: Mapping[str, pa.Array]) -> dict[str, pa.DataType]:
    return {name: array.type for name, array in columns.items()}
