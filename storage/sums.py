"""Checksums of the blocks of a file: made as it is written, and looked at before a block is first read."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .damage import Origin
from .files import crc32c
from .stored_file import StoredFile

BLOCK_BYTES = 1 << 14
"""Bytes with one checksum: what a look at one row reads at least. Smaller ones double the checksums, larger ones
make a point read check more than it reads."""

Sums = npt.NDArray[np.uint32]
Integers = npt.NDArray[np.integer[Any]]

_SUM = np.dtype("<u4")


class Summer:
    """Sums the blocks of a file as its bytes pass."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._open = 0
        self._filled = 0

    def add(self, chunk: pa.Buffer) -> None:
        """Take the next bytes of the file."""
        start = 0
        while start < chunk.size:
            n_bytes = min(BLOCK_BYTES - self._filled, chunk.size - start)
            self._open = crc32c(chunk.slice(start, n_bytes), self._open)
            self._filled += n_bytes
            start += n_bytes
            if self._filled == BLOCK_BYTES:
                self._close()

    def finish(self) -> Sums:
        """Give the checksum of each block, the last one perhaps short."""
        if self._filled:
            self._close()
        return np.array(self._sums, np.uint32)

    def _close(self) -> None:
        self._sums.append(self._open)
        self._open = self._filled = 0


def block_sums(buffer: pa.Buffer) -> Sums:
    """Give the checksum of each block of a whole file."""
    summer = Summer()
    summer.add(buffer)
    return summer.finish()


def pack_sums(sums: Sums) -> str:
    """Give checksums as text: base64 of little-endian uint32."""
    return base64.b64encode(sums.astype(_SUM).tobytes()).decode("ascii")


def unpack_sums(text: str) -> Sums:
    """Give the checksums of such text. Raises ValueError."""
    return np.frombuffer(base64.b64decode(text, validate=True), _SUM).astype(np.uint32)


def n_blocks(n_bytes: int) -> int:
    """Give how many blocks a file has."""
    return -(-n_bytes // BLOCK_BYTES)


class Checks:
    """Which bytes of a mapped file are known to be those that were written; each block is read once for this.

    sums: of its blocks; None: they are not known, and the first look reads the file whole. is_known: somebody
    checked it whole already.
    """

    def __init__(
        self,
        origin: Origin,
        buffer: pa.Buffer,
        stored: StoredFile,
        sums: Sums | None,
        *,
        is_known: bool = False,
    ) -> None:
        self._origin = origin
        self.buffer = buffer
        self._stored = stored
        self._sums = sums
        self._known = np.zeros(0 if sums is None else len(sums), np.bool_)
        self._is_known = is_known

    def check(self, start: int, end: int) -> None:
        """Look at the bytes `[start, end)`. Raises DamageError, which names the first bad block."""
        if self._is_known or start >= end:
            return
        if self._sums is None:
            self.check_whole()
            return
        first, behind = start // BLOCK_BYTES, n_blocks(end)
        self._check_blocks(first + np.flatnonzero(~self._known[first:behind]))

    def check_rows(self, start: int, width: int, rows: Integers) -> None:
        """Look at some rows of a column whose rows have `width` bytes and begin at byte `start`."""
        if self._is_known or not len(rows) or not width:
            return
        if self._sums is None:
            self.check_whole()
            return
        first = start + rows.astype(np.int64) * width
        offsets = (*range(0, width, BLOCK_BYTES), width - 1)
        numbers = np.concatenate([(first + offset) // BLOCK_BYTES for offset in offsets])
        self._check_blocks(np.unique(numbers[~self._known[numbers]]))

    def check_whole(self) -> None:
        """Look at all bytes, against the checksum of the file. Raises DamageError."""
        found, expected = crc32c(self.buffer), self._stored.crc32c
        if found != expected:
            raise self._origin.damage(f"its crc32c is {found:08x}, the manifest says {expected:08x}")
        self._is_known = True

    def check_sums(self) -> None:
        """Look at all blocks that have a checksum, also those that are known already. Raises DamageError."""
        self._check_blocks(np.arange(len(self._known)))

    def _check_blocks(self, numbers: npt.NDArray[np.integer[Any]]) -> None:
        sums = self._sums if self._sums is not None else np.empty(0, np.uint32)
        for number in numbers.tolist():
            start = number * BLOCK_BYTES
            end = min(start + BLOCK_BYTES, self.buffer.size)
            found, expected = crc32c(self.buffer.slice(start, end - start)), int(sums[number])
            if found != expected:
                raise self._origin.damage(
                    f"bytes [{start}, {end}) have crc32c {found:08x}, segment.json says {expected:08x}"
                )
            self._known[number] = True
