"""The files of one segment against the manifest: that they are there, and byte by byte against their checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from .arrow_write import MAGIC
from .blame import past_damage, told
from .cells import ROOT_LEVEL
from .copying import CHUNK_BYTES
from .deletion import read_deletion
from .description import Description, read_description
from .files import Files, crc32c
from .findings import REPAIR, SALVAGE, Finding, Severity
from .layout import SEGMENT_FILE, Layout
from .meta import Deletion, SegmentMeta
from .segment_files import DERIVED, kind_of
from .stored_file import StoredFile
from .sums import BLOCK_BYTES, Summer, Sums
from .tree import TICK_BITS

Count = Callable[[int], None]
"""Called with bytes that were read."""


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """Checks the files of one segment of a store. next_seq: first number that no segment has.

    sizes: of all files of the store, where they lie elsewhere: asking for each would be a request.
    """

    files: Files
    layout: Layout
    meta: SegmentMeta
    next_seq: int
    sizes: Mapping[Path, int] | None = None

    def quick(self) -> Iterator[Finding]:
        """Look at sizes and ends of files, at segment.json, and at what the manifest says of the segment."""
        for stored in self.meta.all_files():
            what = self._wrong_outside(stored)
            if what is not None:
                yield self.finding(stored.name, what)
        if self.has_description:
            yield from self._check_description()
        yield from (self.finding("", what) for what in _odd_facts(self.meta, self.next_seq))
        if self.meta.deleted is not None:
            yield from self._check_deletion()

    def bytes(self, count: Count) -> Iterator[Finding]:
        """Read every byte, against the checksums of files and of blocks; what `quick` finds is left out."""
        described = self.description()
        for stored in self.meta.all_files():
            if self._wrong_outside(stored) is None:
                yield from self._check_bytes(stored, described, count)

    @property
    def has_description(self) -> bool:
        """Whether the segment was written with a segment.json: those of format 1 were not."""
        return any(kind_of(stored.name) == "parts" for stored in self.meta.files)

    def description(self) -> Description | None:
        """Give what the segment's directory says of itself, None where that cannot be read."""
        if not self.has_description:
            return None
        with past_damage():
            return read_description(self.files, self.layout.segment(self.meta.id), self.meta.id)
        return None

    def severity_of(self, name: str) -> Severity:
        """Give how bad damage to a file is."""
        kind = kind_of(name)
        is_derived = kind in DERIVED and (kind != "post" or self.has_description)
        return Severity.DERIVED if is_derived or name == SEGMENT_FILE else Severity.DAMAGED

    def finding(self, name: str, what: str) -> Finding:
        """Give a finding about a file of the segment; about all of it without a name."""
        path = self.layout.segment(self.meta.id) / name
        file, severity = str(path.relative_to(self.layout.path)), self.severity_of(name)
        if severity is Severity.DERIVED:
            return Finding(severity, file, what, REPAIR, segment_id=self.meta.id)
        meta = self.meta
        return Finding(severity, file, what, SALVAGE, meta.n_live, meta.t_min, meta.t_max, meta.id)

    def _wrong_outside(self, stored: StoredFile) -> str | None:
        path = self.layout.segment(self.meta.id) / stored.name
        if self.sizes is not None and path not in self.sizes:
            return "it is missing"
        try:
            n_bytes = self.files.size(path) if self.sizes is None else self.sizes[path]
            if n_bytes != stored.n_bytes:
                return f"it has {n_bytes} bytes, the manifest says {stored.n_bytes}"
            if self.sizes is not None:
                return None
            ends = self.files.read(path, 0, len(MAGIC)), self.files.read(path, n_bytes - len(MAGIC))
        except OSError as error:
            return told(error, path)
        return None if ends == (MAGIC, MAGIC) else "its first or last bytes are not those of an Arrow file"

    def _check_description(self) -> Iterator[Finding]:
        directory = self.layout.segment(self.meta.id)
        try:
            described = read_description(self.files, directory, self.meta.id)
        except OSError as error:
            yield self.finding(SEGMENT_FILE, told(error, directory / SEGMENT_FILE))
            return
        for stored in self.meta.files:
            if described.sums_of(stored.name, self.meta) is None:
                yield self.finding(
                    SEGMENT_FILE, f"it has no checksums of {stored.name} as the manifest names it"
                )
                return
        if _as_written(described.meta) != _as_written(self.meta):
            yield self.finding(SEGMENT_FILE, "it says other things of the segment than the manifest")

    def _check_deletion(self) -> Iterator[Finding]:
        assert self.meta.deleted is not None
        stored = self.meta.deleted.file
        if self._wrong_outside(stored) is not None:
            return
        directory = self.layout.segment(self.meta.id)
        try:
            read_deletion(self.files, directory, self.meta)
        except OSError as error:
            yield self.finding(stored.name, told(error, directory / stored.name))
        else:
            yield self._unfinished(self.meta.deleted)

    def _unfinished(self, deleted: Deletion) -> Finding:
        gone = [
            f"{n:,} {name}" for n, name in ((deleted.n_rows, "events"), (deleted.n_vectors, "vectors")) if n
        ]
        what = (
            f"an erasure is not finished, or under way: nobody sees {' and '.join(gone)} any more, but their bytes "
            "still stand in the files of this segment"
        )
        todo = "`treering check --repair` finishes it, and so does whatever next opens the store for writing"
        path = self.layout.segment(self.meta.id) / deleted.file.name
        name = str(path.relative_to(self.layout.path))
        return Finding(Severity.UNFINISHED, name, what, todo, segment_id=self.meta.id)

    def _check_bytes(
        self, stored: StoredFile, described: Description | None, count: Count
    ) -> Iterator[Finding]:
        path = self.layout.segment(self.meta.id) / stored.name
        try:
            checksum, found = read_sums(self.files, path, stored, count)
        except OSError as error:
            yield self.finding(stored.name, told(error, path))
            return
        known = described.sums_of(stored.name, self.meta) if described else None
        if checksum != stored.crc32c:
            where = "" if known is None else f"; wrong are {_bad_bytes(known, found, stored.n_bytes)}"
            says = f"its crc32c is {checksum:08x}, the manifest says {stored.crc32c:08x}{where}"
            # A deletion was read whole already.
            if not (self.meta.deleted and self.meta.deleted.file == stored):
                yield self.finding(stored.name, says)
        elif known is not None and not np.array_equal(known, found):
            yield self.finding(SEGMENT_FILE, f"its checksums of blocks are not those of {stored.name}")


