"""Compaction of an open store: when it is asked for, and beside a writer that appends for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from .compactor import Aside, Compactor, CompactReport

T = TypeVar("T")


class Background:
    """Does what is due in a thread of its own, one fold at a time; the thread ends when nothing is due.

    error: what went wrong in that thread since a round went well, None if nothing did. A damaged segment is
    set aside, and named by it; any other failure is tried again at the next wake. runs: whether `wake` may
    begin a thread at all.
    """

    def __init__(self, compactor: Compactor, *, runs: bool) -> None:
        self._compactor = compactor
        self._runs = runs
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_wanted = False
        self._aside = Aside()
        self.error: Exception | None = None

    def fold(self) -> int:
        """Do what is due in this thread, as `Compactor.fold`; what went wrong before is tried again."""
        return self._here(self._compactor.fold)

    def compact(self) -> CompactReport:
        """Join all that can be joined in this thread, as `Compactor.compact`."""
        return self._here(self._compactor.compact)

    def filling(self) -> AbstractContextManager[None]:
        """Keep unfinished segments as they are, as `Compactor.filling`."""
        return self._compactor.filling()

    def wake(self) -> None:
        """Begin, unless nothing is due; returns at once."""
        if not self._runs or not self._compactor.is_due(_damaged(self._aside)):
            return
        with self._mutex:
            self._is_wanted = True
            if self._thread is None:
                self._begin()

    def _begin(self) -> None:
        thread = threading.Thread(target=self._work, name="treering-compaction", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # No room for one, or the interpreter ends: nobody's append must fail for that.
            self.error = error
        else:
            self._thread = thread

    def join(self) -> None:
        """Wait until the thread has ended: nothing is due, or the store is closed, which it sees at its next step."""
        with self._mutex:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _here(self, work: Callable[[], T]) -> T:
        done = work()
        self._compactor.check(_damaged(self._aside))
        self._aside, self.error = Aside(), None
        return done

    def _work(self) -> None:
        while self._goes_on():
            # What agreed with nothing in reach may agree with what has come.
            self._aside = _damaged(self._aside)
            try:
                while self._compactor.step(self._aside):
                    pass
            except Exception as error:
                # A thread has nobody to raise it to; to be closed is no failure.
                self.error = self.error if self._compactor.is_closed else error
            else:
                self.error = next(iter(_damaged(self._aside).values()), None)

    def _goes_on(self) -> bool:
        with self._mutex:
            goes_on, self._is_wanted = self._is_wanted and not self._compactor.is_closed, False
            if not goes_on:
                self._thread = None
            return goes_on


def _damaged(aside: Aside) -> Aside:
    return {name: damage for name, damage in list(aside.items()) if damage}
