"""A cut carried out: deletion files and reject files are written, then one commit takes the events out of sight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .audit import AuditRecord
from .batch import KEY, Int64s, Keys
from .catalog import Change
from .cut import Cut, Taken
from .deletion import Derived, Gone, write_deletion
from .errors import DamageError
from .meta import SegmentMeta
from .rejects import RejectFile, write_rejects
from .segment import Segment
from .segment_files import next_number
from .survivors import Survivors, waiting, wanted_again
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Act:
    """What an erasure is called in the audit record. details: JSON values; the counts are added to them.

    derived: signals that go with a vector that is forgotten.
    """

    action: str
    details: Mapping[str, Any]
    derived: tuple[Derived, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure did.

    cut: what went. version: of the manifest, from which on nobody sees the events (the newest, where there was
    nothing to do). record: of the audit, None where there was nothing to do. n_dropped: segments that went
    whole. rewritten: old id to new id. n_vectors: vectors that were forgotten and that other events still use.
    damaged: what is wrong with segments that could not be rewritten or searched for vectors. n_waiting: files that
    readers keep from going. is_shadow_dropped: whether what was done of a move to another model went as well.
    """

    cut: Cut
    version: int
    record: AuditRecord | None
    n_dropped: int = 0
    n_vectors: int = 0
    rewritten: Mapping[str, str] = field(default_factory=dict)
    damaged: tuple[DamageError, ...] = ()
    n_waiting: int = 0
    is_shadow_dropped: bool = False

    @property
    def is_erased(self) -> bool:
        """Whether the bytes are gone from every file of the store."""
        return not self.damaged and not self.n_waiting


class ChangedError(Exception):
    """A segment of the cut is not the store's any more."""


