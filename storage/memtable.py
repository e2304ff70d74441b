"""Acknowledged appends that are not in segments yet, queryable at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from .agreement import agreeing_runs
from .batch import ColumnBatch, Decoder, RawBatch, Source
from .entry import Entry
from .ledger import Position
from .part import Part
from .rejects import Reject

Build = Callable[[Sequence[ColumnBatch], str], Part]
"""Makes a part with the given id of batches."""

DECODE_ROWS = 8192
"""Small appends are decoded together, up to this many rows: a call of the decoder has its price."""


class Memtable:
    """Entries of the log in order, decoded when somebody looks, and the parts that were made of them.

    Parts cover runs of entries whose sizes at least halve: looking after each append costs log n builds a
    row, not n.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._entries: list[tuple[int, Entry]] = []
        # First sequence number of each part, and the part.
        self._parts: list[tuple[int, Part]] = []
        self._positions: dict[str, Position] = {}
        self.n_rows = 0

    def add(self, number: int, entry: Entry) -> None:
        """Take an entry that stands in file `number` of the log."""
        self._entries.append((number, entry))
        self._positions.update({p.fingerprint: p for p in entry.positions})
        self.n_rows += entry.n_rows

    def drop_below(self, number: int) -> None:
        """Forget entries of files of the log before `number`: they are in segments."""
        self._entries = [(n, entry) for n, entry in self._entries if n >= number]
        self._positions = {p.fingerprint: p for entry in self.entries for p in entry.positions}
        self.n_rows = sum(entry.n_rows for _, entry in self._entries)
        self.forget_parts()

    def forget_parts(self) -> None:
        """Make parts anew at the next look: more vectors are known than when they were made."""
        self._parts = []

    @property
    def entries(self) -> list[Entry]:
        """The entries, in order."""
        return [entry for _, entry in self._entries]

    def entries_between(self, first_seq: int, end_seq: int) -> list[Entry]:
        """Give the entries that have events with sequence numbers in `[first_seq, end_seq)`."""
        found = []
        for _, entry in self._entries[max(self._entry_at(first_seq + 1) - 1, 0) :]:
            if entry.first_seq >= end_seq:
                break
            found.append(entry)
        return found

    @property
    def n_rejected(self) -> int:
        """Number of rejects."""
        return sum(len(entry.rejects) for _, entry in self._entries)

    def rejects(self) -> Iterator[Reject]:
        """Give the rejects, in order."""
        for entry in self.entries:
            yield from entry.rejects

    @property
    def positions(self) -> Mapping[str, Position]:
        """The last position of each source, by its fingerprint."""
        return self._positions

    def batches(self, start: int = 0) -> list[ColumnBatch]:
        """Give the events as columns, from entry `start` on."""
        self._join_small(start)
        return [self._decoded(entry) for _, entry in self._entries[start:] if entry.n_rows]

    def parts(self, build: Build) -> list[Part]:
        """Give the events as parts, none of which holds batches that disagree about a type."""
        start = self._uncovered()
        n_new = self._end() - start
        while n_new and self._parts and self._parts[-1][1].n_rows < 2 * n_new:
            start, part = self._parts.pop()
            n_new += part.n_rows
        if n_new:
            for run in agreeing_runs(self.batches(self._entry_at(start))):
                part = build(run, f"wal-{start}")
                self._parts.append((start, part))
                start += part.n_rows
        return [part for _, part in self._parts]

    def _uncovered(self) -> int:
        """Give the first sequence number that no part holds."""
        if self._parts:
            start, part = self._parts[-1]
            return start + part.n_rows
        return self._entries[0][1].first_seq if self._entries else 0

    def _end(self) -> int:
        last = self._entries[-1][1] if self._entries else None
        return 0 if last is None else last.first_seq + last.n_rows

    def _entry_at(self, seq: int) -> int:
        # Joining moves entries, so that parts are kept by sequence number. No entry lies across the end of a
        # part: its entries are decoded, and decoded entries are never joined.
        return bisect_left(self._entries, seq, key=lambda pair: pair[1].first_seq)

    def _join_small(self, start: int) -> None:
        groups: list[tuple[int, list[Entry]]] = []
        n_rows = DECODE_ROWS
        for number, entry in self._entries[start:]:
            n_rows += entry.n_rows
            is_open = bool(groups) and groups[-1][0] == number and groups[-1][1][-1].columns is None
            if is_open and entry.columns is None and n_rows <= DECODE_ROWS:
                groups[-1][1].append(entry)
            else:
                groups.append((number, [entry]))
                n_rows = entry.n_rows
        self._entries[start:] = [(number, _join(group)) for number, group in groups]

    def _decoded(self, entry: Entry) -> ColumnBatch:
        if entry.columns is None:
            assert entry.raw is not None
            entry.columns = self._decoder(entry.raw, entry.first_seq)
        return entry.columns


def _join(entries: list[Entry]) -> Entry:
    if len(entries) == 1:
        return entries[0]
    raws = [entry.raw for entry in entries if entry.raw is not None]
    return Entry(
        entries[0].first_seq,
        raw=_join_records(raws) if len(raws) > 1 else next(iter(raws), None),
        positions=tuple(p for entry in entries for p in entry.positions),
        rejects=tuple(r for entry in entries for r in entry.rejects),
    )


def _join_records(raws: Sequence[RawBatch]) -> RawBatch:
    sources: list[Source] = []
    source, ends, n_bytes = [], [], 0
    for raw in raws:
        places = []
        for one in raw.sources:
            # Options are mappings, so sources have no hash; there are few of them.
            if one not in sources:
                sources.append(one)
            places.append(sources.index(one))
        source.append(np.array(places, np.uint16)[raw.source])
        ends.append(raw.ends + n_bytes)
        n_bytes += len(raw.records)
    return RawBatch(
        sources=tuple(sources),
        ts_ns=np.concatenate([raw.ts_ns for raw in raws]),
        ts_origin=np.concatenate([raw.ts_origin for raw in raws]),
        source=np.concatenate(source),
        offset=np.concatenate([raw.offset for raw in raws]),
        line=np.concatenate([raw.line for raw in raws]),
        ends=np.concatenate(ends),
        records=b"".join(raw.records for raw in raws),
    )
