"""A store that is open: what it holds now, for whoever looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .acknowledged import Acknowledged, acknowledged
from .address import is_address
from .amplification import Amplification
from .audit import AuditRecord
from .backup import BackupReport, StateToCopy, back_up, restore
from .backup_target import writing_to
from .batch import Keys, ModelInfo, Vectors
from .copying import CopyProgress
from .cut import State
from .errors import ConfigError, DamageError, StoreError
from .files import OS_FILES, Files, Lock, as_store_error
from .layout import Layout
from .ledger import Position
from .locking import AT_ONCE, NoLock, Patience
from .newest import newest_version
from .owner import Owner, OwnMutex
from .rejects import Reject, read_rejects
from .remote import is_remote, sizes_below
from .shadow import ShadowState, read_shadow
from .snapshot import Snapshot
from .view import View
from .writer import Writer

if TYPE_CHECKING:
    from .findings import CheckProgress, CheckReport


class OpenStore:
    """What can be asked of a store, whether this process writes to it or not.

    Calls of several threads are done one after the other. Whoever only reads sees the newest state at each call.
    In a forked process calls raise StoreError, but for those of a reader of a directory; what talks to a bucket
    does not outlive a fork.
    """

    def __init__(self, files: Files, layout: Layout, view: View, writer: Writer | None) -> None:
        self._files = files
        self._layout = layout
        self._view = view
        self._writer = writer
        reader = Owner(layout.path) if is_remote(files) else None
        self._owner = reader if writer is None else writer.claim.owner
        self._mutex = self._new_mutex() if writer is None else writer.mutex
        self._is_closed = False

    @property
    def path(self) -> Path:
        """Directory of the store."""
        return self._layout.path

    def sizes(self) -> Mapping[Path, int]:
        """Give the bytes of every file of the store."""
        with as_store_error(self.path, "measure it"):
            return sizes_below(self._files, self.path)

    @property
    def next_seq(self) -> int:
        """Sequence number of the next event; those of a store begin at 0."""
        self._check_owner()
        return self._view.next_seq

    @property
    def model(self) -> ModelInfo | None:
        """What the vectors are made with, None until `set_model`."""
        self._check_owner()
        return self._view.catalog.model

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
        with self._holding("look up vectors") as view:
            return view.lookup(keys)

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
        with self._holding("read it") as view:
            return acknowledged(view, first_seq, end_seq)

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
        with self._holding("read it") as view:
            return view.catalog.audit_records, view.catalog.root.audit_head

    def move_state(self) -> ShadowState | None:
        """Give how far a move to another model is, None where none was begun."""
        with self._mutex, as_store_error(self.path, "read its shadow"):
            found = read_shadow(self._files, self._layout)
            head = self._view.catalog.root.audit_head
            return found if found is not None and found.audit_head == head else None

    def backup(
        self,
        directory: str | Path,
        *,
        verify: bool = False,
        patience: Patience = AT_ONCE,
        progress: CopyProgress | None = None,
    ) -> BackupReport:
        """Bring a backup in `directory` to the store as it is now (see `back_up`).

        Other threads and processes write meanwhile; the files of this state stay until it is done. patience: how
        long to wait for another process that writes to `directory`.
        """
        plain, target = self._copy_target(directory)
        with writing_to(target, plain, self._layout, patience, is_restore=False) as files:
            return self._copy(lambda state: back_up(files, state, target, verify=verify, progress=progress))

    def restore(
        self, directory: str | Path, *, patience: Patience = AT_ONCE, progress: CopyProgress | None = None
    ) -> BackupReport:
        """Copy the store as it is now into a new or empty directory, as a store of its own (see `restore`)."""
        plain, target = self._copy_target(directory)
        with writing_to(target, plain, self._layout, patience, is_restore=True) as files:
            return self._copy(lambda state: restore(files, state, target, progress=progress))

    def check(self, *, deep: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """Look at every file of the newest version, and find all that is wrong (see `check_store`)."""
        from .check import check_store

        self._check_open()
        return check_store(self._files, self._layout, deep=deep, progress=progress)

    @contextmanager
    def _holding(self, what: str) -> Iterator[View]:
        """Give the newest state, held until the `with` ends, in which nothing else is done."""
        with self._mutex, as_store_error(self.path, what):
            hold = self._hold()
            try:
                yield self._view
            finally:
                hold.release()

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

    def _copy_target(self, directory: str | Path) -> tuple[Files, Layout]:
        self._check_open()
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

    def _hold(self) -> Lock:
        self._check_open()
        if self._writer is None:
            return self._view.follow()
        return self._view.hold()

    def _new_mutex(self) -> AbstractContextManager[object]:
        return threading.RLock() if self._owner is None else OwnMutex(self._owner)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether this process was forked from the one that opened the store, and may not use it."""
        return self._owner is not None and self._owner.is_elsewhere

    def _check_owner(self) -> None:
        if self._owner is not None:
            self._owner.check()

    def _check_open(self) -> None:
        self._check_owner()
        if self._is_closed:
            raise StoreError(f"{self.path}: is closed; open it again")
