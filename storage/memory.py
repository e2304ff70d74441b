"""Parts in memory: built from decoded batches, merged from other parts, or cut out of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import ColumnBatch, Int32s, Int64s, Keys, TextParts, Vectors
from .columns import Placed, place_columns, take_columns
from .joining import join_columns
from .memory_part import MemoryPart, Sources
from .merged_columns import merge_columns
from .part import Part, VectorTable
from .payloads import CUTS, NO_PAYLOADS, Payloads
from .postings import index_keys, join_keys, join_parts, order_parts
from .record_cuts import gather
from .residual import RESIDUAL
from .rows import RowIndex, Rows, inverse
from .shards import assign_shards, slices_of
from .vectors import make_table, merge_tables, no_vectors

Lookup = Callable[[Keys], tuple[npt.NDArray[np.bool_], Vectors]]
"""Vectors that are known already: which keys were found, and their vectors in key order."""


def build(
    batches: Sequence[ColumnBatch],
    lookup: Lookup | None,
    *,
    dim: int | None,
    part_id: str,
    qls_scale: Sequence[float] | None = None,
    signals_pending: bool | None = None,
    payloads: Payloads = NO_PAYLOADS,
) -> MemoryPart:
    """Build a young part: one slice in (ts, seq) order, vectors that `lookup` knows filled in.

    dim: of the vectors, None while no model is known. qls_scale: of the model (136); without it nodes have no
    signatures. signals_pending: None: to come if any text is embedded. payloads: that were cut out of records of
    the batches; those that they do not use are left out. Raises StoreError where batches give a column different
    types.
    """
    lengths = [batch.n_rows for batch in batches]
    parts = join_parts([batch.parts for batch in batches], lengths)
    keys, vec = index_keys(parts.key)
    if lookup is None or not len(keys):
        have, known = np.zeros(len(keys), np.bool_), no_vectors(dim or 0)
    else:
        have, known = lookup(keys)
    columns = join_columns([batch.columns for batch in batches], lengths)
    payloads = _keep_used(columns, payloads, sum(lengths))
    first_seq = _first_seqs(_seq_of(columns), parts, vec, len(keys))
    placed, order = _place(columns, sum(lengths))
    return _assemble(
        part_id,
        placed,
        sum(lengths),
        order=order,
        parts=parts,
        vec=vec,
        keys=keys,
        have=have,
        make_vectors=lambda: make_table(keys, have, known, first_seq),
        template=join_keys([batch.template for batch in batches]),
        qls_scale=qls_scale,
        signals_pending=len(parts) > 0 if signals_pending is None else signals_pending,
        payloads=payloads,
    )


def merge(
    parts: Sequence[Part],
    part_id: str,
    *,
    qls_scale: Sequence[float] | None = None,
    sources: Sources | None = None,
    going: Callable[[], None] = lambda: None,
) -> MemoryPart:
    """Merge parts into one, ordered by (shard, ts, seq) with a slice for each shard; every row stays.

    Rows whose primary text has no vector yet are in the slice NO_SHARD. Late vectors and signals of the parts
    are merged like any other. sources: the parts as the tree sees them; None: it is built from the rows.
    going: called between columns; what it raises ends the merge.
    """
    lengths = [part.n_rows for part in parts]
    texts = join_parts([part.parts() for part in parts], lengths)
    keys, vec = index_keys(texts.key)
    times = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("ts", "seq")}
    table = _own_exemplars(merge_tables(keys, [part.vectors() for part in parts]), times["seq"], texts, vec)
    primary = np.full(sum(lengths), -1, np.int32)
    primary[texts.row[texts.primary]] = vec[texts.primary]
    shard = assign_shards(primary, table)
    order = _order(times["ts"], times["seq"], shard)
    columns = merge_columns(parts, order, going=going)
    cuts, payloads = _merge_cuts(parts)
    if cuts is not None:
        columns |= take_columns({CUTS: cuts}, order)
    return _assemble(
        part_id,
        place_columns(columns, sum(lengths)),
        sum(lengths),
        order=order,
        parts=texts,
        vec=vec,
        keys=keys,
        have=table.have,
        make_vectors=lambda: table,
        template=join_keys([_template_of(part) for part in parts]),
        shard=shard,
        qls_scale=qls_scale,
        signals_pending=any(part.signals_pending for part in parts),
        sources=sources,
        payloads=payloads,
    )


def select(
    part: Part,
    rows: RowIndex,
    part_id: str,
    *,
    qls_scale: Sequence[float] | None = None,
    vectors: VectorTable | None = None,
    columns: Mapping[str, pa.Array] | None = None,
    signals_pending: bool | None = None,
) -> MemoryPart:
    """Give a young part of some rows of another, in (ts, seq) order.

    vectors, columns (whole ones, by name), signals_pending: what replaces the part's own.
    """
    rows = np.asarray(rows, np.intp)
    texts = part.parts()
    place = np.full(part.n_rows, -1, np.int64)
    place[rows] = np.arange(len(rows))
    kept = order_parts(texts, np.arange(len(texts), dtype=np.int32), place)
    texts = TextParts(kept.row, kept.field, kept.chunk, texts.key[kept.vec], kept.primary)
    keys, vec = index_keys(texts.key)
    taken = take_columns({**_columns_of(part), **(columns or {})}, rows)
    taken = join_columns([taken], [len(rows)])
    payloads = _keep_used(taken, _payloads_of(part), len(rows))
    table = merge_tables(keys, [part.vectors() if vectors is None else vectors])
    table = _own_exemplars(table, _seq_of(taken), texts, vec)
    placed, order = _place(taken, len(rows))
    is_pending = part.signals_pending if signals_pending is None else signals_pending
    return _assemble(
        part_id,
        placed,
        len(rows),
        order=order,
        parts=texts,
        vec=vec,
        keys=keys,
        have=table.have,
        make_vectors=lambda: table,
        template=_template_of(part)[rows],
        qls_scale=qls_scale,
        signals_pending=is_pending and len(texts) > 0,
        payloads=payloads,
    )


def _assemble(
    part_id: str,
    placed: Placed,
    n_rows: int,
    *,
    order: RowIndex | None,
    parts: TextParts,
    vec: Int32s,
    keys: Keys,
    have: npt.NDArray[np.bool_],
    make_vectors: Callable[[], VectorTable],
    template: Keys,
    qls_scale: Sequence[float] | None,
    signals_pending: bool,
    payloads: Payloads,
    shard: npt.NDArray[np.uint16] | None = None,
    sources: Sources | None = None,
) -> MemoryPart:
    """Make a part whose columns lie in `order` already; everything else comes as it lay before."""
    template_keys, template_of_row = index_keys(template, zero_is_none=True)
    return MemoryPart(
        part_id,
        placed,
        n_rows,
        slices_of(shard if shard is None or order is None else shard[order], n_rows),
        parts=order_parts(parts, vec, None if order is None else inverse(order)),
        keys=keys,
        have=have,
        make_vectors=make_vectors,
        template=template_of_row if order is None else template_of_row[order],
        template_keys=template_keys,
        qls_scale=qls_scale,
        signals_pending=signals_pending,
        sources=sources,
        payloads=payloads,
    )


def _place(columns: Mapping[str, pa.Array], n_rows: int) -> tuple[Placed, RowIndex | None]:
    """Give the columns in (ts, seq) order, and that order."""
    order = None
    if "ts" in columns:
        order = _order(columns["ts"].to_numpy(), columns["seq"].to_numpy(), None)
    return place_columns(take_columns(columns, order), n_rows), order


def _seq_of(columns: Mapping[str, pa.Array]) -> Int64s:
    return columns["seq"].to_numpy() if "seq" in columns else np.empty(0, np.int64)


def _first_seqs(seq: Int64s, parts: TextParts, vec: Int32s, n_keys: int) -> Int64s:
    """Give the lowest sequence number of the events that use each key."""
    first = np.full(n_keys, np.iinfo(np.int64).max)
    if n_keys:
        np.minimum.at(first, vec, seq[parts.row])
    return first


def _own_exemplars(table: VectorTable, seq: Int64s, parts: TextParts, vec: Int32s) -> VectorTable:
    """Let texts without a vector be embedded from an event that is here."""
    if not table.have.all():
        first = _first_seqs(seq, parts, vec, len(table))
        table.exemplar = np.where(table.have, table.exemplar, first)
    return table


def _order(ts: Int64s, seq: Int64s, shard: npt.NDArray[np.uint16] | None) -> RowIndex | None:
    """Give the rows in (shard, ts, seq) order, or None where they lie so."""
    later = (ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (seq[1:] >= seq[:-1]))
    if shard is None:
        return None if later.all() else np.lexsort((seq, ts))
    ahead = (shard[1:] > shard[:-1]) | ((shard[1:] == shard[:-1]) & later)
    return None if ahead.all() else np.lexsort((seq, ts, shard))


def _columns_of(part: Part) -> dict[str, pa.Array]:
    """Give all columns of a part; equal ones as one object, so that they are found equal again at once."""
    if not isinstance(part, Rows):
        return {name: part.column(name) for name in ("ts", "seq", *part.fields)}
    owners, residual, rare = part.owners(), part.residual(), part.overflow()
    names = ["ts", "seq", *(name for name in part.fields if name not in rare)]
    read = {owner: part.raw(owner) for owner in {owners.get(name, name) for name in names}}
    columns = {name: read[owners.get(name, name)] for name in names}
    if residual is not None:
        columns[RESIDUAL] = residual
    if part.is_cut:
        columns[CUTS] = part.raw(CUTS)
    return columns


def _payloads_of(part: Part) -> Payloads:
    return part.payloads() if isinstance(part, Rows) and part.is_cut else NO_PAYLOADS


def _keep_used(columns: dict[str, pa.Array], payloads: Payloads, n_rows: int) -> Payloads:
    """Give the payloads that the column `CUTS` uses, and number them anew in it."""
    if CUTS not in columns:
        return NO_PAYLOADS
    cuts, used = gather([columns.pop(CUTS)], [payloads], [n_rows])
    if cuts is not None:
        columns[CUTS] = cuts
    return used


def _merge_cuts(parts: Sequence[Part]) -> tuple[pa.Array | None, Payloads]:
    """Put together what was cut out of the records of parts; no payload is read for it."""
    cuts = [part.raw(CUTS) if isinstance(part, Rows) and part.is_cut else None for part in parts]
    return gather(cuts, [_payloads_of(part) for part in parts], [part.n_rows for part in parts])


def _template_of(part: Part) -> Keys:
    templates, keys = part.template_of_row(), part.template_keys()
    padded = np.append(keys, np.zeros(1, keys.dtype))
    return padded[templates]


__all__ = ["Lookup", "MemoryPart", "build", "merge", "select"]