class Excision:
    """One cut on its way: `write` what it needs, beside others who append, then `commit`.

    Both raise StoreError, after which nothing is changed.
    """

    def __init__(self, writer: Writer, cut: Cut, act: Act) -> None:
        self._writer = writer
        self._cut = cut
        self._act = act
        self._seqs: Int64s = cut.seqs() if cut.forgets else np.empty(0, np.int64)
        # Of each segment that stays, what is gone of it.
        self._gone: dict[str, Gone] = {}
        self._put: list[SegmentMeta] = []
        self._drop: list[SegmentMeta] = []
        self._rejects: list[RejectFile] = []
        # Of each segment, the keys that lost a vector.
        self._keys: list[Keys] = []
        self._written: list[Path] = []
        # Of segments of which it cannot be told what is to be forgotten.
        self._damaged: list[DamageError] = []

    def write(self) -> None:
        """Write deletion files, and reject files without what goes. Raises ChangedError."""
        with self._writer.guard(self._act.action, commits=False) as self._written:
            self._take()
            dropped = {meta.id for meta in self._drop}
            for meta in self._cut.state.metas:
                if meta.id not in dropped:
                    self._delete_in(meta)
            self._write_rejects()

    def commit(self) -> Erased | None:
        """Commit, under the mutex; None where a segment changed since the cut was planned."""
        writer, metas = self._writer, self._cut.state.metas
        if writer.is_closed or not all(map(writer.is_current, metas)):
            writer.remove(self._written)
            writer.check_going()
            return None
        with writer.guard(self._act.action) as written:
            written += self._written
            self._written = written
            self._forget_in_new()
            n_vectors = len(np.unique(np.concatenate([np.empty(0, KEY), *self._keys])))
            writer.publish(self._change(n_vectors), list(self._replaced()))
            writer.view.memtable.forget_parts()
        catalog = writer.view.catalog
        record = catalog.audit_records[-1]
        damaged = tuple(self._damaged)
        return Erased(self._cut, catalog.root.version, record, len(self._drop), n_vectors, damaged=damaged)

    def _take(self) -> None:
        """Say what is gone of each segment, and which go whole."""
        for taken in self._cut.taken:
            assert taken.meta is not None
            if taken.rows is None:
                self._drop.append(taken.meta)
                continue
            gone = self._gone_before(taken.meta) | _gone_now(taken)
            if len(gone.rows) == taken.meta.n_rows:
                self._drop.append(taken.meta)
            else:
                self._gone[taken.meta.id] = gone

    def _delete_in(self, meta: SegmentMeta) -> None:
        """Write the deletion file of a segment of which events or vectors are gone now.

        Where vectors of a damaged segment cannot be looked at, only its events go.
        """
        if not len(self._seqs) and meta.id not in self._gone:
            return
        try:
            self._forget_in(meta)
        except DamageError as error:
            self._damaged.append(error)
            if meta.id in self._gone:
                self._put_deletion(meta, self._gone[meta.id])

    def _forget_in(self, meta: SegmentMeta) -> None:
        """Write it with the vectors that are to be forgotten. Raises DamageError; then nothing is written."""
        segment, before = self._segment(meta), self._gone_before(meta)
        table = segment.vectors()
        made_of_them = table.have & np.isin(table.exemplar, self._seqs)
        forgotten = np.flatnonzero(made_of_them).astype(np.int32)
        gone = self._gone.get(meta.id, before) | Gone(before.rows, forgotten, self._act.derived)
        if len(gone.rows) == len(before.rows) and len(gone.vectors) == len(before.vectors):
            return
        again = wanted_again(segment, gone)
        self._keys.append(table.key[again & made_of_them])
        deleted = replace(meta, pending=int(np.count_nonzero(waiting(segment, gone))))
        self._put_deletion(replace(deleted, signals_pending=meta.signals_pending or bool(again.any())), gone)

    def _put_deletion(self, meta: SegmentMeta, gone: Gone) -> None:
        files, directory = self._writer.files, self._writer.layout.segment(meta.id)
        path = directory / f"del-{next_number(files.listdir(directory), 'del'):04d}.arrow"
        self._written.append(path)
        self._put.append(replace(meta, deleted=write_deletion(files, path, gone)))
        files.fsync_dir(directory)

    def _write_rejects(self) -> None:
        for name, kept in self._cut.kept_rejects.items():
            if not kept:
                continue
            path = self._writer.new_reject_path()
            self._written.append(path)
            file = write_rejects(self._writer.files, path, kept)
            # They are as old as they were.
            written_ns = self._cut.state.reject_files[name].written_ns
            self._rejects.append(replace(file, written_ns=written_ns))
        if self._rejects:
            self._writer.files.fsync_dir(self._writer.layout.rejects)

    def _change(self, n_vectors: int) -> Change:
        dropped = [meta.id for meta in self._drop]
        counts = {
            "events": self._cut.n_events,
            "rejects": self._cut.n_rejects,
            "segments_dropped": len(dropped),
            "segments_rewritten": len(self._put),
            "vectors": n_vectors,
            "version": self._writer.view.catalog.root.version + 1,
            # What went whole leaves nothing that a salvage could tell it by, should its directory be left.
            "dropped": [*dropped, *self._cut.kept_rejects],
        }
        return Change(
            put_segments=self._put,
            drop_segments=dropped,
            rejects=self._rejects,
            drop_rejects=list(self._cut.kept_rejects),
            acts=[(self._act.action, {**self._act.details, **counts})],
        )

    def _forget_in_new(self) -> None:
        """Forget vectors in segments that came since the cut was planned: a flush hands known vectors on."""
        known = {meta.id for meta in self._cut.state.metas}
        for meta in list(self._writer.view.catalog.segments.entries.values()):
            if meta.id not in known:
                self._delete_in(meta)

    def _replaced(self) -> Iterator[Path]:
        layout = self._writer.layout
        yield from (layout.segment(meta.id) for meta in self._drop)
        yield from (layout.rejects / name for name in self._cut.kept_rejects)
        before = self._writer.view.catalog.segments.entries
        for meta in self._put:
            old = before[meta.id].deleted
            if old is not None:
                yield layout.segment(meta.id) / old.file.name

    def _segment(self, meta: SegmentMeta) -> Segment:
        part = open_current(self._writer, meta)
        return part.segment if isinstance(part, Survivors) else part

    def _gone_before(self, meta: SegmentMeta) -> Gone:
        part = open_current(self._writer, meta) if meta.deleted is not None else None
        return part.gone if isinstance(part, Survivors) else Gone.nothing()


def open_current(writer: Writer, meta: SegmentMeta) -> Segment | Survivors:
    """Give a segment without its deleted events. Raises ChangedError where the store has it no more as it was."""
    with writer.mutex:
        if not writer.is_current(meta):
            raise ChangedError
        return writer.view.live_part(meta)


def _gone_now(taken: Taken) -> Gone:
    if taken.rows is None:
        return Gone.nothing()
    rows = taken.rows.astype(np.int32)
    if isinstance(taken.part, Survivors):
        rows = taken.part.rows_of_segment(taken.rows)
    return replace(Gone.nothing(), rows=np.sort(rows))
