"""A damaged log brought to its end: every event that stands in a whole frame comes into segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from .batch import ColumnBatch, Decoder, Int64s, TextParts
from .catalog import Catalog
from .entry import Entry
from .files import Files
from .findings import Loss
from .layout import Layout
from .ledger import Position
from .log_scan import Frame, read_entries
from .meta import SegmentMeta
from .read_log import LogFault
from .rejects import Reject
from .rows import RowIndex
from .seal import seal
from .seq_runs import ranges_of
from .view import View
from .wal import wal_path


@dataclass(slots=True)
class SealedLog:
    """What the frames of a log held, durable but for what the manifest has to say of it."""

    segments: list[SegmentMeta] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


@dataclass(slots=True)
class LogSealer:
    """Writes what frames hold as segments of a store.

    in_segments: numbers of events that segments have, ascending. last: events of older files than this one may have
    been erased, and stay hidden if no segment has them.
    """

    files: Files
    layout: Layout
    catalog: Catalog
    decoder: Decoder
    in_segments: Int64s
    last: int = 0

    def seal(self, frames: Sequence[Frame], written: list[Path]) -> SealedLog:
        """Write them, durable on return; `written` gets their directories."""
        found = SealedLog()
        view = View(self.files, self.layout, self.decoder, self.catalog)
        batches: list[ColumnBatch] = []
        next_seq = 0
        for number, entry in self._entries(frames):
            rows = self._fresh_rows(entry, next_seq)
            if len(rows) and number < self.last:
                found.losses.append(self._hidden(number, entry, rows))
                continue
            if not len(rows) and (entry.n_rows or self._is_old(entry)):
                continue
            # Its vectors are known from now on, to the others as well.
            view.memtable.add(number, entry)
            found.positions |= {one.fingerprint: one for one in entry.positions}
            found.rejects += entry.rejects
            if len(rows):
                # Each by itself: between two of them numbers may be missing.
                batches.append(_taken(self._decoded(entry), rows))
            next_seq = max(next_seq, entry.first_seq + entry.n_rows)
        found.segments = seal(
            self.files,
            self.layout,
            batches,
            view.lookup,
            dim=view.dim,
            model=self.catalog.model,
            written=written,
        )
        return found

    def _fresh_rows(self, entry: Entry, next_seq: int) -> RowIndex:
        """Give the rows of an entry that are in no segment and in no frame before."""
        seq = np.arange(entry.first_seq, entry.first_seq + entry.n_rows)
        return np.flatnonzero((seq >= next_seq) & ~np.isin(seq, self.in_segments))

    def _is_old(self, entry: Entry) -> bool:
        """Whether an entry without events lies before what segments have."""
        return len(self.in_segments) > 0 and entry.first_seq <= int(self.in_segments[-1])

    def _hidden(self, number: int, entry: Entry, rows: RowIndex) -> Loss:
        file = str(wal_path(self.layout.wal, number).relative_to(self.layout.path))
        what = f"{len(rows):,} events of an older file of the log, which may have been erased"
        return Loss("events", file, len(rows), what, ranges_of(entry.first_seq + rows))

    def _entries(self, frames: Sequence[Frame]) -> Iterator[tuple[int, Entry]]:
        for number, group in groupby(frames, key=lambda frame: frame.number):
            for entry in read_entries(self.files, self.layout.wal, list(group)):
                yield number, entry

    def _decoded(self, entry: Entry) -> ColumnBatch:
        if entry.columns is not None:
            return entry.columns
        assert entry.raw is not None
        return self.decoder(entry.raw, entry.first_seq)


def losses_of(layout: Layout, faults: Sequence[LogFault], in_segments: Int64s) -> Iterator[Loss]:
    """Say what is lost by what is wrong with the log. in_segments: numbers that segments have."""
    for fault in faults:
        file = str(fault.file.relative_to(layout.path))
        if fault.lost is None:
            # A gap in the numbers would tell of events that are followed by others.
            yield Loss("events", file, None, f"what stood there, and nobody knows what it was ({fault.what})")
            continue
        lost = np.setdiff1d(np.arange(*fault.lost), in_segments)
        if len(lost):
            what = (
                f"{len(lost):,} events ({fault.what}). Where their sources were taken further, to load them again "
                "does not bring them back"
            )
            yield Loss("events", file, len(lost), what, ranges_of(lost))


def _taken(batch: ColumnBatch, rows: RowIndex) -> ColumnBatch:
    """Give some rows of a batch."""
    if len(rows) == batch.n_rows:
        return batch
    place = np.full(batch.n_rows, -1, np.int64)
    place[rows] = np.arange(len(rows))
    parts = batch.parts
    kept = np.flatnonzero(place[parts.row] >= 0)
    columns: dict[str, pa.Array] = {name: array.take(pa.array(rows)) for name, array in batch.columns.items()}
    row = place[parts.row[kept]].astype(np.int32)
    texts = TextParts(row, parts.field[kept], parts.chunk[kept], parts.key[kept], parts.primary[kept])
    return ColumnBatch(len(rows), columns, texts, batch.template[rows])
