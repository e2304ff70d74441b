"""Parts in memory: built from decoded batches, merged from other parts, or cut out of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import ColumnBatch, Int32s, Int64s, Keys, TextParts, Vectors
from .columns import Placed, find_owners, place_columns, take_columns
from .joining import join_columns
from .part import FieldStats, Part, Postings, Slice, VectorTable
from .patt import build_tree
from .postings import PartsTable, index_keys, join_keys, join_parts, order_parts
from .residual import RESIDUAL, Cells, column_of, unpack_cells
from .rows import RowIndex, Rows
from .shards import assign_shards, slices_of
from .tree import Tree
from .vectors import make_table, merge_tables, no_vectors

Lookup = Callable[[Keys], tuple[npt.NDArray[np.bool_], Vectors]]
"""Vectors that are known already: which keys were found, and their vectors in key order."""

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

    def owners(self) -> Mapping[str, str]:
        """Name, for each column, the one of its equals that is stored."""
        return find_owners({**self.placed.hot, **self.placed.cold})

    @cached_property
    def _table(self) -> VectorTable:
        return self._make_vectors()

    @cached_property
    def _vec_of_row(self) -> Int32s:
        return self._parts.vec_of_row(self.n_rows)

    @cached_property
    def _postings(self) -> Postings:
        order = self.time_order()
        rank = None if order is None else _inverse(order, self.n_rows)
        return self._parts.postings(len(self._keys), rank)

    @cached_property
    def _tree(self) -> Tree:
        return build_tree(
            self.ts,
            self.seq,
            self.slices,
            numbers={name: self.numbers(name) for name in summarised(self.placed.hot)},
            level=self.numbers("level") if "level" in self.placed.hot else None,
            vec_of_row=self.vec_of_row(),
            table=self.vectors() if self._qls_scale is not None else None,
            qls_scale=self._qls_scale,
        )

    @cached_property
    def _cells(self) -> Cells:
        return {} if self.placed.residual is None else unpack_cells(self.placed.residual)

    def _hot(self) -> Mapping[str, pa.Array]:
        return self.placed.hot

    def _has_cold(self, name: str) -> bool:
        return name in self.placed.cold or name in self.placed.overflow

    def _cold(self, name: str, rows: RowIndex | None) -> pa.Array:
        is_rare = name in self.placed.overflow
        array = column_of(self._cells, name, self.n_rows) if is_rare else self.placed.cold[name]
        return array if rows is None else array.take(pa.array(np.asarray(rows, np.int64)))


def build(
    batches: Sequence[ColumnBatch],
    lookup: Lookup | None,
    *,
    dim: int | None,
    part_id: str,
    qls_scale: Sequence[float] | None = None,
    signals_pending: bool | None = None,
) -> MemoryPart:
    """Build a young part: one slice in (ts, seq) order, vectors that `lookup` knows filled in.

    dim: of the vectors, None while no model is known. qls_scale: of the model (136); without it nodes have no
    signatures. signals_pending: None: to come if any text is embedded. Raises StoreError where batches give a
    column different types.
    """
    lengths = [batch.n_rows for batch in batches]
    parts = join_parts([batch.parts for batch in batches], lengths)
    keys, vec = index_keys(parts.key)
    if lookup is None or not len(keys):
        have, known = np.zeros(len(keys), np.bool_), no_vectors(dim or 0)
    else:
        have, known = lookup(keys)
    columns = join_columns([batch.columns for batch in batches], lengths)
    first_seq = _first_seqs(columns, parts, vec, len(keys))
    return _assemble(
        part_id,
        columns,
        sum(lengths),
        parts=parts,
        vec=vec,
        keys=keys,
        have=have,
        make_vectors=lambda: make_table(keys, have, known, first_seq),
        template=join_keys([batch.template for batch in batches]),
        qls_scale=qls_scale,
        signals_pending=len(parts) > 0 if signals_pending is None else signals_pending,
    )


def merge(parts: Sequence[Part], part_id: str, *, qls_scale: Sequence[float] | None = None) -> MemoryPart:
    """Merge parts into one, ordered by (shard, ts, seq) with a slice for each shard; every row stays.

    Rows whose primary text has no vector yet are in the slice NO_SHARD. Late vectors and signals of the parts
    are merged like any other.
    """
    lengths = [part.n_rows for part in parts]
    texts = join_parts([part.parts() for part in parts], lengths)
    keys, vec = index_keys(texts.key)
    table = merge_tables(keys, [part.vectors() for part in parts])
    primary = np.full(sum(lengths), -1, np.int32)
    primary[texts.row[texts.primary]] = vec[texts.primary]
    return _assemble(
        part_id,
        join_columns([_columns_of(part) for part in parts], lengths),
        sum(lengths),
        parts=texts,
        vec=vec,
        keys=keys,
        have=table.have,
        make_vectors=lambda: table,
        template=join_keys([_template_of(part) for part in parts]),
        shard=assign_shards(primary, table),
        qls_scale=qls_scale,
        signals_pending=any(part.signals_pending for part in parts),
    )


def select(
    part: Part, rows: RowIndex, part_id: str, *, qls_scale: Sequence[float] | None = None
) -> MemoryPart:
    """Give a young part of some rows of another, in (ts, seq) order."""
    rows = np.asarray(rows, np.intp)
    texts = part.parts()
    place = np.full(part.n_rows, -1, np.int64)
    place[rows] = np.arange(len(rows))
    kept = order_parts(texts, np.arange(len(texts), dtype=np.int32), place)
    texts = TextParts(kept.row, kept.field, kept.chunk, texts.key[kept.vec], kept.primary)
    keys, vec = index_keys(texts.key)
    table = merge_tables(keys, [part.vectors()])
    return _assemble(
        part_id,
        join_columns([take_columns(_columns_of(part), rows)], [len(rows)]),
        len(rows),
        parts=texts,
        vec=vec,
        keys=keys,
        have=table.have,
        make_vectors=lambda: table,
        template=_template_of(part)[rows],
        qls_scale=qls_scale,
        signals_pending=part.signals_pending and len(texts) > 0,
    )


def summarised(hot: Mapping[str, pa.Array]) -> list[str]:
    """Name the columns that a tree summarises: hot numbers, neither times nor severities."""
    names = [
        name
        for name, array in hot.items()
        if name not in ("ts", "seq", "level")
        and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type))
    ]
    return sorted(names, key=lambda name: ("#" in name, name))[:MAX_SUMMARISED]


def _assemble(
    part_id: str,
    columns: dict[str, pa.Array],
    n_rows: int,
    *,
    parts: TextParts,
    vec: Int32s,
    keys: Keys,
    have: npt.NDArray[np.bool_],
    make_vectors: Callable[[], VectorTable],
    template: Keys,
    qls_scale: Sequence[float] | None,
    signals_pending: bool,
    shard: npt.NDArray[np.uint16] | None = None,
) -> MemoryPart:
    order = _order(columns, shard)
    template_keys, template_of_row = index_keys(template, zero_is_none=True)
    return MemoryPart(
        part_id,
        place_columns(take_columns(columns, order), n_rows),
        n_rows,
        slices_of(shard if shard is None or order is None else shard[order], n_rows),
        parts=order_parts(parts, vec, None if order is None else _inverse(order, n_rows)),
        keys=keys,
        have=have,
        make_vectors=make_vectors,
        template=template_of_row if order is None else template_of_row[order],
        template_keys=template_keys,
        qls_scale=qls_scale,
        signals_pending=signals_pending,
    )


def _first_seqs(columns: Mapping[str, pa.Array], parts: TextParts, vec: Int32s, n_keys: int) -> Int64s:
    """Give the lowest sequence number of the events that use each key."""
    first = np.full(n_keys, np.iinfo(np.int64).max)
    if n_keys:
        np.minimum.at(first, vec, columns["seq"].to_numpy()[parts.row])
    return first


def _order(columns: Mapping[str, pa.Array], shard: npt.NDArray[np.uint16] | None) -> RowIndex | None:
    """Give the rows in (shard, ts, seq) order, or None where they lie so."""
    if "ts" not in columns:
        return None
    ts, seq = columns["ts"].to_numpy(), columns["seq"].to_numpy()
    later = (ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (seq[1:] >= seq[:-1]))
    if shard is None:
        return None if later.all() else np.lexsort((seq, ts))
    ahead = (shard[1:] > shard[:-1]) | ((shard[1:] == shard[:-1]) & later)
    return None if ahead.all() else np.lexsort((seq, ts, shard))


def _inverse(order: RowIndex, n_rows: int) -> RowIndex:
    place = np.empty(n_rows, np.intp)
    place[order] = np.arange(n_rows)
    return place


def _columns_of(part: Part) -> dict[str, pa.Array]:
    """Give all columns of a part; equal ones as one object, so that they are found equal again at once."""
    if not isinstance(part, Rows):
        return {name: part.column(name) for name in ("ts", "seq", *part.fields)}
    owners, residual, rare = part.owners(), part.residual(), part.overflow()
    names = ["ts", "seq", *(name for name in part.fields if name not in rare)]
    read = {owner: part.raw(owner) for owner in {owners.get(name, name) for name in names}}
    columns = {name: read[owners.get(name, name)] for name in names}
    return columns if residual is None else {**columns, RESIDUAL: residual}


def _template_of(part: Part) -> Keys:
    templates, keys = part.template_of_row(), part.template_keys()
    padded = np.append(keys, np.zeros(1, keys.dtype))
    return padded[templates]
