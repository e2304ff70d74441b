"""Records as they were acknowledged, found again by their sequence numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .batch import RawBatch
from .part import Part
from .view import View


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An event's original record and where it came from. ts_origin: index into `TS_ORIGINS`."""

    seq: int
    source: str
    offset: int
    ts_ns: int
    ts_origin: int
    record: bytes


def acknowledged(view: View, first_seq: int, end_seq: int) -> list[Acknowledged]:
    """Give the records with sequence numbers in `[first_seq, end_seq)`, ascending.

    Left out are rows of tables, which have no record, and what was deleted. Raises DamageError.
    """
    found: list[Acknowledged] = []
    for meta in view.catalog.segments.entries.values():
        if meta.seq_min < end_seq and meta.seq_max >= first_seq:
            found += _of_part(view.live_part(meta), first_seq, end_seq)
    for entry in view.memtable.entries_between(first_seq, end_seq):
        if entry.raw is not None:
            found += _of_batch(entry.raw, entry.first_seq, first_seq, end_seq)
    return sorted(found, key=lambda one: one.seq)


def _of_part(part: Part, first_seq: int, end_seq: int) -> Iterator[Acknowledged]:
    rows = np.flatnonzero((part.seq >= first_seq) & (part.seq < end_seq))
    if not len(rows) or "record" not in part.fields:
        return
    columns = [part.column(name, rows).to_pylist() for name in ("source", "source_offset", "ts_origin")]
    records = part.column("record", rows).to_pylist()
    places = zip(part.seq[rows].tolist(), part.ts[rows].tolist(), *columns, records, strict=True)
    for seq, ts_ns, source, offset, ts_origin, record in places:
        if record is not None:
            yield Acknowledged(seq, source, offset, ts_ns, ts_origin, record)


def _of_batch(raw: RawBatch, seq: int, first_seq: int, end_seq: int) -> Iterator[Acknowledged]:
    for row in range(max(first_seq - seq, 0), min(end_seq - seq, raw.n_rows)):
        yield Acknowledged(
            seq + row,
            raw.sources[int(raw.source[row])].name,
            int(raw.offset[row]),
            int(raw.ts_ns[row]),
            int(raw.ts_origin[row]),
            raw.record(row),
        )
