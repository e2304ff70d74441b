"""The files of a writer: nothing is changed by path unless what lies there is still what it has the right to."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from .claim import Claim
from .files import Files, Handle, Lock
from .remote import is_remote


def claimed(files: Files, claim: Claim) -> Files:
    """Give files that look for the claim before each change. In a bucket the fence does that (`fence`)."""
    return files if is_remote(files) else ClaimedFiles(files, claim)


class ClaimedFiles:
    """Files that raise StoreError from every change once the claim is lost. Reading asks for nothing."""

    def __init__(self, files: Files, claim: Claim) -> None:
        self._files = files
        self._claim = claim

    def create(self, path: Path) -> Handle:
        """Open a new file for writing."""
        self._claim.check()
        return self._files.create(path)

    def append(self, path: Path) -> Handle:
        """Open an existing file for writing at its end."""
        self._claim.check()
        return self._files.append(path)

    def mkdir(self, path: Path) -> None:
        """Make a directory unless it is there."""
        self._claim.check()
        self._files.mkdir(path)

    def fsync_dir(self, path: Path) -> None:
        """Make the entries of a directory durable: those of another directory would say nothing of ours."""
        self._claim.check()
        self._files.fsync_dir(path)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        self._claim.check()
        self._files.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file over `target`."""
        self._claim.check()
        self._files.rename(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a name of a file."""
        self._claim.check()
        self._files.unlink(path)

    def rmtree(self, path: Path) -> None:
        """Remove a directory with all that is in it."""
        self._claim.check()
        self._files.rmtree(path)

    def listdir(self, path: Path) -> list[str]:
        """Give the names in a directory, sorted."""
        return self._files.listdir(path)

    def size(self, path: Path) -> int:
        """Give the size of a file in bytes."""
        return self._files.size(path)

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        """Give the contents of a file from byte `start` on."""
        return self._files.read(path, start, n_bytes)

    def map(self, path: Path) -> pa.Buffer:
        """Give the contents of an immutable file as a memory map."""
        return self._files.map(path)

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        """Take a flock; an exclusive one is taken to change something."""
        if exclusive:
            self._claim.check()
        return self._files.lock(path, exclusive=exclusive)
