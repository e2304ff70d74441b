"""What is damaged, put aside before a salvage goes on without it: nothing is destroyed.

Files get a second name below `salvaged/<time>/` of the store, which nothing counts on. The first name goes when the
salvage is committed; after a crash before that, the store is as it was.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from .blame import past_damage
from .blocks import pieces_past
from .files import Files, names_below, write_file
from .findings import CheckReport, Severity
from .layout import Layout


class SetAside:
    """A new directory below `salvaged/`, made when the first file comes into it.

    outermost: what is made for it, as a whole.
    """

    def __init__(self, files: Files, layout: Layout) -> None:
        self._files = files
        self._layout = layout
        self._made: set[Path] = set()
        self._directories: list[Path] = []
        self.path = layout.salvaged / _new_name(names_below(files, layout.salvaged))
        is_first = layout.salvaged.name not in names_below(files, layout.path)
        self.outermost = layout.salvaged if is_first else self.path

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

    def remove_directories(self) -> None:
        """Remove the directories that lay in the place of a file, which is no leftover that anybody removes."""
        segments = self._layout.segments
        places = {*self._layout.directories} - {segments}
        for path in self._directories:
            if path.parent in places or path.parent.parent == segments:
                with suppress(OSError):
                    self._files.rmtree(path)

    def _put(self, source: Path, target: Path) -> None:
        below = self._entries(source)
        if below is None:
            self._make(target.parent)
            self._name_again(source, target)
            return
        self._directories.append(source)
        self._make(target)
        for name in below:
            self._put(source / name, target / name)

    def _name_again(self, source: Path, target: Path) -> None:
        try:
            self._files.link(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # Behind a link to a directory of another file system: there it has to be copied.
            pieces = pieces_past(self._files, source, self._files.size(source))
            write_file(self._files, target, (piece for piece, _ in pieces))

    def _entries(self, path: Path) -> list[str] | None:
        with past_damage():
            return self._files.listdir(path)
        # A file, or a symbolic link to nothing.
        return None

    def _make(self, directory: Path) -> None:
        if directory == self._layout.path or directory in self._made:
            return
        self._make(directory.parent)
        self._files.mkdir(directory)
        self._made.add(directory)


def damaged_paths(report: CheckReport) -> Iterator[str]:
    """Give what is put aside: damaged files, and the whole directories of damaged segments."""
    for finding in report.of(Severity.DAMAGED):
        is_of_segment = finding.segment_id is not None
        yield "/".join(finding.file.split("/")[:2]) if is_of_segment else finding.file


def _new_name(taken: Collection[str]) -> str:
    name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    others = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (name, *others) if one not in taken)
