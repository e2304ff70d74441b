"""The one writer of a store: appends to the log, and every change of the manifest."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from .agreement import agreeing_groups
from .batch import Decoder, Vectors
from .catalog import Change, Committer
from .entry import Entry
from .errors import DamageError, StoreError
from .files import Files, Lock, SyncError
from .fold import Fold, least_fold, make_fold, plan_folds
from .layout import Layout
from .memory import merge
from .meta import SegmentMeta
from .opening import open_catalog, take_lock
from .rejects import RejectFile, write_rejects
from .retired import Retired, leftovers
from .seal import seal, segment_id
from .segment import Segment, write, write_late
from .vectors import find_keys
from .view import View
from .wal import WalWriter, make_frame, wal_path

_LATE = re.compile(r"late-(\d+)\.")


class Writer:
    """Changes a store and keeps a view of it in step.

    A call that fails with StoreError changed nothing, unless it asks to close the store: then what the disk
    holds is unknown (an fsync failed), every later call fails as well, and opening the store again gives all
    that was acknowledged. Callers hold `mutex`, but for `fold` and `close`, which take it themselves.
    """

    def __init__(self, files: Files, layout: Layout, decoder: Decoder, lock: Lock) -> None:
        self._files = files
        self._layout = layout
        self._lock = lock
        self._failure: BaseException | None = None
        self._is_closed = False
        self._folding = threading.RLock()
        self.mutex = threading.RLock()
        catalog = open_catalog(files, layout)
        self._committer = Committer(files, layout, catalog, epoch=catalog.root.epoch + 1)
        self._retired = Retired(files, layout)
        self._retired.add(leftovers(files, layout, catalog), catalog.root.version)
        self._retired.collect(catalog.root.version)
        self.view = View(files, layout, decoder, catalog)
        self.view.replay()
        self._wal = WalWriter.reopen(files, layout.wal, self.view.mark)

    @classmethod
    def open(cls, files: Files, layout: Layout, decoder: Decoder) -> Writer:
        """Become the writer of a store. Raises StoreError where another is, DamageError."""
        lock = take_lock(files, layout)
        try:
            return cls(files, layout, decoder, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def is_stopped(self) -> bool:
        """Whether a write failed so that every later one fails as well."""
        return self._failure is not None

    @property
    def log_bytes(self) -> int:
        """Size of the log's open file."""
        return self._wal.mark.offset

    def append(self, entry: Entry) -> None:
        """Make an entry durable, then visible; its first_seq is the view's next_seq."""
        with self._guard("append"):
            self._wal.append(make_frame(entry))
            self.view.take(self._wal.mark.number, entry)
            self.view.mark = self._wal.mark

    def flush(self) -> None:
        """Move all that is in the memtable into segments and reject files, and drop its part of the log."""
        self._check_going()
        view = self.view
        if not view.memtable.entries:
            return
        with self._guard("flush") as written:
            batches, model = view.memtable.batches(), view.catalog.model
            segments = seal(
                self._files, self._layout, batches, view.lookup, dim=view.dim, model=model, written=written
            )
            rejects = self._write_rejects(written)
            self._wal.rotate()
            view.mark = self._wal.mark
            old = range(view.catalog.root.wal_floor, view.mark.number)
            change = Change(
                put_segments=segments,
                positions=tuple(view.memtable.positions.values()),
                rejects=rejects,
                wal_floor=view.mark.number,
                next_seq=view.next_seq,
            )
            self._commit(change, [wal_path(self._layout.wal, number) for number in old])

    def add_late(
        self,
        meta: SegmentMeta,
        *,
        vectors: Vectors | None,
        signals: Mapping[str, pa.Array] | None,
        is_signals_done: bool,
    ) -> None:
        """Commit a sidecar of a segment."""
        signals_pending = meta.signals_pending and not is_signals_done
        with self._guard("add_late") as written:
            if not vectors and not signals:
                changed = replace(meta, signals_pending=signals_pending)
            else:
                directory = self._layout.segment(meta.id)
                index = _next_index(self._files.listdir(directory))
                late = write_late(self._files, directory, index, vectors=vectors, signals=signals)
                written.append(directory / late.file.name)
                pending = self._still_pending(meta, vectors)
                changed = meta.with_late(late, pending=pending, signals_pending=signals_pending)
            if changed != meta:
                self._commit(Change(put_segments=[changed]), [])

    def fold(self) -> int:
        """Rewrite finished segments until no fold is due; give how many segments were made.

        Takes the mutex only to plan and to commit: appends, flushes and late files go on meanwhile, and a
        fold whose segments changed is planned again. A segment whose files are not as written stays as it
        is, and once all others are folded the first of these is raised as DamageError. Segments that
        disagree about a column's type are folded apart.
        """
        n_made, left = 0, dict[str, DamageError | None]()
        with self._folding:
            while folds := self._due_folds(left):
                for fold in folds:
                    n_made += self._fold(fold, left)
        for damage in left.values():
            if damage is not None:
                raise damage
        return n_made

    def commit(self, change: Change) -> None:
        """Commit a change that needs no files of its own."""
        with self._guard("commit"):
            self._commit(change, [])

    def close(self) -> None:
        """Stop writing; nothing that was acknowledged waits for this. A fold that runs is given up."""
        self._is_closed = True
        with self._folding, self.mutex:
            if self._failure is None:
                self._retired.collect(self.view.catalog.root.version)
            self._wal.close()
            self._lock.release()

    def _due_folds(self, left: Collection[str]) -> list[Fold]:
        with self.mutex:
            self._check_going()
            metas = self.view.catalog.segments.entries.values()
            return plan_folds([meta for meta in metas if meta.id not in left])

    def _fold(self, fold: Fold, left: dict[str, DamageError | None]) -> int:
        """Fold what can be folded; `left` gets the segments that cannot, with what is wrong with them."""
        damaged, sources = dict[str, DamageError | None](), list[Segment]()
        for meta in fold.segments:
            try:
                sources += self._verified(meta)
            except DamageError as error:
                damaged[meta.id] = error
        left.update(damaged)
        if len(sources) < len(fold.segments):
            return 0
        n_made = 0
        for group in agreeing_groups([source.kinds() for source in sources]):
            members = [sources[place] for place in group]
            if len(group) >= least_fold(members[0].meta.generation):
                n_made += self._rewrite(members)
            else:
                left.update({source.id: None for source in members})
        return n_made

    def _verified(self, meta: SegmentMeta) -> list[Segment]:
        """Give a segment whose bytes are those that were written; none where it changed meanwhile."""
        with self._guard("fold", commits=False):
            with self.mutex:
                if not self._is_current(meta):
                    return []
                segment = self.view.segment(meta)
            segment.verify()
        return [segment]

    def _rewrite(self, sources: Sequence[Segment]) -> int:
        metas = [source.meta for source in sources]
        fold, model = make_fold(metas), self.view.catalog.model
        with self._guard("fold", commits=False) as written:
            qls_scale = None if model is None else model.qls_scale
            merged = merge(sources, segment_id(fold.level, fold.cell), qls_scale=qls_scale)
            directory = self._layout.segment(merged.id)
            written.append(directory)
            generation = 1 + max(meta.generation for meta in metas)
            made = write(
                self._files, directory, merged, level=fold.level, cell=fold.cell, generation=generation
            )
            self._files.fsync_dir(self._layout.segments)
        with self.mutex:
            if self._is_closed or not all(map(self._is_current, metas)):
                self._remove([directory])
                return 0
            with self._guard("fold") as written:
                written.append(directory)
                gone = [meta.id for meta in metas]
                replaced = [self._layout.segment(name) for name in gone]
                self._commit(Change(put_segments=[made], drop_segments=gone), replaced)
        return 1

    def _is_current(self, meta: SegmentMeta) -> bool:
        # A sidecar that came meanwhile makes another object of it.
        return self.view.catalog.segments.entries.get(meta.id) is meta

    def _write_rejects(self, written: list[Path]) -> Collection[RejectFile]:
        rejects = list(self.view.memtable.rejects())
        if not rejects:
            return ()
        path = self._layout.rejects / f"{self._committer.next_number():08d}.arrow"
        written.append(path)
        file = write_rejects(self._files, path, rejects)
        self._files.fsync_dir(self._layout.rejects)
        return (file,)

    def _still_pending(self, meta: SegmentMeta, vectors: Vectors | None) -> int:
        if vectors is None:
            return meta.pending
        table = self.view.segment(meta).vectors()
        places = find_keys(table.key, vectors.key)
        fresh = np.unique(places[places >= 0])
        return meta.pending - int(np.count_nonzero(~table.have[fresh]))

    def _commit(self, change: Change, replaced: Collection[Path]) -> None:
        gone = self._committer.commit(change)
        self.view.adopt(self._committer.catalog)
        version = self.view.catalog.root.version
        self._retired.add([*gone, *replaced], version)
        self._retired.collect(version)

    @contextmanager
    def _guard(self, what: str, *, commits: bool = True) -> Iterator[list[Path]]:
        """Give a list for the paths of new files, which are removed again if what they were for fails.

        commits: the mutex is held, and the files stay where a commit named them before the failure.
        """
        self._check_going()
        before, written = self._committer.catalog, list[Path]()
        try:
            yield written
        except BaseException as error:
            with self.mutex:
                if self._must_stop(error):
                    self._failure = error
                elif not commits:
                    self._remove(written)
                elif self._committer.catalog is before:
                    self._remove([*written, *self._committer.written])
                if isinstance(error, OSError) and not isinstance(error, StoreError):
                    raise StoreError(
                        f"{self._layout.path}: {what} failed: {error}{self._outcome()}"
                    ) from error
            raise

    def _remove(self, written: Collection[Path]) -> None:
        self._retired.add(written, 0)
        self._retired.collect(self.view.catalog.root.version)

    def _check_going(self) -> None:
        if self._is_closed:
            raise StoreError(f"{self._layout.path}: is closed; open it again")
        if self._failure is not None:
            raise StoreError(
                f"{self._layout.path}: stopped after {self._failure}; close the store and open it again"
            )

    def _must_stop(self, error: BaseException) -> bool:
        # Memory that lags behind the disk would number the next append twice, or name files that are gone.
        is_behind = self._wal.mark != self.view.mark or self._committer.catalog is not self.view.catalog
        return isinstance(error, SyncError) or self._wal.is_broken or self._committer.is_broken or is_behind

    def _outcome(self) -> str:
        if self._failure is None:
            return "; nothing was changed"
        return "; close the store and open it again"


def _next_index(names: Collection[str]) -> int:
    """Give the number of the next sidecar, also beside one that a failed call left."""
    return 1 + max((int(match[1]) for name in names if (match := _LATE.match(name))), default=-1)
