"""Files and a lock that let a test stop a thread at one place and go on when it likes."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path

from treering.storage.files import OsFiles
from treering.storage.ring import Ring


class SlowFiles(OsFiles):
    """Files that wait, while they make a segment's directory, until somebody says go."""

    def __init__(self) -> None:
        self.began, self.may_go_on = threading.Event(), threading.Event()
        self.is_slow = False

    def mkdir(self, path: Path) -> None:
        if self.is_slow:
            self.began.set()
            assert self.may_go_on.wait(60)
        super().mkdir(path)


class TellingLock:
    """A lock that tells when somebody begins to wait for it."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.lock, self.is_awaited = lock, threading.Event()

    def __enter__(self) -> None:
        self.is_awaited.set()
        self.lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self.lock.__exit__(None, None, None)


def closing(ring: Ring) -> threading.Thread:
    """Close a ring in another thread; gives it once it waits for the fold that runs."""
    assert ring._writer is not None
    lock = TellingLock(ring._writer.changing)
    ring._writer.changing = lock  # type: ignore[assignment]
    thread = threading.Thread(target=ring.close)
    thread.start()
    assert lock.is_awaited.wait(60)
    return thread
