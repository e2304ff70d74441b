"""Files of a segment read past their damage: which blocks are as they were written, and what these hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow_file import ArrowFile
from .blame import past_damage
from .blocks import read_past
from .damage import Origin
from .errors import DamageError
from .files import Files, crc32c
from .ipc_layout import make_footer, walk_messages
from .segment_files import kind_of
from .stored_file import StoredFile
from .sums import BLOCK_BYTES, Checks, Sums, block_sums, n_blocks

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Wreck:
    """A file of which some blocks may be wrong. bad: which, bool (blocks); none where the file is whole.

    The arrays of `file` are right outside of the bad blocks; it raises DamageError for reading in them.
    """

    file: ArrowFile
    bad: Bools

    @property
    def is_whole(self) -> bool:
        """Whether every byte is as it was written."""
        return not self.bad.any()

    def lost_rows(self, name: str, n_rows: int) -> Bools:
        """Give of which rows the value of a column of fixed width cannot be read, in a file of one batch."""
        lost = np.zeros(n_rows, np.bool_)
        if self.is_whole:
            return lost
        try:
            self.file.check_dictionary(name)
            ranges = self.file.buffer_ranges(name)
        except DamageError:
            return ~lost
        kind = self.file.schema.field(name).type
        widths = (1, kind.index_type.bit_width if pa.types.is_dictionary(kind) else kind.bit_width)
        for (start, end), width in zip(ranges, widths, strict=True):
            for first, last in self._bad_bytes(start, end):
                lost[(first - start) * 8 // width : -(-(last - start) * 8 // width)] = True
        return lost

    def _bad_bytes(self, start: int, end: int) -> list[tuple[int, int]]:
        """Give the stretches of a range of bytes that are in bad blocks."""
        first, behind = start // BLOCK_BYTES, n_blocks(end)
        blocks = first + np.flatnonzero(self.bad[first:behind]) if end > start else np.empty(0, np.int64)
        return [
            (max(block * BLOCK_BYTES, start), min((block + 1) * BLOCK_BYTES, end))
            for block in blocks.tolist()
        ]


def open_wreck(files: Files, directory: Path, stored: StoredFile, sums: Sums | None) -> Wreck | None:
    """Open a file as far as it can be read; None where nothing of it can.

    sums: of its blocks. Without them nothing is known of any byte of a file whose checksum is wrong. Raises OSError
    where what is wrong says nothing of the file (`blame`).
    """
    path = directory / stored.name
    data = _read(files, path)
    if data is None:
        return None
    is_whole = (len(data), crc32c(data)) == (stored.n_bytes, stored.crc32c)
    origin, kind = Origin(path), kind_of(stored.name)
    if is_whole:
        checks = Checks(origin, pa.py_buffer(data), stored, None, is_known=True)
        with suppress(DamageError):
            file = ArrowFile(path, checks.buffer, kind, checks=checks, origin=origin)
            return Wreck(file, np.zeros(n_blocks(stored.n_bytes), np.bool_))
        return None
    if sums is None:
        return None
    return _open_partly(path, _fitted(data, stored.n_bytes), stored, sums)


def _open_partly(path: Path, buffer: pa.Buffer, stored: StoredFile, sums: Sums) -> Wreck | None:
    bad = block_sums(buffer) != sums
    origin, kind = Origin(path), kind_of(stored.name)
    for mended, known in ((buffer, sums), _with_footer(origin, buffer, stored, sums, bad)):
        if mended is None:
            continue
        checks = Checks(origin, mended, stored, known)
        with suppress(DamageError):
            file = ArrowFile(path, mended, kind, checks=checks, origin=origin)
            if kind != "text" and not file.n_batches:
                continue
            return Wreck(file, np.append(bad, np.zeros(len(known) - len(bad), np.bool_)))
    return None


def _with_footer(
    origin: Origin, buffer: pa.Buffer, stored: StoredFile, sums: Sums, bad: Bools
) -> tuple[pa.Buffer | None, Sums]:
    """Give the file with a footer made anew behind it, from the messages that can be followed."""
    checks = Checks(origin, buffer, stored, sums)
    try:
        schema, blocks = walk_messages(buffer, checks.check)
    except (DamageError, ValueError, ArithmeticError, LookupError):
        return None, sums
    # Behind the last block, so that what is known of this one stays so.
    padded = bytes(buffer) + bytes(-buffer.size % BLOCK_BYTES)
    mended = pa.py_buffer(padded + make_footer(buffer, schema, blocks))
    known = block_sums(mended)
    known[: len(sums)][bad] = sums[bad]
    return mended, known


def _read(files: Files, path: Path) -> bytes | None:
    """Read a file past what the disk does not give; None where there is no file."""
    with past_damage():
        return read_past(files, path)
    return None


def _fitted(data: bytes, n_bytes: int) -> pa.Buffer:
    return pa.py_buffer(data[:n_bytes] + bytes(max(n_bytes - len(data), 0)))


def blanked(array: pa.Array, lost: Bools) -> Any:
    """Give a column without the values at the lost rows."""
    if not lost.any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=lost))
