"""How much memory the columns of a compressed file take, without unpacking them."""

from __future__ import annotations

import struct

import pyarrow as pa

from .ipc_layout import batch_ranges, read_blocks

_LENGTH = struct.Struct("<q")
"""What a compressed buffer begins with: its length once unpacked, -1 where it is not packed. Source: Arrow IPC."""


def unpacked_bytes(buffer: pa.Buffer) -> int:
    """Give the bytes of all buffers of a compressed Arrow file once they are read; dictionaries are left out."""
    ranges = [one for block in read_blocks(buffer).batches for one in batch_ranges(buffer, block)]
    return sum(_unpacked(buffer, start, end - start) for start, end in ranges)


def _unpacked(buffer: pa.Buffer, start: int, n_bytes: int) -> int:
    if n_bytes < _LENGTH.size:
        return 0
    length = int(_LENGTH.unpack_from(memoryview(buffer), start)[0])
    return length if length >= 0 else n_bytes - _LENGTH.size