def read_sums(files: Files, path: Path, stored: StoredFile, count: Count) -> tuple[int, Sums]:
    """Read a file a piece at a time, and give its checksum and those of its blocks."""
    summer, start, checksum = Summer(), 0, 0
    while start < stored.n_bytes and (chunk := files.read(path, start, CHUNK_BYTES)):
        summer.add(pa.py_buffer(chunk))
        checksum, start = crc32c(chunk, checksum), start + len(chunk)
        count(len(chunk))
    return checksum, summer.finish()


def _bad_bytes(known: Sums, found: Sums, n_bytes: int) -> str:
    """Say which bytes are wrong: neighbouring blocks together, at most three stretches."""
    blocks = np.flatnonzero(known != found)
    runs = np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1)
    texts = [
        f"[{int(run[0]) * BLOCK_BYTES}, {min((int(run[-1]) + 1) * BLOCK_BYTES, n_bytes)})"
        for run in runs
        if len(run)
    ]
    more = f" and {len(texts) - 3} stretches more" if len(texts) > 3 else ""
    return f"bytes {', '.join(texts[:3])}{more}"


def _as_written(meta: SegmentMeta) -> SegmentMeta:
    """Give what a manifest and segment.json must agree about."""
    return replace(meta, files=(), pending=0, signals_pending=False, late=(), deleted=None)


def _odd_facts(meta: SegmentMeta, next_seq: int) -> Iterator[str]:
    """Say what in a manifest's entry does not fit together."""
    if not _cover(meta):
        yield f"its slices do not cover its {meta.n_rows} rows one after the other"
    if meta.generation == 0 and len(meta.slices) > 1:
        yield f"it was never folded and has {len(meta.slices)} slices"
    if not 0 <= meta.seq_min <= meta.seq_max < next_seq:
        yield f"its sequence numbers {meta.seq_min} to {meta.seq_max} are not below the manifest's {next_seq}"
    if meta.n_rows > meta.seq_max - meta.seq_min + 1:
        yield f"it has {meta.n_rows} events, but sequence numbers from {meta.seq_min} to {meta.seq_max}"
    first, last = cell_bounds(meta.level, meta.cell)
    if not first <= meta.t_min <= meta.t_max < last:
        yield f"its times {meta.t_min} to {meta.t_max} are not in its cell, [{first}, {last})"
    if meta.deleted is not None and meta.deleted.n_rows > meta.n_rows:
        yield f"{meta.deleted.n_rows} of its {meta.n_rows} events are deleted"
    if any(stats.n > meta.n_rows for stats in meta.fields.values()):
        yield "a column has more values than it has events"


def _cover(meta: SegmentMeta) -> bool:
    ends = [0, *(one.hi for one in meta.slices)]
    shards = [one.shard for one in meta.slices]
    joined = all(one.lo == end and one.hi > one.lo for one, end in zip(meta.slices, ends, strict=False))
    return joined and ends[-1] == meta.n_rows and shards == sorted(set(shards))


def cell_bounds(level: int, cell: int) -> tuple[int, int]:
    """Give the time `[first, last)` of a dyadic cell, ns."""
    if level >= ROOT_LEVEL:
        return -(2**63), 2**63
    return cell << (TICK_BITS + level), (cell + 1) << (TICK_BITS + level)
