"""The right to change a store: this process has it, as long as the file it locked is the `LOCK` of the store."""

from __future__ import annotations

from .errors import StoreError
from .files import Lock
from .layout import Layout
from .owner import Owner


class Claim:
    """A writer's right to what lies at its path.

    Whoever moves the directory away, replaces it or removes `LOCK` ends it. It is looked for before every change,
    and again before an event is acknowledged: whoever comes to the store at that path afterwards finds the event. A
    look costs about as much as a `stat`.
    """

    def __init__(self, layout: Layout, lock: Lock) -> None:
        self._layout = layout
        self._lock = lock
        self._lock_path = layout.lock
        self.owner = Owner(layout.path)
        self.is_lost = False

    def check(self) -> None:
        """Raise StoreError where it is lost, for good, and in a process that was forked from the writer's."""
        self.owner.check()
        self.is_lost = self.is_lost or not self._lock.is_at(self._lock_path)
        if self.is_lost:
            raise StoreError(
                f"{self._layout.path}: what lies there is not the store that this writer opened (it was moved or "
                "replaced, or its LOCK removed): nothing more is written, and what was acknowledged is in its log; "
                "close this one, and open the store where it lies now"
            )

    def release(self) -> None:
        """Let go; twice is once."""
        self._lock.release()
