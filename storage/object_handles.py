"""Open files in a bucket: what is written waits in memory until it is synced, and then is one object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from .errors import StoreError
from .files import Data


class LogFiles(Protocol):
    """What adds to and cuts files of the log."""

    def add_to_log(self, path: Path, offset: int, data: Data) -> None:
        """Acknowledge what is added to a file at its end, which is at `offset`."""
        ...

    def cut_log(self, path: Path, n_bytes: int) -> None:
        """Cut a file to its first bytes."""
        ...


class ObjectHandle:
    """A new file in memory, put as one object when it is synced."""

    def __init__(self, path: Path, put: Callable[[Path, bytes], None]) -> None:
        self._path = path
        self._put = put
        self._data: bytearray | None = bytearray()

    def write(self, data: Data) -> None:
        """Add to what will be put."""
        self._open().extend(pa.py_buffer(data))

    def truncate(self, n_bytes: int) -> None:
        """Cut what will be put."""
        del self._open()[n_bytes:]

    def sync(self) -> None:
        """Put the file, once. Raises FileExistsError."""
        data, self._data = bytes(self._open()), None
        self._put(self._path, data)

    def close(self) -> None:
        """Forget what was not synced."""
        self._data = None

    def _open(self) -> bytearray:
        if self._data is None:
            raise StoreError(f"{self._path}: is put already; an object is written once")
        return self._data


class LogHandle:
    """The end of a file of the log: what was written since the last sync becomes its next part."""

    def __init__(self, files: LogFiles, path: Path, end: int) -> None:
        self._files = files
        self._path = path
        self._end = end
        self._data = bytearray()

    def write(self, data: Data) -> None:
        """Add to the next part."""
        self._data.extend(pa.py_buffer(data))

    def truncate(self, n_bytes: int) -> None:
        """Cut the file to its first bytes; what was synced of them stays as it is."""
        if n_bytes < self._end:
            self._files.cut_log(self._path, n_bytes)
            self._end = n_bytes
        del self._data[n_bytes - self._end :]

    def sync(self) -> None:
        """Put what was written as one part. Raises StoreError where another writer took over."""
        if not self._data:
            return
        self._files.add_to_log(self._path, self._end, bytes(self._data))
        self._end += len(self._data)
        self._data.clear()

    def close(self) -> None:
        """Forget what was not synced."""
        self._data.clear()
