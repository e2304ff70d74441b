"""Open files that do as another does, for tests to change one thing."""

from __future__ import annotations

from treering.storage.files import Data, Handle


class Through:
    """An open file that passes everything on."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def write(self, data: Data) -> None:
        self.handle.write(data)

    def truncate(self, n_bytes: int) -> None:
        self.handle.truncate(n_bytes)

    def sync(self) -> None:
        self.handle.sync()

    def close(self) -> None:
        self.handle.close()
