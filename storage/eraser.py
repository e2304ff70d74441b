"""Erasure: events out of sight at once, in one version, then their bytes out of the files.

1. What only the log holds goes into segments. 2. A cut is planned, while others append and look. 3. One commit:
segments that go whole are no longer named, others get a deletion file, reject files are written anew, and the
audit record stands in the same version. From here on nobody sees what is gone. 4. Segments with a deletion are
rewritten without it: texts, dictionaries, vectors that nothing uses any more, postings, trees, statistics.
5. Old files go as soon as no reader holds an older version. After a crash between 3 and 4 the deletions are
honoured, and opening the store to write, the next erasure or the next fold goes on with 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .audit import AuditRecord
from .batch import KEY, Int64s, Keys
from .catalog import Change
from .cleaner import Cleaner
from .cut import Cut, Plan, State, Taken
from .deletion import Derived, Gone, write_deletion
from .errors import DamageError, StoreError
from .locking import AT_ONCE, Patience
from .meta import SegmentMeta
from .rejects import RejectFile, write_rejects
from .segment import Segment
from .shadow import SHADOW_ACT, head_details
from .shadow_erasure import erase_in_shadow
from .survivors import Survivors, waiting, wanted_again
from .writer import Writer

PATIENT_TRIES = 3
"""So often a cut is planned while others write; if the segments changed each time, they wait for the next one."""

SHADOW_WAIT_S = 10.0
"""So long an erasure waits for one who looks how far a move is; then the shadow is removed as a whole."""

_DELETION = re.compile(r"del-(\d+)\.")


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
    damaged: what is wrong with segments that could not be rewritten. n_waiting: files that readers keep from
    going. is_shadow_dropped: whether what was done of a move to another model went as well.
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


@dataclass(slots=True)
class _Work:
    """A cut as it is carried out: what is gone of each segment that stays, and the keys that lost a vector."""

    cut: Cut
    seqs: Int64s
    derived: tuple[Derived, ...]
    gone: dict[str, Gone] = field(default_factory=dict)
    put: list[SegmentMeta] = field(default_factory=list)
    drop: list[SegmentMeta] = field(default_factory=list)
    rejects: list[RejectFile] = field(default_factory=list)
    keys: list[Keys] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)


class Eraser:
    """Takes events out of the segments of one writer's store."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._cleaner = Cleaner(writer)

    def erase(self, plan: Plan, act: Act, patience: Patience = AT_ONCE) -> Erased:
        """Take out what `plan` says; nobody sees it from then on, and its bytes are gone if the answer says so.

        Other threads append and look meanwhile. patience: how long to wait for readers of older versions.
        Raises StoreError where nothing was changed, or where files could not be rewritten, which it says.
        """
        with self._writer.changing:
            self._cleaner.clean()
            head_before = self._writer.view.catalog.root.audit_head
            erased = self._cut_out(plan, act)
            is_shadow_dropped = erased.record is not None and self._erase_in_shadow(erased, act, head_before)
            erased = replace(self._rewrite_all(erased), is_shadow_dropped=is_shadow_dropped)
        return replace(erased, n_waiting=self._wait(patience))

    def _state(self) -> State:
        """Give the newest state, in which the log holds nothing."""
        writer = self._writer
        with writer.mutex:
            writer.flush()
            return replace(writer.view.state(), open=self._open)

    # -- out of sight ---------------------------------------------------------------------------------------

    def _cut_out(self, plan: Plan, act: Act) -> Erased:
        for is_patient in [*[True] * PATIENT_TRIES, False]:
            with ExitStack() as stack:
                if not is_patient:
                    stack.enter_context(self._writer.mutex)
                try:
                    erased = self._try(plan, act)
                except _Changed:
                    continue
                if erased is not None:
                    return erased
        raise StoreError(
            f"{self._writer.layout.path}: its segments changed while nobody could write; do it again"
        )

    def _try(self, plan: Plan, act: Act) -> Erased | None:
        """Plan and commit; None where the segments changed in between."""
        self._writer.check_going()
        cut = plan(self._state())
        if cut.is_empty:
            return Erased(cut, self._writer.view.catalog.root.version, None)
        work = _Work(cut, cut.seqs() if cut.forgets else np.empty(0, np.int64), act.derived)
        with self._writer.guard(act.action, commits=False) as written:
            work.written = written
            self._take(work)
            dropped = {meta.id for meta in work.drop}
            for meta in cut.state.metas:
                if meta.id not in dropped:
                    self._delete_in(meta, work)
            self._write_rejects(work)
        with self._writer.mutex:
            return self._commit(work, act)

    def _take(self, work: _Work) -> None:
        """Say what is gone of each segment, and which go whole."""
        for taken in work.cut.taken:
            assert taken.meta is not None
            gone = self._gone(taken.meta) | _gone_now(taken)
            if taken.rows is None or len(gone.rows) == taken.meta.n_rows:
                work.drop.append(taken.meta)
            else:
                work.gone[taken.meta.id] = gone

    def _delete_in(self, meta: SegmentMeta, work: _Work) -> None:
        """Write the deletion file of a segment of which events or vectors are gone now."""
        segment = self._segment(meta) if len(work.seqs) or meta.id in work.gone else None
        if segment is None:
            return
        before = self._gone(meta)
        table = segment.vectors()
        made_of_them = table.have & np.isin(table.exemplar, work.seqs)
        forgotten = np.flatnonzero(made_of_them).astype(np.int32)
        gone = work.gone.get(meta.id, before) | Gone(before.rows, forgotten, work.derived)
        if len(gone.rows) == len(before.rows) and len(gone.vectors) == len(before.vectors):
            return
        again = wanted_again(segment, gone)
        work.keys.append(table.key[again & made_of_them])
        directory = self._writer.layout.segment(meta.id)
        path = directory / f"del-{_next_index(self._writer.files.listdir(directory)):04d}.arrow"
        work.written.append(path)
        deletion = write_deletion(self._writer.files, path, gone)
        self._writer.files.fsync_dir(directory)
        work.put.append(
            replace(
                meta,
                deleted=deletion,
                pending=int(np.count_nonzero(waiting(segment, gone))),
                signals_pending=meta.signals_pending or bool(again.any()),
            )
        )

    def _write_rejects(self, work: _Work) -> None:
        for name, kept in work.cut.kept_rejects.items():
            if not kept:
                continue
            path = self._writer.new_reject_path()
            work.written.append(path)
            file = write_rejects(self._writer.files, path, kept)
            # They are as old as they were.
            written_ns = work.cut.state.reject_files[name].written_ns
            work.rejects.append(replace(file, written_ns=written_ns))
        if work.rejects:
            self._writer.files.fsync_dir(self._writer.layout.rejects)

    def _commit(self, work: _Work, act: Act) -> Erased | None:
        """Commit, under the mutex; None where a segment changed since the cut was planned."""
        writer, state = self._writer, work.cut.state
        if writer.is_closed or not all(map(writer.is_current, state.metas)):
            writer.remove(work.written)
            writer.check_going()
            return None
        with writer.guard(act.action) as written:
            written += work.written
            work.written = written
            self._forget_in_new(work)
            n_vectors = len(np.unique(np.concatenate([np.empty(0, KEY), *work.keys])))
            counts = {
                "events": work.cut.n_events,
                "rejects": work.cut.n_rejects,
                "segments_dropped": len(work.drop),
                "segments_rewritten": len(work.put),
                "vectors": n_vectors,
                "version": writer.view.catalog.root.version + 1,
                # What went whole leaves nothing that a salvage could tell it by, should its directory be left.
                "dropped": [meta.id for meta in work.drop] + list(work.cut.kept_rejects),
            }
            change = Change(
                put_segments=work.put,
                drop_segments=[meta.id for meta in work.drop],
                rejects=work.rejects,
                drop_rejects=list(work.cut.kept_rejects),
                acts=[(act.action, {**act.details, **counts})],
            )
            writer.publish(change, list(self._replaced(work)))
            writer.view.memtable.forget_parts()
        catalog = writer.view.catalog
        record = catalog.audit_records[-1]
        return Erased(work.cut, catalog.root.version, record, len(work.drop), n_vectors)

    def _forget_in_new(self, work: _Work) -> None:
        """Forget vectors in segments that came since the cut was planned: a flush hands known vectors on."""
        known = {meta.id for meta in work.cut.state.metas}
        for meta in list(self._writer.view.catalog.segments.entries.values()):
            if meta.id not in known:
                self._delete_in(meta, work)

    def _replaced(self, work: _Work) -> Iterator[Path]:
        layout = self._writer.layout
        yield from (layout.segment(meta.id) for meta in work.drop)
        yield from (layout.rejects / name for name in work.cut.kept_rejects)
        before = self._writer.view.catalog.segments.entries
        for meta in work.put:
            old = before[meta.id].deleted
            if old is not None:
                yield layout.segment(meta.id) / old.file.name

    def _erase_in_shadow(self, erased: Erased, act: Act, head_before: str) -> bool:
        told = Act(SHADOW_ACT, head_details(self._writer), act.derived)

        def erase(shadow: Writer, plan: Plan) -> bool | None:
            done = Eraser(shadow).erase(plan, told, Patience(SHADOW_WAIT_S))
            return None if done.record is None else done.is_erased

        return erase_in_shadow(self._writer, erase, head_before=head_before, forgets=erased.cut.forgets)

    # -- out of the files -----------------------------------------------------------------------------------

    def _rewrite_all(self, erased: Erased) -> Erased:
        try:
            made, damaged = self._cleaner.clean()
        except StoreError as error:
            if erased.record is None:
                raise
            raise StoreError(
                f"{erased.cut.n_events:,} events are deleted and nobody sees them any more, but files could not be "
                f"rewritten without them: {error}; the next deletion, fold or opening of the store goes on with it"
            ) from error
        return replace(erased, rewritten=made, damaged=damaged)

    def _wait(self, patience: Patience) -> int:
        """Give how many files readers of older versions keep from going, after as much time as there is."""
        pauses = _pauses(patience)
        while (n := self._writer.collect()) and next(pauses, False):
            pass
        return n

    # -- reading --------------------------------------------------------------------------------------------

    def _open(self, meta: SegmentMeta) -> Segment | Survivors:
        with self._writer.mutex:
            if not self._writer.is_current(meta):
                raise _Changed
            return self._writer.view.live_part(meta)

    def _segment(self, meta: SegmentMeta) -> Segment:
        part = self._open(meta)
        return part.segment if isinstance(part, Survivors) else part

    def _gone(self, meta: SegmentMeta) -> Gone:
        part = self._open(meta) if meta.deleted is not None else None
        return part.gone if isinstance(part, Survivors) else Gone.nothing()


class _Changed(Exception):
    """A segment of the plan is not the store's any more."""


def _gone_now(taken: Taken) -> Gone:
    if taken.rows is None:
        return Gone.nothing()
    rows = taken.rows.astype(np.int32)
    if isinstance(taken.part, Survivors):
        rows = taken.part.rows_of_segment(taken.rows)
    return replace(Gone.nothing(), rows=np.sort(rows))


def _next_index(names: Sequence[str]) -> int:
    return 1 + max((int(match[1]) for name in names if (match := _DELETION.match(name))), default=-1)


def _pauses(patience: Patience) -> Iterator[bool]:
    """Sleep between two looks, ever longer, until the patience is at its end."""
    end_s, pause_s = patience.now_s() + patience.wait_s, 0.01
    while (left_s := end_s - patience.now_s()) > 0:
        patience.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, 0.5)
        yield True
