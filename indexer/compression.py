"""Compressed streams as plain bytes: gzip, bzip2, xz and zstd, told by their first bytes."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from treering.storage.errors import InputError

Warn = Callable[[str], None]

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_OTHER_FILES = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow IPC",
    b"PK\x03\x04": "zip",
    b"\x7fELF": "program",
    b"\x89PNG": "PNG picture",
    b"SQLite format 3": "SQLite",
    b"%PDF": "PDF",
}


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def codec_of(head: bytes) -> str | None:
    """Give the compression that a file beginning with `head` has, None for none."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def other_kind(head: bytes) -> str | None:
    """Give what a file beginning with `head` is, if it is surely no log."""
    kind = next((name for magic, name in _OTHER_FILES.items() if head.startswith(magic)), None)
    if (
        kind is None
        and head
        and head.count(0) * 3 > len(head)
        and not head.startswith((b"\xff\xfe", b"\xfe\xff"))
    ):
        return "binary file"
    return kind


def decompressed(file: BinaryIO, codec: str, chunk_bytes: int, warn: Warn) -> Iterator[bytes]:
    """Give the bytes of a compressed file, all its members; damage and garbage end it with one warning.

    Zero padding after a member is no garbage.
    """
    if codec == "zstd":
        yield from _zstd(file, chunk_bytes, warn)
        return
    make, magic, errors = _CODECS[codec]
    raw = file.read(chunk_bytes)
    member = make()
    n_members, is_empty = 0, True
    while raw:
        try:
            plain = member.decompress(raw)
        except errors as exc:
            warn(_damage(codec, n_members, is_empty, exc))
            return
        if plain:
            is_empty = False
            yield plain
        if not member.eof:
            raw = file.read(chunk_bytes)
            continue
        n_members += 1
        raw, is_empty = _next_member(file, member.unused_data, chunk_bytes), True
        if raw and not raw.startswith(magic):
            warn(f"bytes after the last {codec} member ignored")
            return
        member = make()
    if not (n_members and is_empty):
        warn(f"{codec} data ends early: what came before is kept")


def _next_member(file: BinaryIO, rest: bytes, chunk_bytes: int) -> bytes:
    rest = rest.lstrip(b"\0")
    while len(rest) < 6:  # as long as the longest magic
        more = file.read(chunk_bytes)
        if not more:
            return rest
        rest = (rest + more).lstrip(b"\0")
    return rest


def _damage(codec: str, n_members: int, is_empty: bool, exc: Exception) -> str:
    if n_members and is_empty:
        return f"bytes after the last {codec} member ignored"
    return f"damaged {codec} data ({exc}): what came before is kept"


def _zstd(file: BinaryIO, chunk_bytes: int, warn: Warn) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
    while True:
        try:
            plain = stream.read(chunk_bytes)
        except (OSError, pa.ArrowException) as exc:
            warn(f"damaged zstd data ({exc}): what came before is kept")
            return
        if not plain:
            return
        yield plain


def _gzip_member() -> _Decompressor:
    return zlib.decompressobj(wbits=31)


_CODECS: dict[str, tuple[Callable[[], Any], bytes, type[Exception] | tuple[type[Exception], ...]]] = {
    "gzip": (_gzip_member, b"\x1f\x8b", zlib.error),
    "bzip2": (bz2.BZ2Decompressor, b"BZh", OSError),
    "xz": (lzma.LZMADecompressor, b"\xfd7zXZ\x00", lzma.LZMAError),
}


def refuse_other_kinds(head: bytes, name: str) -> None:
    """Raise InputError for a file that is surely no log."""
    kind = other_kind(head)
    if kind is not None:
        raise InputError(f"{name}: a {kind}, not a log; tables can be loaded with append(table)")
