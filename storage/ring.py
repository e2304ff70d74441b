"""The store: append, flush, add what comes late, fold; and snapshots of it for queries.

What is durable when: events, their rejects and their positions when `append` returns (one frame of the log,
all or nothing); segments, late files and folds when the call that made them returns (one manifest version).
One process writes, any number read, and none waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .acknowledged import Acknowledged, acknowledged
from .address import is_address
from .admission import check_columns, check_table
from .amplification import Amplification
from .audit import AuditRecord
from .background import Background
from .backup import BackupReport, StateToCopy, back_up, restore
from .batch import ColumnBatch, Decoder, Keys, ModelInfo, RawBatch, Vectors
from .catalog import Change
from .cleaner import Cleaner
from .compactor import Compactor, CompactReport
from .copying import CopyProgress
from .cut import Plan, State
from .entry import Entry, numbered
from .eraser import Act, Erased, Eraser
from .errors import ConfigError, DamageError, ModelError, StaleError, StoreError
from .files import OS_FILES, Files, Lock, as_store_error
from .layout import Layout
from .ledger import Position
from .locking import AT_ONCE, NoLock, Patience
from .moving import Mover, Renew, abort_move
from .opening import NOTHING
from .place import located
from .rejects import Reject, read_rejects
from .remote import is_remote, sizes_below
from .segment import Segment
from .shadow import ShadowState, read_shadow, sweep_shadow
from .snapshot import Snapshot
from .view import View, newest_version
from .writer import Writer

if TYPE_CHECKING:
    from .findings import CheckProgress, CheckReport

FLUSH_BYTES = 16 << 20
"""Size of the log's open file from which an append flushes first: bounds what an opening has to replay."""


