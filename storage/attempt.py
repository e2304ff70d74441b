"""What a long change has written before its commit, taken back where it fails: then the store is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .catalog import Change, Committer
from .files import Files


@dataclass(slots=True)
class Attempt:
    """New files and directories of one change. written: their paths, told before they are made."""

    files: Files
    written: list[Path] = field(default_factory=list)
    committer: Committer | None = None

    @contextmanager
    def going(self) -> Iterator[None]:
        """Remove what was written where the body fails, unless a commit may have named it already.

        What cannot be removed is a leftover, as after a power loss.
        """
        try:
            yield
        except BaseException:
            if self.committer is None or not self.committer.is_broken:
                self._take_back()
            raise

    def commit(self, committer: Committer, change: Change) -> None:
        """Commit; from then on nothing is taken back."""
        self.committer = committer
        committer.commit(change)
        self.written.clear()

    def _take_back(self) -> None:
        lists = [] if self.committer is None else self.committer.written
        for path in reversed([*self.written, *lists]):
            with suppress(OSError):
                self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            self.files.listdir(path)
        except NotADirectoryError:
            self.files.unlink(path)
        else:
            self.files.rmtree(path)
