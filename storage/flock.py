"""A lock on a file (flock). It belongs to an open file, which a child that is forked shares with its parent."""

from __future__ import annotations

import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path


class Flock:
    """A held lock. A shared one lasts until every process that has it let go; an exclusive one is its maker's alone.

    Raises BlockingIOError where another holder forbids it, FileNotFoundError also for a file that was replaced
    while it was being locked, and OSError.
    """

    def __init__(self, path: Path, *, is_exclusive: bool) -> None:
        # A network file system gives an exclusive lock only to who may write, a shared one to who may read.
        self._fd = os.open(path, (os.O_RDWR if is_exclusive else os.O_RDONLY) | os.O_CLOEXEC)
        self._inode = _inode(os.fstat(self._fd))
        self._pid = os.getpid()
        self._is_exclusive = is_exclusive
        try:
            fcntl.flock(self._fd, (fcntl.LOCK_EX if is_exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            if not self.is_at(path):
                raise FileNotFoundError(f"{path} was replaced while it was being locked")
        except BaseException:
            self.release()
            raise
        if is_exclusive:
            _EXCLUSIVE.add(self)

    def is_at(self, path: Path) -> bool:
        """Whether the locked file is what lies at `path`."""
        try:
            return _inode(path.stat()) == self._inode
        except (FileNotFoundError, NotADirectoryError):
            return False

    def release(self) -> None:
        """Let go; twice is once."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        if self._is_exclusive and self._pid == os.getpid():
            # Where a child has the file open as well, closing it here would not be the end of the lock.
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _inode(told: os.stat_result) -> tuple[int, int]:
    return told.st_dev, told.st_ino


_EXCLUSIVE: weakref.WeakSet[Flock] = weakref.WeakSet()
"""Exclusive locks of this process. State of the module, because a fork is of the whole process, too."""


def _leave_to_parent() -> None:
    """Close the parent's exclusive locks in a child: it must neither unlock them nor keep them when the parent dies."""
    for lock in list(_EXCLUSIVE):
        lock.release()


os.register_at_fork(after_in_child=_leave_to_parent)
