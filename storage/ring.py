"""The store: append, flush, add what comes late, fold; and snapshots of it for queries.

What is durable when: events, their rejects and their positions when `append` returns (one frame of the log,
all or nothing); segments, late files and folds when the call that made them returns (one manifest version).
One process writes, any number read, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from .admission import check_columns, check_table
from .background import Background
from .batch import ColumnBatch, Decoder, ModelInfo, RawBatch, Vectors
from .catalog import Change
from .cleaner import Cleaner
from .compactor import Compactor, CompactReport
from .cut import Plan
from .entry import Entry, numbered
from .eraser import Act, Erased, Eraser
from .errors import ConfigError, ModelError, StaleError, StoreError
from .files import OS_FILES, Files, as_store_error
from .layout import Layout
from .ledger import Position
from .locking import AT_ONCE, Patience
from .moving import Mover, Renew, abort_move
from .open_store import OpenStore
from .opening import NOTHING
from .place import located
from .rejects import Reject
from .segment import Segment
from .shadow import sweep_shadow
from .view import View
from .writer import Writer

if TYPE_CHECKING:
    from .findings import CheckProgress, CheckReport

FLUSH_BYTES = 16 << 20
"""Size of the log's open file from which an append flushes first: bounds what an opening has to replay."""


class Ring(OpenStore):
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
        flush_bytes: int = FLUSH_BYTES,
        *,
        compacts: bool = False,
    ) -> None:
        super().__init__(files, layout, view, writer)
        self._flush_bytes = flush_bytes
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
            if mode == "r":
                ring = cls(files, layout, View(files, layout, decoder, NOTHING), None)
                ring._hold().release()
                return ring
            writer = Writer.open(files, layout, decoder, patience)
            try:
                # An erasure that was cut short is out of sight; where its bytes stay, the next one tries again.
                with suppress(StoreError):
                    Cleaner(writer).clean()
                sweep_shadow(writer)
                ring = cls(files, layout, writer.view, writer, flush_bytes, compacts=compacts)
                ring._compacting().wake()
            except BaseException:
                writer.close()
                raise
            return ring

    @property
    def is_stopped(self) -> bool:
        """Whether every later write fails, since one did or since this is a forked process: only closing is left."""
        return self._is_elsewhere or (self._writer is not None and self._writer.is_stopped)

    def append(
        self, raw: RawBatch, *, positions: Sequence[Position] = (), rejects: Sequence[Reject] = ()
    ) -> int:
        """Acknowledge records: durable on return, in one frame with their positions and rejects.

        Returns the first sequence number. Raises StoreError: nothing was appended, unless it asks to close the
        store.
        """
        with self._mutex:
            entry = Entry(self.next_seq, raw if raw.n_rows else None, rejects=tuple(rejects))
            end_seq = entry.first_seq + entry.n_rows
            is_empty = entry.n_rows == 0
            entry.positions = tuple(p if is_empty else p.acknowledged_with(end_seq) for p in positions)
            return self._acknowledge(entry)

    def append_columns(self, batch: ColumnBatch, vectors: Vectors | None = None) -> int:
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
            return self._acknowledge(Entry(self.next_seq, columns=columns, vectors=vectors))

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

    def compact(self, *, patience: Patience = AT_ONCE) -> CompactReport:
        """Flush, then join segments as far as the limits of a fold allow, whatever it costs.

        Other threads append and look meanwhile. patience: how long to wait for readers of older versions. Raises
        DamageError as `fold`.
        """
        with self._mutex:
            writer = self._writing()
            writer.flush()
        report = self._compacting().compact()
        return replace(report, held=writer.collect(patience))

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

    def repair(self, *, deep: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """Mend what can be mended without losing anything, and give the state after it (see `repair`)."""
        from .repair import repair

        with self._mutex:
            writer = self._writing()
            writer.check_going()
        before = self.check(deep=deep, progress=progress)
        with as_store_error(self.path, "repair it"):
            return repair(writer, before, progress=progress)

    def close(self) -> None:
        """Let go of the store; twice is once. Nothing that was acknowledged waits for this.

        In a forked process nothing else is done: what is on the disk, and the lock, are those of the first.
        """
        if self._is_elsewhere:
            self._is_closed = True
            return
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

    def _acknowledge(self, entry: Entry) -> int:
        """Append, and flush a full log before and not after that, so that an append fails as a whole."""
        writer = self._writing()
        if writer.log_bytes >= self._flush_bytes:
            self._flush(writer, is_for_append=True)
        if entry.n_rows or entry.positions or entry.rejects:
            writer.append(entry)
        return entry.first_seq

    def _flush(self, writer: Writer, *, is_for_append: bool = False) -> None:
        writer.flush(is_for_append=is_for_append)
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