class Ring:
    """A store that is open. Calls of several threads are done one after the other, but for `fold`.

    Writing (mode `w`): `append` as often as wanted; `flush` now and then (large logs flush by themselves);
    `unfinished`, `add_late`, `fold` when vectors come; `close`. Reading: `snapshot`, any time.
    """

    def __init__(
        self,
        files: Files,
        layout: Layout,
        view: View,
        writer: Writer | None,
        flush_bytes: int,
        *,
        compacts: bool = False,
    ) -> None:
        self._files = files
        self._layout = layout
        self._view = view
        self._writer = writer
        self._flush_bytes = flush_bytes
        self._mutex = threading.RLock() if writer is None else writer.mutex
        self._is_closed = False
        self._compaction = None if writer is None else Background(Compactor(writer), runs=compacts)

    @classmethod
    def open(
        cls,
        path: str | Path,
        mode: Literal["w", "r"] = "w",
        *,
        decoder: Decoder,
        files: Files = OS_FILES,
        flush_bytes: int = FLUSH_BYTES,
        compacts: bool = False,
        patience: Patience = AT_ONCE,
    ) -> Ring:
        """Open a store: `w` to write and read, made where there is none; `r` to read beside a live writer.

        compacts: at once and after a flush a thread folds what is due, until nothing is, while appends go on.
        patience: how long to wait for another writer.

        Raises StoreError where another process writes (`w`), where there is no store (`r`), for a directory
        with other things in it, for another format version; DamageError where files are not as written.
        """
        files, place = located(path, files)
        layout = Layout(place)
        if mode not in ("w", "r"):
            raise ConfigError(f"mode {mode!r}: unknown, expected 'w' or 'r'")
        with as_store_error(layout.path, "open it"):
            if mode == "w":
                writer = Writer.open(files, layout, decoder, patience)
                _finish_erasure(writer)
                sweep_shadow(writer)
                ring = cls(files, layout, writer.view, writer, flush_bytes, compacts=compacts)
                ring._compacting().wake()
                return ring
            ring = cls(files, layout, View(files, layout, decoder, NOTHING), None, flush_bytes)
            ring._hold().release()
            return ring

    @property
    def path(self) -> Path:
        """Directory of the store."""
        return self._layout.path

    def sizes(self) -> Mapping[Path, int]:
        """Give the bytes of every file of the store."""
        with as_store_error(self.path, "measure it"):
            return sizes_below(self._files, self.path)

    @property
    def is_stopped(self) -> bool:
        """Whether a write failed so that every later one fails as well: only closing is left."""
        return self._writer is not None and self._writer.is_stopped

    @property
    def next_seq(self) -> int:
        """Sequence number of the next event; those of a store begin at 0."""
        return self._view.next_seq

    @property
    def model(self) -> ModelInfo | None:
        """What the vectors are made with, None until `set_model`."""
        return self._view.catalog.model

    def append(
        self,
        raw: RawBatch,
        *,
        columns: ColumnBatch | None = None,
        positions: Sequence[Position] = (),
        rejects: Sequence[Reject] = (),
    ) -> int:
        """Acknowledge records: durable on return, in one frame with their positions and rejects.

        columns: what decoding `raw` from `next_seq` on gives, where the caller has it already. Returns the
        first sequence number. Raises StoreError: nothing was appended, unless it asks to close the store.
        """
        with self._mutex:
            if columns is not None:
                _check_decoded(columns, raw.n_rows, self.next_seq)
            has_rows = raw.n_rows > 0
            return self._append(
                raw=raw if has_rows else None,
                columns=columns if has_rows else None,
                positions=tuple(positions),
                rejects=tuple(rejects),
            )

    def append_columns(
        self, batch: ColumnBatch, vectors: Vectors | None = None, *, positions: Sequence[Position] = ()
    ) -> int:
        """Acknowledge a table and the vectors of its texts: durable on return, in one frame.

        The column `seq` is the store's own, whatever the batch says. Returns the first sequence number.
        Raises ConfigError for a column that has not the type of its name or of the store's column of that
        name, StoreError like `append`.
        """
        with self._mutex:
            with as_store_error(self.path, "read it"):
                check_table(batch, self._writing().view.kind_of)
            if vectors is not None and len(vectors):
                self._check_dim(vectors.dim)
            columns = numbered(batch, self.next_seq) if batch.n_rows else None
            if vectors is not None:
                # No event of the store was embedded for vectors that were given.
                vectors = replace(vectors, exemplar=np.empty(0, np.int64)) if batch.n_rows else None
            return self._append(columns=columns, vectors=vectors, positions=tuple(positions))

    def flush(self) -> None:
        """Write what only the log holds as segments, and drop that part of the log; durable on return."""
        with self._mutex:
            self._flush(self._writing())

    def unfinished(self) -> list[Segment]:
        """Give the segments whose vectors or signals are still to come, in time order."""
        with self._mutex, as_store_error(self.path, "read it"):
            self._check_open()
            # A segment with deleted events is about to be rewritten, and stands here once it was.
            whole = [part for part in self._view.live_parts() if isinstance(part, Segment)]
            return [segment for segment in whole if not segment.meta.is_finished]

    def add_late(
        self,
        segment_id: str,
        *,
        vectors: Vectors | None = None,
        signals: Mapping[str, pa.Array] | None = None,
        signals_done: bool = False,
    ) -> None:
        """Add vectors and signal columns (a value a row) to a segment; durable and visible on return.

        signals_done: no more signals will come. Raises StaleError for a segment that the store has not or has
        no more as it was, ConfigError for a column of another length, or one of another type than the store's
        column of that name.
        """
        with self._mutex:
            writer = self._writing()
            meta = self._view.catalog.segments.entries.get(segment_id)
            if meta is None or meta.deleted is not None:
                raise StaleError(f"segment {segment_id}: the store has none such; take it from `unfinished`")
            with as_store_error(self.path, "read it"):
                check_columns(signals or {}, meta.n_rows, self._view.kind_of)
            if vectors is not None and len(vectors):
                self._check_dim(vectors.dim)
                self._check_known(vectors)
            writer.add_late(meta, vectors=vectors, signals=signals, is_signals_done=signals_done)

    def fold(self) -> int:
        """Rewrite what is due, ordered by shard and joined; give how many segments were made.

        Due are finished segments that never were ordered, and any four of a size that lie together. Other
        threads append and look meanwhile. Raises DamageError, once all others are folded, for a segment
        whose files are not as written: it stays as it is.
        """
        return self._compacting().fold()

    def compact(self) -> CompactReport:
        """Flush, then join segments as far as the limits of a fold allow, whatever it costs.

        Other threads append and look meanwhile. Raises DamageError as `fold`.
        """
        with self._mutex:
            self._writing().flush()
        return self._compacting().compact()

    def settle(self) -> None:
        """Flush, and wait until the thread that compacts has nothing more to do: for a process that ends soon.

        What went wrong there is kept in `compaction_error`.
        """
        with self._mutex:
            self._flush(self._writing())
        self._compacting().join()

    def filling(self) -> AbstractContextManager[None]:
        """Keep unfinished segments as they are until the `with` ends: for one who completes them one by one."""
        return self._compacting().filling()

    @property
    def compaction_error(self) -> Exception | None:
        """What went wrong in the thread that compacts, until it or a call of `fold` or `compact` goes well."""
        return None if self._compaction is None else self._compaction.error

    @property
    def amplification(self) -> Amplification:
        """How many bytes were written for those acknowledged; for a reader, at its last look."""
        with self._mutex:
            view = self._view
            open_log = view.mark.offset if view.memtable.entries else 0
            catalog = view.catalog
            return Amplification.of(catalog.root.written, open_log, catalog.segments.entries.values())

    def lookup(self, keys: Keys) -> tuple[npt.NDArray[np.bool_], Vectors]:
        """Give which keys have a vector anywhere in the store, bool (n), and those vectors in key order."""
        with self._mutex, as_store_error(self.path, "look up vectors"):
            hold = self._hold()
            try:
                return self._view.lookup(keys)
            finally:
                hold.release()

    def set_model(self, model: ModelInfo) -> None:
        """Say what vectors are made with; durable on return. Raises ModelError if the store has another."""
        with self._mutex:
            writer = self._writing()
            old = self.model
            if old is not None:
                # The number type is provenance only: vectors of one model agree across them.
                if replace(old, dtype=model.dtype) != model:
                    raise ModelError(
                        f"{self.path}: its vectors are of {old.model_id}, not of {model.model_id}; use that "
                        "model, or make a new store"
                    )
                return
            self._check_dim(model.dim)
            writer.commit(Change(model=model))

    def position(self, fingerprint: str) -> Position | None:
        """Give how far a source has been taken, None for an unknown one."""
        with self._positions() as (filed, waiting):
            return waiting.get(fingerprint) or filed.get(fingerprint)

    def positions(self) -> Mapping[str, Position]:
        """Give how far every source has been taken, by fingerprint."""
        with self._positions() as (filed, waiting):
            return {**filed, **waiting}

    def acknowledged(self, first_seq: int, end_seq: int) -> list[Acknowledged]:
        """Give the original records of the events with these sequence numbers, as far as they are there."""
        with self._mutex, as_store_error(self.path, "read it"):
            hold = self._hold()
            try:
                return acknowledged(self._view, first_seq, end_seq)
            finally:
                hold.release()

    def snapshot(self) -> Snapshot:
        """Give the store as it is now: every acknowledged event once, until the snapshot is closed."""
        with self._mutex, as_store_error(self.path, "read it"):
            hold = self._hold()
            try:
                parts = self._view.parts()
            except BaseException:
                hold.release()
                raise
            catalog = self._view.catalog
            return Snapshot(
                parts,
                n_rejected=catalog.n_rejected + self._view.memtable.n_rejected,
                model=catalog.model,
                version=catalog.root.version,
                release=hold.release,
            )

    def rejects(self) -> Iterator[Reject]:
        """Give the records that did not become events, oldest first."""
        with self._mutex, as_store_error(self.path, "read rejects"):
            hold = self._hold()
            entries = self._view.catalog.rejects.entries.items()
            # A file from which some were erased has a new name and its old time.
            files = sorted(entries, key=lambda entry: (entry[1].written_ns or 0, entry[0]))
            waiting = list(self._view.memtable.rejects())
        try:
            for name, file in files:
                yield from read_rejects(self._files, self._layout.rejects / name, file.file)
            yield from waiting
        finally:
            hold.release()

    def erase(self, plan: Plan, act: Act, *, wait_s: float = 0.0) -> Erased:
        """Take out what `plan` says of the newest state; nobody sees it from then on (see `Eraser`).

        Other threads append and look meanwhile. wait_s: how long to wait for readers of older versions, whose
        files stay as long as they read.
        """
        with self._mutex:
            writer = self._writing()
        with as_store_error(self.path, act.action):
            return Eraser(writer).erase(plan, act, Patience(wait_s))

    def mover(self, model: ModelInfo, renew: Renew) -> Mover:
        """Give what moves the store to another model, going on where an earlier one stopped; close it.

        renew: what of events is another under that model. Raises StoreError where it is being moved already,
        ConfigError for a store that is in no directory.
        """
        with as_store_error(self.path, "move it to another model"):
            return Mover(self._writing(), model, renew)

    def shadow(self, mover: Mover) -> Ring:
        """Give the shadow of a mover as a store, to be filled; the mover closes it."""
        writer = mover.shadow
        return Ring(writer.files, writer.layout, writer.view, writer, self._flush_bytes)

    def abort_move(self) -> bool:
        """Remove what was done of a move to another model; give whether there was something."""
        with self._mutex, as_store_error(self.path, "remove its shadow"):
            return abort_move(self._writing())

    def move_state(self) -> ShadowState | None:
        """Give how far a move to another model is, None where none was begun."""
        with self._mutex, as_store_error(self.path, "read its shadow"):
            found = read_shadow(self._files, self._layout)
            head = self._view.catalog.root.audit_head
            return found if found is not None and found.audit_head == head else None

    def backup(
        self, directory: str | Path, *, verify: bool = False, progress: CopyProgress | None = None
    ) -> BackupReport:
        """Bring a backup in `directory` to the store as it is now (see `back_up`).

        Other threads and processes write meanwhile; the files of this state stay until it is done.
        """
        files, target = self._copy_target(directory)
        return self._copy(lambda state: back_up(files, state, target, verify=verify, progress=progress))

    def restore(self, directory: str | Path, *, progress: CopyProgress | None = None) -> BackupReport:
        """Copy the store as it is now into a new or empty directory, as a store of its own (see `restore`)."""
        files, target = self._copy_target(directory)
        return self._copy(lambda state: restore(files, state, target, progress=progress))

    @contextmanager
    def state(self) -> Iterator[State]:
        """Give the store as it is now as an erasure plans over it, until the `with` ends; nothing is changed."""
        with self._mutex, as_store_error(self.path, "read it"):
            hold = self._hold()
            try:
                state = self._view.state()
                live = {meta.id: self._view.live_part(meta) for meta in state.metas}
            except BaseException:
                hold.release()
                raise
        try:
            yield replace(state, open=lambda meta: live[meta.id])
        finally:
            hold.release()

    def audit(self) -> tuple[list[AuditRecord], str]:
        """Give what was done to the store by hand, oldest first, and the hash that the chain must end at."""
        with self._mutex, as_store_error(self.path, "read it"):
            self._hold().release()
            catalog = self._view.catalog
            return catalog.audit_records, catalog.root.audit_head

    def check(self, *, deep: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """Look at every file of the newest version, and find all that is wrong (see `check_store`)."""
        from .check import check_store

        self._check_open()
        return check_store(self._files, self._layout, deep=deep, progress=progress)

    def repair(self, *, deep: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """Mend what can be mended without losing anything, and give the state after it (see `repair`)."""
        from .repair import repair

        with self._mutex:
            writer = self._writing()
        before = self.check(deep=deep, progress=progress)
        with as_store_error(self.path, "repair it"):
            return repair(writer, before, progress=progress)

    def close(self) -> None:
        """Let go of the store; twice is once. Nothing that was acknowledged waits for this."""
        with self._mutex:
            writer = None if self._is_closed else self._writer
            self._is_closed = True
        if writer is not None:
            writer.close()
        if self._compaction is not None:
            self._compaction.join()

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _copy_target(self, directory: str | Path) -> tuple[Files, Layout]:
        if is_address(directory):
            raise ConfigError(f"{directory}: copies are made in directories only; give one")
        files = OS_FILES if is_remote(self._files) else self._files
        return files, Layout(Path(directory).absolute())

    def _copy(self, copy: Callable[[StateToCopy], BackupReport]) -> BackupReport:
        while True:
            with self._mutex, as_store_error(self.path, "read it"):
                hold, view = self._hold(), self._view
                state = StateToCopy(self._files, self._layout, view.catalog, view.mark, view.next_seq)
            try:
                return copy(state)
            except DamageError:
                # Without locks a writer may have taken the files of this version away.
                version = state.catalog.root.version
                if not isinstance(hold, NoLock) or newest_version(self._files, self._layout) == version:
                    raise
            finally:
                hold.release()

    def _append(
        self,
        *,
        raw: RawBatch | None = None,
        columns: ColumnBatch | None = None,
        vectors: Vectors | None = None,
        positions: tuple[Position, ...] = (),
        rejects: tuple[Reject, ...] = (),
    ) -> int:
        writer = self._make_room()
        entry = Entry(self.next_seq, raw, columns, vectors, positions, rejects)
        if entry.n_rows:
            end_seq = entry.first_seq + entry.n_rows
            entry.positions = tuple(p.acknowledged_with(end_seq) for p in positions)
        if entry.n_rows or positions or rejects:
            writer.append(entry)
        return entry.first_seq

    @contextmanager
    def _positions(self) -> Iterator[tuple[Mapping[str, Position], Mapping[str, Position]]]:
        """Give the positions in lists, which are read only now, and those that only the log has."""
        with self._mutex, as_store_error(self.path, "read positions"):
            hold = self._hold() if self._writer is None else None
            try:
                yield self._view.catalog.ledger.entries, self._view.memtable.positions
            finally:
                if hold is not None:
                    hold.release()

    def _make_room(self) -> Writer:
        """Flush a log that is full: before the append and not after, so that an append fails as a whole."""
        writer = self._writing()
        if writer.log_bytes >= self._flush_bytes:
            self._flush(writer)
        return writer

    def _flush(self, writer: Writer) -> None:
        writer.flush()
        self._compacting().wake()

    def _compacting(self) -> Background:
        with self._mutex:
            self._writing()
        assert self._compaction is not None
        return self._compaction

    def _writing(self) -> Writer:
        self._check_open()
        if self._writer is None:
            raise StoreError(f"{self.path}: is open to read; open it with mode 'w' to change it")
        return self._writer

    def _hold(self) -> Lock:
        self._check_open()
        if self._writer is None:
            return self._view.follow()
        return self._view.hold()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError(f"{self.path}: is closed; open it again")

    def _check_known(self, vectors: Vectors) -> None:
        """Raise StaleError for vectors that were looked up and that an erasure made the store forget since."""
        looked_up = np.flatnonzero(vectors.exemplar >= 0)
        if not len(looked_up):
            return
        found, known = self._view.lookup(vectors.key[looked_up])
        # One that was made again meanwhile is of another event.
        if not found.all() or (known.exemplar != vectors.exemplar[looked_up]).any():
            raise StaleError("a vector is not the store's any more; look it up again")

    def _check_dim(self, dim: int) -> None:
        known = self._view.dim
        if known not in (None, dim):
            raise ModelError(f"{self.path}: its vectors have {known} dimensions, these {dim}; use its model")


def _finish_erasure(writer: Writer) -> None:
    """Go on with an erasure that was cut short: what it took is out of sight, and goes out of the files now."""
    # Where that fails nothing is lost or shown: the next erasure or fold tries again, and says so.
    with suppress(StoreError):
        Cleaner(writer).clean()


def _check_decoded(columns: ColumnBatch, n_rows: int, first_seq: int) -> None:
    if columns.n_rows != n_rows:
        raise ConfigError(f"columns have {columns.n_rows} rows, the records {n_rows}; decode these records")
    found = columns.columns["seq"][0].as_py() if n_rows else first_seq
    if found != first_seq:
        raise ConfigError(f"columns begin at seq {found}, expected {first_seq}; decode from `next_seq` on")
