"""A directory that is thrown away with whoever holds it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref


class Scratch:
    """A new directory `name`, which is there until `remove`, or until nobody holds this any more."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="treering-")
        self._finalizer = weakref.finalize(self, _remove, self.name, os.getpid())

    def remove(self) -> None:
        """Remove it with all that is in it; twice is once."""
        self._finalizer()


def _remove(name: str, pid: int) -> None:
    # A child that is forked holds a copy of this, and its parent may still read the directory.
    if os.getpid() == pid:
        shutil.rmtree(name)
