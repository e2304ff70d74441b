"""The one writer of a store: appends to the log, and every change of the manifest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from .advice import explained
from .batch import Decoder, Vectors
from .catalog import Change, Committer
from .claim import Claim
from .claimed_files import claimed
from .entry import Entry
from .errors import StoreError
from .files import Files, Lock, SyncError
from .late import late_name, write_late
from .layout import Layout
from .locking import AT_ONCE, Patience
from .meta import SegmentMeta
from .opening import open_catalog, take_lock
from .owner import OwnMutex
from .rejects import RejectFile, write_rejects
from .remote import log_cost
from .retired import Retired, leftovers
from .seal import seal
from .segment_files import next_number
from .takeover import take_over
from .vectors import find_keys
from .view import View
from .wal import WalWriter, make_frame, wal_path


class Writer:
    """Changes a store and keeps a view of it in step.

    A call that fails with StoreError changed nothing, unless it asks to close the store: then what the disk
    holds is unknown (an fsync failed), every later call fails as well, and opening the store again gives all
    that was acknowledged. So it is where the store at its path is another one by now, in which nothing is touched
    then. Callers hold `mutex`, but for `close`, which takes it itself; in a forked process it raises StoreError.

    Long changes (compaction, erasure) are classes of their own that work through `guard` and `publish`: they
    hold `changing` from end to end, one at a time, and `mutex` only to plan and to commit.
    """

    def __init__(self, files: Files, layout: Layout, decoder: Decoder, lock: Lock) -> None:
        self.claim = Claim(layout, lock)
        self.files = files = claimed(files, self.claim)
        self.layout = layout
        self._failure: BaseException | None = None
        self.is_closed = False
        self.shadow: Writer | None = None
        self.mutex = OwnMutex(self.claim.owner)
        self.changing = OwnMutex(self.claim.owner)
        catalog, epoch = take_over(files, layout, open_catalog(files, layout))
        self._committer = Committer(files, layout, catalog, epoch=epoch)
        self._retired = Retired(files, layout)
        self._retired.add(leftovers(files, layout, catalog), catalog.root.version)
        self._retired.collect(catalog.root.version)
        self.view = View(files, layout, decoder, catalog)
        self.view.replay()
        self._wal = WalWriter.reopen(files, layout.wal, self.view.mark)
        self.view.mark = self._wal.mark

    @classmethod
    def open(cls, files: Files, layout: Layout, decoder: Decoder, patience: Patience = AT_ONCE) -> Writer:
        """Become the writer of a store. Raises StoreError where another is, DamageError."""
        lock = take_lock(files, layout, patience)
        try:
            return cls(files, layout, decoder, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def is_stopped(self) -> bool:
        """Whether a write failed so that every later one fails as well."""
        return self._failure is not None or self.claim.is_lost

    @property
    def log_bytes(self) -> int:
        """Size of the log's open file; elsewhere also what its parts cost a reader."""
        mark = self._wal.mark
        return max(mark.offset, log_cost(self.files, wal_path(self.layout.wal, mark.number)))

    def append(self, entry: Entry) -> None:
        """Make an entry durable, then visible; its first_seq is the view's next_seq."""
        with self.guard("append"):
            self._wal.append(make_frame(entry))
            # Whoever opens what lies there from now on finds it; who did so before might write over it.
            self.claim.check()
            self.view.take(self._wal.mark.number, entry)
            self.view.mark = self._wal.mark

    def flush(self, *, is_for_append: bool = False) -> None:
        """Move all that is in the memtable into segments and reject files, and drop its part of the log.

        is_for_append: more events wait for this to be appended. Raises StoreError, which says what is kept.
        """
        self.check_going()
        view = self.view
        if not view.memtable.entries:
            return
        rest = (
            "what was to be appended is not taken" if is_for_append else "only the flush is to be done again"
        )
        with self.guard("flush", kept=self._kept(), outcome=rest) as written:
            batches, model = view.memtable.batches(), view.catalog.model
            segments = seal(
                self.files, self.layout, batches, view.lookup, dim=view.dim, model=model, written=written
            )
            rejects = self._write_rejects(written)
            self._wal.rotate()
            view.mark = self._wal.mark
            old = range(view.catalog.root.wal_floor, view.mark.number)
            logs = [wal_path(self.layout.wal, number) for number in old]
            change = Change(
                put_segments=segments,
                positions=tuple(view.memtable.positions.values()),
                rejects=rejects,
                wal_floor=view.mark.number,
                next_seq=view.next_seq,
                written={
                    "log": sum(self.files.size(path) for path in logs),
                    "flush": sum(segment.n_bytes for segment in segments),
                },
            )
            self.publish(change, logs)

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
        with self.guard("add_late") as written:
            if not vectors and not signals:
                changed = replace(meta, signals_pending=signals_pending)
            else:
                directory = self.layout.segment(meta.id)
                number = next_number(self.files.listdir(directory), "late")
                written.append(directory / late_name(number))
                late = write_late(self.files, directory, number, vectors=vectors, signals=signals)
                pending = self._still_pending(meta, vectors)
                changed = meta.with_late(late, pending=pending, signals_pending=signals_pending)
            if changed != meta:
                n_bytes = changed.n_bytes - meta.n_bytes
                self.publish(Change(put_segments=[changed], written={"late": n_bytes}), [])

    def commit(self, change: Change) -> None:
        """Commit a change that needs no files of its own."""
        with self.guard("commit"):
            self.publish(change, [])

    def is_current(self, meta: SegmentMeta) -> bool:
        """Whether the newest version holds this very segment."""
        # A sidecar that came meanwhile makes another object of it.
        return self.view.catalog.segments.entries.get(meta.id) is meta

    def publish(self, change: Change, replaced: Collection[Path]) -> None:
        """Commit a change, inside a guard and under the mutex; `replaced`: paths that it makes superfluous."""
        gone = self._committer.commit(change)
        self.view.adopt(self._committer.catalog)
        version = self.view.catalog.root.version
        self._retired.add([*gone, *replaced], version)
        self._retired.collect(version)

    @contextmanager
    def guard(
        self, what: str, *, commits: bool = True, kept: str = "", outcome: str = "nothing was changed"
    ) -> Iterator[list[Path]]:
        """Give a list for the paths of new files, which are removed again if what they were for fails.

        commits: the mutex is held, and the files stay where a commit named them before the failure. kept, outcome:
        what to say after a failure, and after one that does not stop the writer.
        """
        self.check_going()
        before, written = self._committer.catalog, list[Path]()
        try:
            yield written
        except BaseException as error:
            with self.mutex:
                if self._must_stop(error):
                    self._failure = error
                elif not commits:
                    self.remove(_made(written, error))
                elif self._committer.catalog is before:
                    self.remove(_made([*written, *self._committer.written], error))
                if isinstance(error, OSError) and not isinstance(error, StoreError):
                    raise StoreError(
                        f"{self.layout.path}: {what} failed: {explained(error)}; {kept}{self._told(outcome)}"
                    ) from error
            raise

    def collect(self, patience: Patience = AT_ONCE) -> int:
        """Remove what readers kept from going, as far as they let go; give how many files are left.

        patience: how long to wait for them.
        """
        pauses = patience.pauses()
        while (n_left := self._collect()) and next(pauses, False):
            pass
        return n_left

    def _collect(self) -> int:
        with self.mutex:
            if not self.is_closed:
                self._retired.collect(self.view.catalog.root.version)
            return self._retired.n_waiting

    def sync_removals(self) -> None:
        """See that no power loss brings back what was removed."""
        with self.guard("removing files", commits=False):
            for directory in self.layout.directories:
                self.files.fsync_dir(directory)

    def new_reject_path(self) -> Path:
        """Give the path of a reject file that is not there yet."""
        with self.mutex:
            return self.layout.rejects / f"{self._committer.next_number():08d}.arrow"

    def remove(self, written: Collection[Path]) -> None:
        """Remove files that no version ever named."""
        self._retired.add(written, 0)
        self._retired.collect(self.view.catalog.root.version)

    def retire(self, paths: Collection[Path]) -> None:
        """Remove files that the newest version does not name, once nobody reads an older one."""
        version = self.view.catalog.root.version
        self._retired.add(paths, version)
        self._retired.collect(version)

    def check_going(self) -> None:
        """Raise StoreError where the store was closed or stopped."""
        if self.is_closed:
            raise StoreError(f"{self.layout.path}: is closed; open it again")
        self.claim.check()
        if self._failure is not None:
            raise StoreError(
                f"{self.layout.path}: stopped after {self._failure}; close the store and open it again"
            )

    def close(self) -> None:
        """Stop writing; nothing that was acknowledged waits for this. A long change that runs is given up."""
        self.is_closed = True
        if self.claim.owner.is_elsewhere:
            return
        with self.changing, self.mutex:
            if self.shadow is not None:
                self.shadow.close()
            if self._failure is None:
                self._retired.collect(self.view.catalog.root.version)
            try:
                self._wal.close()
            finally:
                self.claim.release()

    def _write_rejects(self, written: list[Path]) -> Collection[RejectFile]:
        rejects = list(self.view.memtable.rejects())
        if not rejects:
            return ()
        path = self.new_reject_path()
        written.append(path)
        file = write_rejects(self.files, path, rejects)
        self.files.fsync_dir(self.layout.rejects)
        return (file,)

    def _still_pending(self, meta: SegmentMeta, vectors: Vectors | None) -> int:
        if vectors is None:
            return meta.pending
        table = self.view.segment(meta).vectors()
        places = find_keys(table.key, vectors.key)
        fresh = np.unique(places[places >= 0])
        return meta.pending - int(np.count_nonzero(~table.have[fresh]))

    def _must_stop(self, error: BaseException) -> bool:
        # Memory that lags behind the disk would number the next append twice, or name files that are gone.
        is_behind = self._wal.mark != self.view.mark or self._committer.catalog is not self.view.catalog
        is_unclear = self._wal.is_broken or self._committer.is_broken or self.claim.is_lost
        return isinstance(error, SyncError) or is_unclear or is_behind

    def _kept(self) -> str:
        """Say what is safe where a flush fails: all that was acknowledged."""
        n = self.view.next_seq
        events = f"events up to number {n - 1:,} are" if n else "what was acknowledged is"
        return f"{events} acknowledged and kept (in the log, where no segment has them), "

    def _told(self, outcome: str) -> str:
        if self._failure is None:
            return outcome
        return "close the store and open it again"


def _made(written: Collection[Path], error: BaseException) -> list[Path]:
    """Leave out of the paths that were to be made the one that could not be, since something was there."""
    cause: BaseException | None = error
    taken: set[str] = set()
    while cause is not None:
        if isinstance(cause, FileExistsError):
            taken.add(str(cause.filename))
        cause = cause.__cause__
    return [path for path in written if str(path) not in taken]
