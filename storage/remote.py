"""What files that lie elsewhere can do, and where that differs from a disk.

There is no lock that keeps a second writer away. What a lock does on a disk is done by names that are taken only
once: of manifests, and of the parts that a growing file consists of (`docs/objects.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeGuard

import pyarrow as pa

from .errors import DamageError
from .files import Files
from .stored_file import StoredFile

PART_COST_BYTES = 16 << 10
"""What reading one part more costs, in bytes of the log: it bounds the parts that an opening has to ask for."""


class GoneError(DamageError):
    """A file is not there any more: its version expired while it was read, or else the store is damaged.

    Who looks again at the newest version finds out which.
    """


class Remote(Files, Protocol):
    """Files elsewhere: besides, what costs fewer requests, and what takes a store over from another writer."""

    is_remote: bool
    """Yes."""

    def fetch(self, path: Path, stored: StoredFile) -> pa.Buffer:
        """Give an immutable file, taken once and checked by its size and checksum, then kept on the local disk.

        Raises FileNotFoundError, and DamageError where it is not as stored.
        """
        ...

    def prefetch(self, directory: Path, stored: Iterable[StoredFile]) -> None:
        """Take files of a directory side by side, so that a `fetch` of each finds it. Leaves out what fails."""
        ...

    def seal(self, path: Path) -> None:
        """End a growing file for ever: nobody adds to it from now on, and all that was added can be read."""
        ...

    def n_parts(self, path: Path) -> int:
        """Give of how many parts a growing file consists that was read or written here; asks nobody."""
        ...

    def sizes(self, path: Path) -> Mapping[Path, int]:
        """Give the bytes of every file below a directory."""
        ...

    def plain_pieces(self, path: Path, n_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Give a file as it is, piece by piece, each with how many of its bytes are missing and zeros.

        Raises FileNotFoundError where nothing is left of it.
        """
        ...


def is_remote(files: Files) -> TypeGuard[Remote]:
    """Whether these files lie elsewhere. By a mark, because asking for every method takes as long as a read."""
    return bool(getattr(files, "is_remote", False))


def log_cost(files: Files, path: Path) -> int:
    """Give what it costs to read a file of the log beyond its bytes, in bytes: nothing on a disk."""
    return files.n_parts(path) * PART_COST_BYTES if is_remote(files) else 0


def sizes_below(files: Files, path: Path) -> Mapping[Path, int]:
    """Give the bytes of every file below a directory."""
    if is_remote(files):
        return files.sizes(path)
    return {file: file.stat().st_size for file in path.rglob("*") if file.is_file()}
