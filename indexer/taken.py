"""The bytes of one source on their way in: a running digest, and one place to which reading can go back."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import Any
from weakref import finalize

HEAD_BYTES = 4096
"""Bytes that a source is recognised by."""

KEPT_IN_MEMORY_BYTES = 64 << 20
"""What is kept to be read again lies in memory up to here, beyond in a temporary file."""

_BLOCK_BYTES = 1 << 20


@dataclass(slots=True)
class Taken:
    """The bytes of one stream. Each is hashed once, when it is known what record it belongs to.

    chunks: the stream. restart: gives it again from its beginning, None where that cannot be. offset: bytes
    read so far. line_start: where the line begins that the last of them belongs to.
    """

    chunks: Iterator[bytes]
    restart: Callable[[], Iterator[bytes]] | None = None
    offset: int = 0
    line_start: int = 0
    is_at_end: bool = False
    _hash: Any = field(default_factory=blake2b)
    _hashed: int = 0
    _waiting: deque[bytes] = field(default_factory=deque)
    _head: bytes = b""
    _kept: _Kept | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Give the chunks that follow."""
        return iter(self.read, b"")

    def read(self) -> bytes:
        """Give the next chunk, nothing at the end."""
        chunk = next((chunk for chunk in self.chunks if chunk), b"")
        if not chunk:
            self.is_at_end = True
            return b""
        self._waiting.append(chunk)
        if self._kept is not None:
            self._kept.add(chunk)
        if self.offset < HEAD_BYTES:
            self._head = self._head[: self.offset] + chunk[: HEAD_BYTES - self.offset]
        line_feed = chunk.rfind(b"\n")
        if line_feed >= 0:
            self.line_start = self.offset + line_feed + 1
        self.offset += len(chunk)
        return chunk

    def reaches(self, offset: int) -> bool:
        """Read up to `offset` or the end; whether there are that many bytes."""
        while self.offset < offset and self.read():
            self.digest(min(self.offset, offset))
        return self.offset >= offset

    def skip(self, offset: int) -> bytes:
        """Read up to `offset` without giving it; gives what was read beyond (none at the end)."""
        chunk = b""
        while self.offset < offset and (chunk := self.read()):
            self.digest(min(self.offset, offset))
        beyond = self.offset - offset
        return chunk[len(chunk) - beyond :] if beyond > 0 else b""

    def digest(self, offset: int) -> str:
        """Give the digest of the bytes `[0, offset)`, hex; offsets never go back."""
        while self._hashed < offset and self._waiting:
            chunk = self._waiting.popleft()
            need = offset - self._hashed
            self._hash.update(chunk[:need])
            self._hashed += min(need, len(chunk))
            if need < len(chunk):
                self._waiting.appendleft(chunk[need:])
        return str(self._hash.hexdigest())

    def head(self, offset: int = HEAD_BYTES) -> bytes:
        """Give the first of the bytes `[0, offset)` that were read, at most 4096."""
        return self._head[: min(offset, HEAD_BYTES)]

    def keep(self) -> None:
        """Keep the bytes behind the last digest, as they come, to be read again; those kept before are let go."""
        if self._kept is not None:
            self._kept.close()
        self._kept = _Kept(self._hashed, self._hash.copy())
        for chunk in self._waiting:
            self._kept.add(chunk)

    @property
    def kept_from(self) -> int:
        """Where the bytes that are kept begin."""
        return self.offset if self._kept is None else self._kept.offset

    def kept(self, offset: int) -> Iterator[bytes]:
        """Give the kept bytes from `offset` on, up to what was read."""
        if self._kept is not None:
            yield from self._kept.blocks(offset - self._kept.offset)

    def go_back(self, offset: int) -> None:
        """Go on before `offset`: where the kept bytes begin, or at the beginning; nothing is kept any more."""
        kept, self._kept = self._kept, None
        if kept is not None and kept.offset <= offset:
            self.chunks = chain(kept.taken(), self.chunks)
            self._hash, at = kept.hash, kept.offset
        else:
            if kept is not None:
                kept.close()
            assert self.restart is not None
            self.chunks = self.restart()
            self._hash, at = blake2b(), 0
        self.offset = self._hashed = self.line_start = at
        self.is_at_end = False
        self._waiting.clear()


class _Kept:
    """Bytes from `offset` on, and the state of the digest there."""

    def __init__(self, offset: int, hash_: Any) -> None:
        self.offset = offset
        self.hash = hash_
        self._file = SpooledTemporaryFile(max_size=KEPT_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by `close`
        finalize(self, self._file.close)  # a load that stops half-way lets go of its stream as it is

    def add(self, chunk: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        self._file.write(chunk)

    def blocks(self, start: int) -> Iterator[bytes]:
        at = start
        while True:
            self._file.seek(at)
            block = self._file.read(_BLOCK_BYTES)
            if not block:
                return
            at += len(block)
            yield block

    def taken(self) -> Iterator[bytes]:
        """Give all, and let go of it."""
        yield from self.blocks(0)
        self.close()

    def close(self) -> None:
        self._file.close()
