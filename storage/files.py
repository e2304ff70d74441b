"""The one seam between storage and the disk: every file operation goes through a `Files`.

Order that makes a new file durable: `create`, `write`, `sync`, `close`, then `fsync_dir` of its directory. A
file whose directory was not synced may be gone after a power loss, however often it was synced itself.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import google_crc32c
import pyarrow as pa

from .advice import explained, named
from .blame import OddFileError
from .errors import StoreError
from .flock import Flock
from .stored_file import StoredFile

Data = Any
"""Anything with a contiguous buffer: bytes, memoryview, numpy array, pyarrow.Buffer."""


class SyncError(OSError):
    """An fsync failed: what the disk holds is unknown, and asking again would lie.

    Source: Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020 (pages are marked
    clean after a failed fsync).
    """


@contextmanager
def as_store_error(path: Path, what: str) -> Iterator[None]:
    """Raise an OSError of the body as StoreError that says what failed on the store at `path`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path}: cannot {what}: {explained(error)}") from error


class Handle(Protocol):
    """An open file that grows at its end."""

    def write(self, data: Data) -> None:
        """Append all of `data`; after an OSError any prefix of it may stand in the file."""
        ...

    def truncate(self, n_bytes: int) -> None:
        """Cut the file to its first `n_bytes`."""
        ...

    def sync(self) -> None:
        """Make the contents durable. Raises SyncError, after which the handle must only be closed."""
        ...

    def close(self) -> None:
        """Give the descriptor back; twice is once. Does not sync."""
        ...


class Lock(Protocol):
    """A held flock."""

    def release(self) -> None:
        """Let go; twice is once."""
        ...

    def is_at(self, path: Path) -> bool:
        """Whether the locked file is what lies at `path` now. Raises OSError where that cannot be told."""
        ...


class Files(Protocol):
    """Operations on files and directories; OSError and its subclasses as the system gives them.

    What asks for a file raises IsADirectoryError for a directory and OddFileError for what is no file either, and
    waits for nobody.
    """

    def create(self, path: Path) -> Handle:
        """Open a new file for writing, mode 0600. Raises FileExistsError."""
        ...

    def append(self, path: Path) -> Handle:
        """Open an existing file for writing at its end."""
        ...

    def mkdir(self, path: Path) -> None:
        """Make a directory, mode 0700, unless it is there; its parent must be."""
        ...

    def fsync_dir(self, path: Path) -> None:
        """Make the entries of a directory durable. Raises SyncError."""
        ...

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, unless that name is taken: raises FileExistsError (put-if-absent).

        Of a symbolic link it is the link that gets one.
        """
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Move a file over `target`."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a name of a file."""
        ...

    def rmtree(self, path: Path) -> None:
        """Remove a directory with all that is in it."""
        ...

    def listdir(self, path: Path) -> list[str]:
        """Give the names in a directory, sorted."""
        ...

    def size(self, path: Path) -> int:
        """Give the size of a file in bytes. Raises FileNotFoundError."""
        ...

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        """Give the contents of a file from byte `start` on: at most `n_bytes`, or all (-1)."""
        ...

    def map(self, path: Path) -> pa.Buffer:
        """Give the contents of an immutable file as a memory map, which stays good after an unlink."""
        ...

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        """Take a flock on an existing file, or None where another holder forbids it; never waits.

        Raises FileNotFoundError, also when the file was unlinked while it was being locked, and OSError with a
        number of `advice.NO_LOCKS` where the file system has no locks. The lock belongs to this call: a second
        one in the same process competes with it.
        """
        ...


def crc32c(data: Data, seed: int = 0) -> int:
    """Give the CRC-32C (Castagnoli) of `data`, going on from the checksum `seed` of what stood before it."""
    value: int = google_crc32c.extend(seed, pa.py_buffer(data))
    return value


def names_below(files: Files, directory: Path) -> list[str]:
    """Name what is in a directory, sorted; nothing where there is none."""
    try:
        return files.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def write_file(files: Files, path: Path, chunks: Iterable[Data]) -> StoredFile:
    """Write a new file, sync it, and give its size and checksum; the caller syncs the directory."""
    handle = files.create(path)
    n_bytes, checksum = 0, 0
    try:
        for chunk in chunks:
            handle.write(chunk)
            n_bytes, checksum = n_bytes + pa.py_buffer(chunk).size, crc32c(chunk, checksum)
        handle.sync()
    finally:
        handle.close()
    return StoredFile(path.name, n_bytes, checksum)


class OsHandle:
    """An open file descriptor."""

    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def write(self, data: Data) -> None:
        """Append all of `data`."""
        rest = memoryview(pa.py_buffer(data))
        with named(self._path):
            while len(rest):
                rest = rest[os.write(self._fd, rest) :]

    def truncate(self, n_bytes: int) -> None:
        """Cut the file to its first `n_bytes`."""
        with named(self._path):
            os.ftruncate(self._fd, n_bytes)

    def sync(self) -> None:
        """Make the contents durable."""
        _fsync(self._fd, self._path)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class OsFiles:
    """The file system of the machine (POSIX)."""

    def create(self, path: Path) -> Handle:
        """Open a new file for writing."""
        return OsHandle(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def append(self, path: Path) -> Handle:
        """Open an existing file for writing at its end."""
        _file_stat(path)
        return OsHandle(path, os.O_WRONLY | os.O_APPEND)

    def mkdir(self, path: Path) -> None:
        """Make a directory unless it is there."""
        path.mkdir(mode=0o700, exist_ok=True)

    def fsync_dir(self, path: Path) -> None:
        """Make the entries of a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _fsync(fd, path)
        finally:
            os.close(fd)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file over `target`."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a name of a file."""
        path.unlink()

    def rmtree(self, path: Path) -> None:
        """Remove a directory with all that is in it."""
        shutil.rmtree(path)

    def listdir(self, path: Path) -> list[str]:
        """Give the names in a directory, sorted."""
        return sorted(entry.name for entry in path.iterdir())

    def size(self, path: Path) -> int:
        """Give the size of a file in bytes."""
        return _file_stat(path).st_size

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        """Give the contents of a file from byte `start` on."""
        _file_stat(path)
        with named(path), path.open("rb") as file:
            file.seek(start)
            return file.read(n_bytes)

    def map(self, path: Path) -> pa.Buffer:
        """Give the contents of an immutable file as a memory map."""
        _file_stat(path)
        with named(path), pa.memory_map(str(path)) as file:
            return file.read_buffer()

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        """Take a flock on an existing file."""
        _file_stat(path)
        try:
            with named(path):
                return Flock(path, is_exclusive=exclusive)
        except BlockingIOError:
            return None


OS_FILES = OsFiles()
"""The real file system; it has no state."""


def _file_stat(path: Path) -> os.stat_result:
    """Give what the system says of a regular file; asked before it is opened, since a pipe would wait for a writer."""
    found = path.stat()
    if stat.S_ISREG(found.st_mode):
        return found
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OddFileError(errno.EINVAL, f"is {_odd_kind(found.st_mode)} and no file", str(path))


def _odd_kind(mode: int) -> str:
    kinds = {stat.S_ISFIFO: "a named pipe", stat.S_ISSOCK: "a socket"}
    return next((name for is_it, name in kinds.items() if is_it(mode)), "a device")


def _fsync(fd: int, path: Path) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise SyncError(error.errno, f"fsync failed: {error.strerror}", str(path)) from error
