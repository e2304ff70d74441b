"""The store: append, flush, add what comes late, fold; and snapshots of it for queries.

What is durable when: events, their rejects and their positions when `append` returns (one frame of the log,
all or nothing); segments, late files and folds when the call that made them returns (one manifest version).
One process writes, any number read, and none waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .admission import check_columns, check_table
from .batch import ColumnBatch, Decoder, Keys, ModelInfo, RawBatch, Vectors
from .catalog import Change
from .compactor import Compactor
from .entry import Entry, numbered
from .errors import ConfigError, ModelError, StoreError
from .files import OS_FILES, Files, Lock, as_store_error
from .layout import Layout
from .ledger import Position
from .opening import NOTHING
from .rejects import Reject, read_rejects
from .segment import Segment
from .snapshot import Snapshot
from .view import View
from .writer import Writer

FLUSH_BYTES = 16 << 20
"""Size of the log's open file from which an append flushes first: bounds what an opening has to replay."""


class Ring:
    """A store that is open. Calls of several threads are done one after the other, but for `fold`.

    Writing (mode `w`): `append` as often as wanted; `flush` now and then (large logs flush by themselves);
    `unfinished`, `add_late`, `fold` when vectors come; `close`. Reading: `snapshot`, any time.
    """

    def __init__(
        self, files: Files, layout: Layout, view: View, writer: Writer | None, flush_bytes: int
    ) -> None:
        self._files = files
        self._layout = layout
        self._view = view
        self._writer = writer
        self._flush_bytes = flush_bytes
        self._mutex = threading.RLock() if writer is None else writer.mutex
        self._is_closed = False

    @classmethod
    def open(
        cls,
        path: str | Path,
        mode: Literal["w", "r"] = "w",
        *,
        decoder: Decoder,
        files: Files = OS_FILES,
        flush_bytes: int = FLUSH_BYTES,
    ) -> Ring:
        """Open a store: `w` to write and read, made where there is none; `r` to read beside a live writer.

        Raises StoreError where another process writes (`w`), where there is no store (`r`), for a directory
        with other things in it, for another format version; DamageError where files are not as written.
        """
        layout = Layout(Path(path).absolute())
        if mode not in ("w", "r"):
            raise ConfigError(f"mode {mode!r}: unknown, expected 'w' or 'r'")
        with as_store_error(layout.path, "open it"):
            if mode == "w":
                writer = Writer.open(files, layout, decoder)
                return cls(files, layout, writer.view, writer, flush_bytes)
            ring = cls(files, layout, View(files, layout, decoder, NOTHING), None, flush_bytes)
            ring._hold().release()
            return ring

    @property
    def path(self) -> Path:
        """Directory of the store."""
        return self._layout.path

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
                self._check_dim(vectors.exact.shape[1])
            columns = numbered(batch, self.next_seq) if batch.n_rows else None
            if vectors is not None:
                # No event of the store was embedded for vectors that were given.
                vectors = replace(vectors, exemplar=np.empty(0, np.int64)) if batch.n_rows else None
            return self._append(columns=columns, vectors=vectors, positions=tuple(positions))

    def flush(self) -> None:
        """Write what only the log holds as segments, and drop that part of the log; durable on return."""
        with self._mutex:
            self._writing().flush()

    def unfinished(self) -> list[Segment]:
        """Give the segments whose vectors or signals are still to come, in time order."""
        with self._mutex, as_store_error(self.path, "read it"):
            self._check_open()
            return [segment for segment in self._view.segments() if not segment.meta.is_finished]

    def add_late(
        self,
        segment_id: str,
        *,
        vectors: Vectors | None = None,
        signals: Mapping[str, pa.Array] | None = None,
        signals_done: bool = False,
    ) -> None:
        """Add vectors and signal columns (a value a row) to a segment; durable and visible on return.

        signals_done: no more signals will come. Raises ConfigError for a segment that the store has not, a
        column of another length, or one of another type than the store's column of that name.
        """
        with self._mutex:
            writer = self._writing()
            meta = self._view.catalog.segments.entries.get(segment_id)
            if meta is None:
                raise ConfigError(f"segment {segment_id}: the store has none such; take it from `unfinished`")
            with as_store_error(self.path, "read it"):
                check_columns(signals or {}, meta.n_rows, self._view.kind_of)
            if vectors is not None and len(vectors):
                self._check_dim(vectors.exact.shape[1])
            writer.add_late(meta, vectors=vectors, signals=signals, is_signals_done=signals_done)

    def fold(self) -> int:
        """Rewrite finished young segments, ordered by shard and joined; give how many segments were made.

        Other threads append and look meanwhile. Raises DamageError, once all others are folded, for a
        segment whose files are not as written: it stays as it is.
        """
        with self._mutex:
            writer = self._writing()
        return Compactor(writer).fold()

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
        """Give how far a source has been taken, None for an unknown one; for a reader, at its last look."""
        with self._mutex:
            positions = self._view.memtable.positions
            return positions.get(fingerprint) or self._view.catalog.ledger.entries.get(fingerprint)

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
            files = sorted(self._view.catalog.rejects.entries.items())
            waiting = list(self._view.memtable.rejects())
        try:
            for name, file in files:
                yield from read_rejects(self._files, self._layout.rejects / name, file.file)
            yield from waiting
        finally:
            hold.release()

    def close(self) -> None:
        """Let go of the store; twice is once. Nothing that was acknowledged waits for this."""
        with self._mutex:
            writer = None if self._is_closed else self._writer
            self._is_closed = True
        if writer is not None:
            writer.close()

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        if entry.n_rows or positions or rejects:
            writer.append(entry)
        return entry.first_seq

    def _make_room(self) -> Writer:
        """Flush a log that is full: before the append and not after, so that an append fails as a whole."""
        writer = self._writing()
        if writer.log_bytes >= self._flush_bytes:
            writer.flush()
        return writer

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

    def _check_dim(self, dim: int) -> None:
        known = self._view.dim
        if known not in (None, dim):
            raise ModelError(f"{self.path}: its vectors have {known} dimensions, these {dim}; use its model")


def _check_decoded(columns: ColumnBatch, n_rows: int, first_seq: int) -> None:
    if columns.n_rows != n_rows:
        raise ConfigError(f"columns have {columns.n_rows} rows, the records {n_rows}; decode these records")
    found = columns.columns["seq"][0].as_py() if n_rows else first_seq
    if found != first_seq:
        raise ConfigError(f"columns begin at seq {found}, expected {first_seq}; decode from `next_seq` on")
