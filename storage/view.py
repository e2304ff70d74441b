"""A store as one process sees it: the newest manifest it read, the log behind it, and what it keeps open."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .agreement import plain_type
from .batch import ColumnBatch, Decoder, Keys, Vectors
from .catalog import Catalog, load
from .cut import State
from .deletion import read_deletion
from .entry import Entry
from .errors import DamageError
from .files import Files, Lock
from .kept import Kept
from .known import KnownVectors
from .layout import Layout
from .locking import NoLock, hold_shared, locked_out
from .manifest import missing_file, root_path
from .memory import MemoryPart, build
from .memtable import Memtable
from .meta import SegmentMeta
from .newest import hold_newest
from .part import Part, VectorTable
from .rejects import Reject, read_rejects
from .segment import Segment
from .survivors import Survivors, remembered
from .wal import Mark, read_frames


class View:
    """Segments of a catalog and the memtable of the log behind it.

    A reader calls `follow` before each look; a writer calls `replay` once, then `take` for each append and
    `adopt` for each commit.
    """

    def __init__(self, files: Files, layout: Layout, decoder: Decoder, catalog: Catalog) -> None:
        self._files = files
        self._layout = layout
        self._segments = layout.segments
        self._open: dict[str, Segment] = {}
        self._kept = Kept()
        self._survivors: dict[str, Survivors] = {}
        self._known: KnownVectors | None = None
        self._kinds: dict[str, pa.DataType] = {}
        self._known_from: dict[str, SegmentMeta | Entry] = {}
        self._decoder = decoder
        self.catalog = catalog
        self.memtable = Memtable(decoder)
        self.mark = Mark(catalog.root.wal_floor)
        self.next_seq = catalog.root.next_seq

    def hold(self) -> Lock:
        """Keep what this version names, which is the newest: only the writer calls this."""
        path = root_path(self._layout.manifest, self.catalog.root.version)
        lock = hold_shared(self._files, path)
        if lock is None:
            raise locked_out(path)
        return lock

    def follow(self) -> Lock:
        """Go to the newest state and hold it: newest manifest, and the log up to its last whole frame.

        Raises DamageError, and StoreError where there is no store any more.
        """
        failed: int | None = None
        while True:
            version, lock = hold_newest(self._files, self._layout)
            try:
                return self._follow_to(version, lock, anew=failed is not None)
            except DamageError:
                # The writer may have taken back a file of the log that it had begun.
                if failed == version:
                    raise
            except FileNotFoundError as error:
                # Where nothing can be held, a newer version may have taken files of this one away.
                if failed == version:
                    raise missing_file(version, error) from error
            failed = version

    def _follow_to(self, version: int, lock: Lock, *, anew: bool) -> Lock:
        try:
            if version != self.catalog.root.version:
                self.adopt(load(self._files, self._layout, version, self.catalog))
            self.replay(anew=anew)
            if isinstance(lock, NoLock):
                self._read_deletions(anew=anew)
        except BaseException:
            lock.release()
            raise
        return lock

    def _read_deletions(self, *, anew: bool) -> None:
        """Read what is gone of segments while it is there: nothing keeps the files on disk.

        anew: what is missing for the second time is damaged, and whoever needs it is told so.
        """
        for part in self.live_parts():
            if not isinstance(part, Survivors):
                continue
            try:
                part.read_deletion()
            except DamageError:
                if not anew:
                    raise

    def adopt(self, catalog: Catalog) -> None:
        """Go to another version; events that came into segments leave the memtable."""
        floor = catalog.root.wal_floor
        self.catalog = catalog
        self.memtable.drop_below(floor)
        if self.mark.number < floor:
            self.mark = Mark(floor)
        self.next_seq = max(self.next_seq, catalog.root.next_seq)
        held = catalog.segments.entries
        self._open = {name: segment for name, segment in self._open.items() if held.get(name) is segment.meta}
        self._survivors = {n: one for n, one in self._survivors.items() if held.get(n) is one.meta}

    def replay(self, *, anew: bool = False) -> None:
        """Take what came to the log; events that are in segments are left out. Raises DamageError.

        anew: from the beginning of what is not in segments, whatever was taken of it before.
        """
        root = self.catalog.root
        mark, next_seq = (Mark(root.wal_floor), root.next_seq) if anew else (self.mark, self.next_seq)
        frames, mark = read_frames(self._files, self._layout.wal, mark, floor=root.wal_floor)
        # All or nothing: a view that had taken half of it would go on behind what it left out.
        joined = self._joined(frames, next_seq)
        if anew:
            self.memtable, self.next_seq = Memtable(self._decoder), next_seq
        for number, entry in joined:
            self.take(number, entry)
        self.mark = mark

    def _joined(self, frames: Sequence[tuple[int, Entry]], next_seq: int) -> list[tuple[int, Entry]]:
        """Give the frames that are not in segments. Raises DamageError unless they go on at `next_seq`."""
        joined = []
        for number, entry in frames:
            if entry.n_rows and entry.first_seq + entry.n_rows <= self.catalog.root.next_seq:
                continue
            if entry.first_seq != next_seq:
                raise DamageError(
                    f"{self._layout.wal}: file {number} goes on at seq {entry.first_seq}, expected "
                    f"{next_seq}; restore the log from a copy"
                )
            joined.append((number, entry))
            next_seq += entry.n_rows
        return joined

    def take(self, number: int, entry: Entry) -> None:
        """Add an entry that stands in file `number` of the log."""
        self.memtable.add(number, entry)
        self.next_seq += entry.n_rows

    def segment(self, meta: SegmentMeta) -> Segment:
        """Give a segment of the catalog, opened once."""
        if meta.id not in self._open:
            model = self.catalog.model
            self._open[meta.id] = Segment.of_store(
                self._files,
                self._segments,
                meta,
                kept=self._kept,
                qls_scale=None if model is None else model.qls_scale,
            )
        return self._open[meta.id]

    def live_part(self, meta: SegmentMeta) -> Segment | Survivors:
        """Give a segment of the catalog without its deleted events, opened once."""
        segment = self.segment(meta)
        if meta.deleted is None:
            return segment
        if meta.id not in self._survivors:
            files, model = self._files, self.catalog.model
            self._survivors[meta.id] = Survivors(
                segment,
                meta.deleted.n_rows,
                lambda: read_deletion(files, segment.directory, meta),
                None if model is None else model.qls_scale,
            )
        return self._survivors[meta.id]

    def live_parts(self) -> list[Segment | Survivors]:
        """Give the segments without their deleted events, in time order."""
        metas = sorted(self.catalog.segments.entries.values(), key=lambda meta: (meta.t_min, meta.id))
        return [self.live_part(meta) for meta in metas]

    def parts(self) -> list[Part]:
        """Give segments and memtable."""
        return [*self.live_parts(), *self.memtable.parts(self._build)]

    def state(self) -> State:
        """Give this state of the store as an erasure plans over it; its segments are opened in this state only."""
        catalog, files, directory = self.catalog, self._files, self._layout.rejects
        metas = sorted(catalog.segments.entries.values(), key=lambda meta: (meta.t_min, meta.id))
        stored = dict(sorted(catalog.rejects.entries.items()))

        def read(name: str) -> list[Reject]:
            return list(read_rejects(files, directory / name, stored[name].file))

        memory, waiting = self.memtable.parts(self._build), self.memtable.rejects()
        version = catalog.root.version
        return State(version, tuple(metas), tuple(memory), stored, tuple(waiting), self.live_part, read)

    def lookup(self, keys: Keys) -> tuple[npt.NDArray[np.bool_], Vectors]:
        """Give which keys have a vector anywhere in the store, bool (n), and those vectors in key order."""
        known = self._current_known()
        while True:
            try:
                return known.find(keys)
            except DamageError as error:
                # What queries are told of must not stop appends: the texts are embedded again.
                if error.segment_id not in self._known_from:
                    raise
                known.drop([error.segment_id])

    def kind_of(self, name: str) -> pa.DataType | None:
        """Give the plain type of a column somewhere in the store, None where no event has it.

        Records that nobody looked at are not decoded for this.
        """
        if name not in self._kinds:
            kind = self._find_kind(name)
            if kind is None:
                return None
            self._kinds[name] = kind
        return self._kinds[name]

    def _find_kind(self, name: str) -> pa.DataType | None:
        for entry in self.memtable.entries:
            array = None if entry.columns is None else entry.columns.columns.get(name)
            if array is not None and array.null_count < len(array):
                return plain_type(array.type)
        for meta in self.catalog.segments.entries.values():
            if meta.has_field(name):
                with suppress(DamageError):
                    return self.segment(meta).kind(name)
        return None

    @property
    def dim(self) -> int | None:
        """Dimensions of the store's vectors, None while there is neither model nor vector."""
        if self.catalog.model is not None:
            return self.catalog.model.dim
        return self._current_known().dim

    def _build(self, batches: Sequence[ColumnBatch], part_id: str) -> MemoryPart:
        model = self.catalog.model
        qls_scale = None if model is None else model.qls_scale
        return build(batches, self.lookup, dim=self.dim, part_id=part_id, qls_scale=qls_scale)

    def _current_known(self) -> KnownVectors:
        if self._known is None:
            self._known = KnownVectors()
        now: dict[str, SegmentMeta | Entry] = dict(self.catalog.segments.entries)
        now |= {
            f"wal-{entry.first_seq}": entry for entry in self.memtable.entries if entry.vectors is not None
        }
        self._known.drop(
            [name for name, old in self._known_from.items() if name not in now or _forgot(old, now[name])]
        )
        for name, holder in now.items():
            if self._known_from.get(name) is not holder:
                with suppress(DamageError):
                    self._known.put(name, self._vectors_of(holder))
        self._known_from = now
        return self._known

    def _vectors_of(self, holder: SegmentMeta | Entry) -> VectorTable | Vectors:
        if isinstance(holder, SegmentMeta):
            part = self.live_part(holder)
            # What is left of the events is not needed for this.
            if isinstance(part, Survivors):
                return remembered(part.segment.vectors(), part.gone)
            return part.vectors()
        assert holder.vectors is not None
        return holder.vectors


def _forgot(old: SegmentMeta | Entry, new: SegmentMeta | Entry) -> bool:
    """Whether vectors that an older state of a segment has are gone from the newer one."""
    return isinstance(old, SegmentMeta) and isinstance(new, SegmentMeta) and old.deleted != new.deleted
