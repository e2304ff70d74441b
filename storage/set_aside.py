"""What is damaged, put aside before a salvage goes on without it: nothing is destroyed.

Files get a second name below `salvaged/<time>/` of the store, which nothing counts on. The first name goes when the
salvage is committed; after a crash before that, the store is as it was.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from .check_leftovers import names_below
from .files import Files
from .layout import Layout


class SetAside:
    """A new directory below `salvaged/`, made when the first file comes into it."""

    def __init__(self, files: Files, layout: Layout) -> None:
        self._files = files
        self._layout = layout
        self._made: set[Path] = set()
        self.path = layout.salvaged / _new_name(names_below(files, layout.salvaged))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was put aside."""
        return not self._made

    @property
    def name(self) -> str:
        """The directory, below that of the store."""
        return str(self.path.relative_to(self._layout.path))

    def put(self, names: Collection[str]) -> None:
        """Put files and directories aside, given below the store; durable on return. What is not there is left out."""
        for name in sorted(names):
            source = self._layout.path / name
            if source.name in names_below(self._files, source.parent):
                self._put(source, self.path / name)
        for directory in sorted(self._made, key=lambda path: len(path.parts), reverse=True):
            self._files.fsync_dir(directory)
        if self._made:
            self._files.fsync_dir(self._layout.path)

    def _put(self, source: Path, target: Path) -> None:
        below = self._entries(source)
        if below is None:
            self._make(target.parent)
            self._files.link(source, target)
            return
        self._make(target)
        for name in below:
            self._put(source / name, target / name)

    def _entries(self, path: Path) -> list[str] | None:
        try:
            return self._files.listdir(path)
        except NotADirectoryError:
            return None

    def _make(self, directory: Path) -> None:
        if directory == self._layout.path or directory in self._made:
            return
        self._make(directory.parent)
        self._files.mkdir(directory)
        self._made.add(directory)


def _new_name(taken: Collection[str]) -> str:
    name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    others = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (name, *others) if one not in taken)
