"""A damaged log brought to its end: every event that stands in a whole frame comes into segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from .batch import ColumnBatch, Decoder, TextParts
from .catalog import Catalog
from .entry import Entry
from .files import Files
from .findings import Loss
from .layout import Layout
from .ledger import Position
from .log_scan import Frame, read_entries
from .meta import SegmentMeta
from .read_log import LogFault, ReadLog
from .rejects import Reject
from .seal import seal
from .view import View


@dataclass(slots=True)
class SealedLog:
    """What the frames of a log held, durable but for what the manifest has to say of it."""

    segments: list[SegmentMeta] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)


def seal_log(
    files: Files,
    layout: Layout,
    log: ReadLog,
    catalog: Catalog,
    decoder: Decoder,
    written: list[Path],
) -> SealedLog:
    """Write what the frames hold as segments of the store `catalog`; `written` gets their directories."""
    found = SealedLog()
    view = View(files, layout, decoder, catalog)
    batches: list[ColumnBatch] = []
    next_seq = catalog.root.next_seq
    for number, entry in _entries(files, layout, log.frames):
        # Its vectors are known from now on, to the others as well.
        view.memtable.add(number, entry)
        found.positions |= {one.fingerprint: one for one in entry.positions}
        found.rejects += entry.rejects
        if entry.n_rows and entry.first_seq + entry.n_rows > next_seq:
            # Each by itself: between two of them numbers may be missing.
            batches.append(_from(_decoded(entry, decoder), max(next_seq - entry.first_seq, 0)))
            next_seq = entry.first_seq + entry.n_rows
    found.segments = seal(
        files, layout, batches, view.lookup, dim=view.dim, model=catalog.model, written=written
    )
    return found


def losses_of(layout: Layout, faults: Sequence[LogFault]) -> Iterator[Loss]:
    """Say what is lost by what is wrong with the log."""
    for fault in faults:
        file = str(fault.file.relative_to(layout.path))
        if fault.lost is None:
            what = f"what stood there ({fault.what}): no events, or nobody knows which"
            yield Loss("events", file, 0 if fault.lost else None, what)
            continue
        what = (
            f"{fault.n_rows:,} events ({fault.what}). Where their sources were taken further, to load them again "
            "does not bring them back"
        )
        yield Loss("events", file, fault.n_rows, what, (fault.lost,))


def _entries(files: Files, layout: Layout, frames: Sequence[Frame]) -> Iterator[tuple[int, Entry]]:
    for number, group in groupby(frames, key=lambda frame: frame.number):
        for entry in read_entries(files, layout.wal, list(group)):
            yield number, entry


def _decoded(entry: Entry, decoder: Decoder) -> ColumnBatch:
    if entry.columns is not None:
        return entry.columns
    assert entry.raw is not None
    return decoder(entry.raw, entry.first_seq)


def _from(batch: ColumnBatch, first: int) -> ColumnBatch:
    """Give a batch from a row on."""
    if not first:
        return batch
    parts, n_rows = batch.parts, batch.n_rows - first
    kept = np.flatnonzero(parts.row >= first)
    columns: dict[str, pa.Array] = {name: array.slice(first) for name, array in batch.columns.items()}
    rows = (parts.row[kept] - first).astype(np.int32)
    texts = TextParts(rows, parts.field[kept], parts.chunk[kept], parts.key[kept], parts.primary[kept])
    return ColumnBatch(n_rows, columns, texts, batch.template[first:])
