"""A damaged segment written anew with everything of it that can be read, and an account of what cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .batch import ColumnBatch, Int64s, Keys, ModelInfo, TextParts
from .cells import covering_cell
from .check_files import SegmentCheck, cell_bounds
from .columns import plain, take_columns
from .deletion import Gone, read_deletion
from .errors import DamageError
from .files import Files
from .findings import Loss
from .hot_file import INTERNAL
from .layout import Layout
from .memory import MemoryPart, build
from .meta import SegmentMeta
from .payloads import RECORD
from .postings import index_keys, order_parts
from .record_cuts import Cuts
from .rejects import Reject
from .rows import RowIndex
from .seal import segment_id
from .segment import write
from .segment_files import kind_of
from .seq_runs import Ranges, ranges_of
from .wreck import Bools, Wreck, open_wreck
from .wreck_columns import ReadColumns, clear_derived, read_hot, read_text
from .wreck_payloads import ReadPayloads, keep_readable, read_payloads, whole_records
from .wreck_vectors import ReadLates, ReadTexts, known_vectors, read_lates, read_table, read_texts

TextsOf = Callable[[Mapping[str, pa.Array], int, ModelInfo | None], tuple[TextParts, Keys]]
"""Gives what decoded columns of so many events embed, and the key of the template of each."""

EMBEDDED = ("body", "prompt", "response", "context")
"""Columns whose texts are embedded."""

_ROWS = ("ts", "seq")

_REASON = "was an event, whose time or number a salvage could not read"


@dataclass(slots=True)
class Rescued:
    """What became of a damaged segment. meta: as it was written anew, None where nothing was left of it.

    records: of events that are lost, since their times or numbers cannot be read, but whose records can be.
    """

    meta: SegmentMeta | None
    losses: list[Loss]
    records: list[Reject]


@dataclass(slots=True)
class Rescuer:
    """Rescues one segment. hidden: sequence numbers of its events that are deleted, besides its own deletion.

    texts_of: makes embedded texts anew where the segment does not tell them any more.
    """

    files: Files
    layout: Layout
    meta: SegmentMeta
    hidden: Int64s
    model: ModelInfo | None
    texts_of: TextsOf
    losses: list[Loss] = field(default_factory=list)
    records: list[Reject] = field(default_factory=list)
    payloads: ReadPayloads = field(default_factory=ReadPayloads)
    missing: Cuts = field(default_factory=Cuts.none)

    def rescue(self, written: list[Path]) -> Rescued:
        """Write what can be read as a new segment; `written` gets its directory. Nothing else is changed."""
        part = self._read()
        if part is None:
            return Rescued(None, self.losses, self.records)
        level, cell = self._cell(part)
        directory = self.layout.segment(part.id)
        written.append(directory)
        meta = write(self.files, directory, part, level=level, cell=cell)
        return Rescued(meta, self.losses, self.records)

    # -- rows ---------------------------------------------------------------------------------------------------

    def _read(self) -> MemoryPart | None:
        gone, wreck = self._gone(), self._open("hot")
        self.payloads = read_payloads(self._open("blobs"))
        if gone is None:
            self._lose_events(
                self.meta.n_live, "events: which of them are deleted cannot be read", self._all_seqs()
            )
            return None
        if wreck is None:
            lost = np.ones(self.meta.n_rows, np.bool_)
            lost[gone.rows] = False
            self._keep_records(lost, ReadColumns(self.meta.n_rows))
            self._lose_events(self.meta.n_live, self._told_events(), self._all_seqs())
            return None
        hot = read_hot(wreck, self.meta.n_rows)
        rows = self._rows(hot, gone)
        if not len(rows):
            return None
        lates = read_lates(self.files, self.layout.segment(self.meta.id), self.meta)
        columns = self._columns(hot, lates, gone)
        self._tell_columns(columns, rows)
        self._tell_payloads(hot, rows)
        return self._build(hot, columns, lates, gone, rows)

    def _gone(self) -> Gone | None:
        try:
            return read_deletion(self.files, self.layout.segment(self.meta.id), self.meta)
        except DamageError:
            return None

    def _rows(self, hot: ReadColumns, gone: Gone) -> RowIndex:
        """Give the rows that are events still, and whose time and number can be read."""
        is_live = np.ones(self.meta.n_rows, np.bool_)
        is_live[gone.rows] = False
        has = hot.has("ts") & hot.has("seq")
        if not {*_ROWS} <= hot.columns.keys():
            has[:] = False
        if "seq" in hot.columns:
            is_live &= ~(np.isin(_numbers(hot.columns["seq"]), self.hidden) & hot.has("seq"))
        lost = is_live & ~has
        if lost.any():
            self._keep_records(lost, hot)
            n_lost, seqs = int(np.count_nonzero(lost)), self._lost_seqs(hot, lost)
            self._lose_events(n_lost, self._told_events(), seqs)
        return np.flatnonzero(is_live & has)

    def _lost_seqs(self, hot: ReadColumns, lost: Bools) -> Ranges:
        """Give the numbers of lost rows; of rows whose number cannot be read, all that they may have."""
        if "seq" not in hot.columns:
            return self._all_seqs()
        seq, known = _numbers(hot.columns["seq"]), hot.has("seq")
        told = seq[lost & known]
        if not (lost & ~known).any():
            return ranges_of(told)
        others = np.setdiff1d(np.arange(self.meta.seq_min, self.meta.seq_max + 1), seq[known])
        return ranges_of(np.concatenate([told, others]))

    def _all_seqs(self) -> Ranges:
        return ((self.meta.seq_min, self.meta.seq_max + 1),)

    def _keep_records(self, lost: Bools, hot: ReadColumns) -> None:
        """Keep the records of lost events as rejects, unless one of them may be deleted."""
        wreck = self._open("text")
        if wreck is None or len(self.hidden):
            return
        text = read_text(wreck, self.meta.n_rows)
        keep_readable(text, self.payloads)
        if RECORD not in text.columns:
            return
        rows = np.flatnonzero(lost & text.has(RECORD))
        columns = {**hot.columns, **text.columns}
        told = [_values(columns.get(name), rows) for name in ("source", "source_line", "source_offset")]
        records = whole_records(text, rows, self.payloads).to_pylist()
        for source, line, offset, record in zip(*told, records, strict=True):
            if record is not None:
                self.records.append(Reject(source or "salvaged", line or 0, offset or 0, _REASON, record))

    def _told_events(self) -> str:
        kept = f"; {len(self.records):,} of their records are kept among the rejects" if self.records else ""
        return f"events, whose times or numbers cannot be read{kept}"

    # -- columns ------------------------------------------------------------------------------------------------

    def _columns(self, hot: ReadColumns, lates: ReadLates, gone: Gone) -> ReadColumns:
        """Give the fields of events, late ones included."""
        found = ReadColumns(self.meta.n_rows)
        text = self._text(hot)
        for source in (hot, text):
            found.columns |= {n: array for n, array in source.columns.items() if n not in INTERNAL}
            found.lost |= {n: lost for n, lost in source.lost.items() if n not in INTERNAL}
        for name, array in lates.signals.items():
            found.put(name, array, np.zeros(found.n_rows, np.bool_))
        for name in lates.lost_signals:
            found.lose(name)
        if len(gone.vectors):
            clear_derived(found, gone)
        return found

    def _text(self, hot: ReadColumns) -> ReadColumns:
        wreck = self._open("text")
        if wreck is not None:
            text = read_text(wreck, self.meta.n_rows)
            self.missing = keep_readable(text, self.payloads)
            return text
        found = ReadColumns(self.meta.n_rows)
        for name in self.meta.fields:
            if name not in hot.columns and name not in hot.lost:
                found.lose(name)
        return found

    def _tell_columns(self, columns: ReadColumns, rows: RowIndex) -> None:
        for name, lost in sorted(columns.lost.items()):
            n_rows = int(np.count_nonzero(lost[rows]))
            # What has no value anywhere is not missed.
            if n_rows and name not in _ROWS and self.meta.has_field(name):
                what = f"column {name} of {n_rows:,} events"
                self._lose("column", self._file(""), n_rows, what, name=name)

    def _tell_payloads(self, hot: ReadColumns, rows: RowIndex) -> None:
        is_live = np.isin(self.missing.row, rows)
        at, numbers = np.unique(self.missing.row[is_live]), np.unique(self.missing.number[is_live])
        if len(at):
            what = f"{len(numbers):,} payloads, and with them the records of {len(at):,} events"
            seqs = ranges_of(_numbers(hot.columns["seq"])[at])
            self._lose("payloads", self._file("blobs"), len(numbers), what, seqs=seqs)

    # -- vectors ------------------------------------------------------------------------------------------------

    def _build(
        self, hot: ReadColumns, columns: ReadColumns, lates: ReadLates, gone: Gone, rows: RowIndex
    ) -> MemoryPart:
        table = read_table(self._open("vec"), gone)
        texts = read_texts(self._open(self._parts_kind), hot, table) or self._made_texts(columns, rows)
        known = known_vectors(table, lates, gone)
        parts = _parts_of(texts.parts, rows, self.meta.n_rows)
        n_pending = int(np.count_nonzero(~known.find(index_keys(parts.key)[0])[0]))
        n_lost = max(n_pending - self.meta.pending, 0)
        if n_lost:
            what = f"{n_lost:,} vectors: `treering embed` makes them again, unless they came with the events"
            self._lose("vectors", self._file("vec"), n_lost, what)
        taken = take_columns(columns.columns, rows)
        taken |= {name: pa.array(_numbers(taken[name]), pa.int64()) for name in _ROWS}
        return build(
            [ColumnBatch(len(rows), taken, parts, texts.template[rows])],
            known.find,
            dim=known.dim or (None if self.model is None else self.model.dim),
            part_id=self._new_id(_numbers(taken["ts"])),
            qls_scale=None if self.model is None else self.model.qls_scale,
            # What is computed of vectors is computed again where anything of it is to come.
            signals_pending=len(parts) > 0
            and (self.meta.signals_pending or n_pending > 0 or bool(lates.lost_signals)),
            payloads=self.payloads.payloads,
        )

    def _made_texts(self, columns: ReadColumns, rows: RowIndex) -> ReadTexts:
        """Make the embedded texts anew of the texts that are there."""
        held = {n: _as_texts(columns.columns[n]) for n in EMBEDDED if n in columns.columns}
        parts, template = self.texts_of(held, self.meta.n_rows, self.model)
        lost = np.zeros(self.meta.n_rows, np.bool_)
        for name in EMBEDDED:
            if self.meta.has_field(name):
                lost |= ~columns.has(name)
        n_rows = int(np.count_nonzero(lost[rows]))
        if n_rows:
            what = f"{n_rows:,} events cannot be found by meaning any more: their texts cannot be read"
            self._lose("vectors", self._file("parts"), n_rows, what)
        return ReadTexts(parts, template)

    # -- the account --------------------------------------------------------------------------------------------

    def _lose_events(self, n: int, what: str, seqs: Ranges) -> None:
        self._lose("events", self._file("hot"), n, f"{n:,} {what}", seqs=seqs)

    def _lose(
        self, kind: str, file: str, n: int, what: str, *, seqs: Ranges = (), name: str | None = None
    ) -> None:
        meta = self.meta
        self.losses.append(Loss(kind, file, n, what, seqs, meta.t_min, meta.t_max, name))

    def _file(self, kind: str) -> str:
        names = [stored.name for stored in self.meta.files if kind_of(stored.name) == kind]
        path = self.layout.segment(self.meta.id).joinpath(*names[:1])
        return str(path.relative_to(self.layout.path))

    # -- files --------------------------------------------------------------------------------------------------

    def _open(self, kind: str) -> Wreck | None:
        stored = next((one for one in self.meta.files if kind_of(one.name) == kind), None)
        if stored is None:
            return None
        described = SegmentCheck(self.files, self.layout, self.meta, 0).description()
        sums = None if described is None else described.sums_of(stored.name, self.meta)
        return open_wreck(self.files, self.layout.segment(self.meta.id), stored, sums)

    @property
    def _parts_kind(self) -> str:
        has_parts = any(kind_of(stored.name) == "parts" for stored in self.meta.files)
        return "parts" if has_parts else "post"

    def _new_id(self, ts: Int64s) -> str:
        return segment_id(*self._cell_of(int(ts.min()), int(ts.max())))

    def _cell(self, part: MemoryPart) -> tuple[int, int]:
        return self._cell_of(part.t_min, part.t_max)

    def _cell_of(self, t_min: int, t_max: int) -> tuple[int, int]:
        """Give the segment's own cell, unless an event is not in it."""
        first, last = cell_bounds(self.meta.level, self.meta.cell)
        if first <= t_min and t_max < last:
            return self.meta.level, self.meta.cell
        return covering_cell(t_min, t_max)


def _parts_of(parts: TextParts, rows: RowIndex, n_rows: int) -> TextParts:
    """Give the texts of some rows, which are counted anew."""
    place = np.full(n_rows, -1, np.int64)
    place[rows] = np.arange(len(rows))
    kept = order_parts(parts, np.arange(len(parts), dtype=np.int32), place)
    return TextParts(kept.row, kept.field, kept.chunk, parts.key[kept.vec], kept.primary)


def _values(array: pa.Array | None, rows: RowIndex) -> list[Any]:
    """Give the values at some rows, None where there are none."""
    return [None] * len(rows) if array is None else plain(array).take(pa.array(rows)).to_pylist()


def _numbers(array: pa.Array) -> Int64s:
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _as_texts(array: pa.Array) -> pa.Array:
    array = plain(array)
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array
