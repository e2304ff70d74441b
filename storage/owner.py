"""The process that opened a store: its children have a copy of all that is in memory, and no right to write."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

from .errors import StoreError


class Owner:
    """The process that made it, which opened what lies at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pid = os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process is another one: a child that was forked."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise StoreError in another process."""
        if self.is_elsewhere:
            raise StoreError(
                f"{self._path}: opened in process {self._pid}, and this is process {os.getpid()}; open it again here"
            )


class OwnMutex:
    """A reentrant lock for the threads of its owner.

    Raises StoreError in another process: there, who held it when the process was forked does not exist.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._lock = threading.RLock()

    def __enter__(self) -> bool:
        self._owner.check()
        return self._lock.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, trace)
