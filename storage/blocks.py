"""A file read past what the disk does not give of it: zeros stand there, and no checksum takes them for right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .blame import past_damage
from .files import Files
from .sums import BLOCK_BYTES

PIECE_BYTES = 4 << 20
"""Bytes that are read at once while the disk gives them."""


def read_past(files: Files, path: Path) -> bytes:
    """Read a file; blocks that the disk does not give are zeros.

    Raises OSError where it is no file, and where the failure says nothing of it (`blame`).
    """
    return b"".join(piece for piece, _ in pieces_past(files, path, files.size(path)))


def pieces_past(files: Files, path: Path, n_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Read the first `n_bytes` of a file piece by piece, each with how many bytes of it the disk did not give."""
    for start in range(0, n_bytes, PIECE_BYTES):
        wanted = min(PIECE_BYTES, n_bytes - start)
        piece = _read(files, path, start, wanted)
        if piece is not None:
            yield piece, 0
            continue
        for at in range(start, start + wanted, BLOCK_BYTES):
            size = min(BLOCK_BYTES, start + wanted - at)
            block = _read(files, path, at, size)
            yield (bytes(size), size) if block is None else (block, 0)


def _read(files: Files, path: Path, start: int, n_bytes: int) -> bytes | None:
    with past_damage():
        return files.read(path, start, n_bytes)
    return None
