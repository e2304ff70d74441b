"""Inputs as streams of bytes: paths, globs, folders, standard input, open files; compressed or UTF-16 too."""

from __future__ import annotations

import codecs
import glob
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from treering.storage.errors import InputError
from treering.storage.ledger import Position

from .compression import codec_of, decompressed, other_kind, refuse_other_kinds

CHUNK_BYTES = 1 << 20
"""Bytes of one read; a batch of records is acknowledged for each, so it is the grain of group commit too."""

HEAD_BYTES = 4096
"""Bytes that a source is recognised by."""

Input = str | os.PathLike[str] | BinaryIO
Warn = Callable[[str], None]


class Ledger(Protocol):
    """What a store remembers of sources."""

    def position(self, fingerprint: str) -> Position | None:
        """Give how far the source with this fingerprint has been taken."""
        ...


@dataclass(frozen=True, slots=True)
class Origin:
    """One thing to read: a file by path, or an open binary file.

    name: as the user gave it. walked: found in a folder, so a binary file is skipped with a warning and not
    refused.
    """

    name: str
    path: Path | None = None
    file: BinaryIO | None = None
    walked: bool = False

    @property
    def modified_ns(self) -> int:
        """The file's own time, or now for what has none."""
        return self.path.stat().st_mtime_ns if self.path is not None else time.time_ns()

    @property
    def size_bytes(self) -> int | None:
        """Bytes on disk, None where that is not known."""
        return self.path.stat().st_size if self.path is not None else None


def resolve(inputs: Input | Iterable[Input]) -> list[Origin]:
    """Give what `inputs` name, in order: paths, folders (all files below), globs, ``-``, binary files.

    A path that exists is never taken as a glob. Hidden files in folders are left out. Raises InputError for
    what does not exist, cannot be read, or is a text file object.
    """
    if isinstance(inputs, str | os.PathLike):
        return _resolve_one(inputs)
    if hasattr(inputs, "read"):
        return _resolve_one(cast(BinaryIO, inputs))
    return [origin for one in inputs for origin in _resolve_one(one)]


@dataclass(slots=True)
class Taken:
    """The bytes of one stream with a running digest: each byte is hashed once, when its record is made."""

    chunks: Iterator[bytes]
    offset: int = 0
    _hash: Any = field(default_factory=blake2b)
    _hashed: int = 0
    _waiting: list[bytes] = field(default_factory=list)
    _head: bytes = b""

    def __iter__(self) -> Iterator[bytes]:
        """Give the chunks; `offset` counts what has been given."""
        for chunk in self.chunks:
            self._waiting.append(chunk)
            self.offset += len(chunk)
            if len(self._head) < HEAD_BYTES:
                self._head += chunk[: HEAD_BYTES - len(self._head)]
            yield chunk

    def skip(self, offset: int) -> bytes:
        """Read up to `offset` without giving it; gives what was read beyond (none at the end)."""
        for chunk in self:
            if self.offset >= offset:
                beyond = self.offset - offset
                return chunk[len(chunk) - beyond :] if beyond else b""
        return b""

    def digest(self, offset: int) -> str:
        """Give the digest of the bytes `[0, offset)`, hex; offsets never go back."""
        while self._hashed < offset and self._waiting:
            chunk = self._waiting.pop(0)
            need = offset - self._hashed
            self._hash.update(chunk[:need])
            self._hashed += min(need, len(chunk))
            if need < len(chunk):
                self._waiting.insert(0, chunk[need:])
        return str(self._hash.hexdigest())

    def head(self, offset: int) -> bytes:
        """Give the first of the bytes `[0, offset)`, at most 4096."""
        return self._head[: min(offset, HEAD_BYTES)]


def fingerprint(head: bytes) -> str:
    """Give the fingerprint of a source that begins with `head` (at most 4096 bytes)."""
    return blake2b(head, digest_size=16).hexdigest()


@contextmanager
def opened(origin: Origin, warn: Warn) -> Iterator[Iterator[bytes]]:
    """Open `origin` and give its bytes in chunks: decompressed, UTF-16 as UTF-8. Raises InputError."""
    try:
        file = _open(origin)
    except OSError as exc:
        raise InputError(f"{origin.name}: {exc.strerror or exc}") from exc
    try:
        yield _plain(_Rewound(file), origin, warn)
    except OSError as exc:
        raise InputError(f"{origin.name}: {exc.strerror or exc}") from exc
    finally:
        if origin.path is not None:
            file.close()


def known_position(
    ledger: Ledger, chunks: Iterator[bytes], *, keep: bool = False
) -> tuple[Position | None, list[bytes]]:
    """Give how far the source that `chunks` come from has been taken, and (if `keep`) the chunks read for it.

    Positions are looked up by what a source begins with, see `anchors`; several sources may begin alike, then
    the later ones have numbered names. The furthest position whose digest is that of this source's bytes
    counts.
    """
    kept: list[bytes] = []
    stream = Taken(_keeping(chunks, kept) if keep else chunks)
    head = b""
    for chunk in stream:
        head += chunk[: HEAD_BYTES - len(head)]
        if len(head) >= HEAD_BYTES:
            break
    found = None
    for position in sorted(_candidates(ledger, head), key=lambda p: p.offset):
        if stream.offset < position.offset:
            stream.skip(position.offset)
        if stream.offset >= position.offset and stream.digest(position.offset) == position.digest:
            found = position
    return found, kept


def anchors(head: bytes) -> list[bytes]:
    """Give the beginnings by which a source that begins with `head` may be known, longest first.

    A source is known by its first 4096 bytes, or by its whole lines where it was shorter when it was first
    taken (it may have grown since), or by all there was where that was less than a line.
    """
    ends = [i + 1 for i, c in enumerate(head) if c == 10]
    first = head.find(b"\n")
    lengths = {len(head), *ends, *([first] if first > 0 else [])}
    return [head[:length] for length in sorted(lengths, reverse=True) if length]


def free_fingerprint(ledger: Ledger, head: bytes) -> str:
    """Give the name under which a new source is remembered, of which `head` is taken (at most 4096 bytes)."""
    whole_lines = head[: head.rfind(b"\n") + 1]
    wanted = slot = fingerprint(head if len(head) == HEAD_BYTES or not whole_lines else whole_lines)
    n = 0
    while ledger.position(slot) is not None:
        n += 1
        slot = f"{wanted}-{n}"
    return slot


def _candidates(ledger: Ledger, head: bytes) -> Iterator[Position]:
    for anchor in anchors(head):
        slot = wanted = fingerprint(anchor)
        n = 0
        while (position := ledger.position(slot)) is not None:
            yield position
            n += 1
            slot = f"{wanted}-{n}"


def _keeping(chunks: Iterator[bytes], kept: list[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        kept.append(chunk)
        yield chunk


def _resolve_one(given: Input) -> list[Origin]:
    if not isinstance(given, str | os.PathLike):
        return [_file_origin(given)]
    text = os.fspath(given)
    if not text:
        raise InputError("an empty path: name a file or folder, or `.` for this folder")
    if text == "-":
        return [Origin("stdin", file=sys.stdin.buffer)]
    path = Path(text)
    if path.is_dir():
        return _walk(path)
    if path.exists():
        return [Origin(_shown(text), path)]
    matches: list[str] = []
    if glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not matches:
        raise InputError(f"{_shown(text)}: no such file or folder")
    found = []
    for match in matches:
        found += _walk(Path(match)) if Path(match).is_dir() else [Origin(_shown(match), Path(match))]
    return found


def _file_origin(file: BinaryIO) -> Origin:
    if not hasattr(file, "read"):
        raise InputError(f"{type(file).__name__} is no input: give a path or an open binary file")
    if isinstance(file.read(0), str):
        raise InputError("a text file object: open it in binary mode ('rb')")
    name = getattr(file, "name", None)
    return Origin(_shown(name) if isinstance(name, str) else "stream", file=file)


def _walk(folder: Path) -> list[Origin]:
    found = []
    for parent, folders, names in os.walk(folder):
        if "_manifest" in folders and "LOCK" in names:  # a store is no source
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = [Path(parent, name) for name in sorted(names) if not name.startswith(".")]
        found += [Origin(_shown(str(path)), path, walked=True) for path in paths if path.is_file()]
    return sorted(found, key=lambda origin: origin.name)


def _shown(name: str) -> str:
    """Give a path as text: bytes that are no UTF-8 are spelled out, so that it can be stored."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _open(origin: Origin) -> BinaryIO:
    if origin.path is not None:
        return origin.path.open("rb")
    if origin.file is None:
        raise InputError(f"{origin.name}: nothing to read")
    return origin.file


class _Rewound:
    """A binary file whose first bytes were looked at and come again; of a pipe it gives what is there."""

    def __init__(self, file: BinaryIO) -> None:
        self._read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
        self.head = self._fill(HEAD_BYTES)
        self._rest = self.head

    def read(self, n: int = -1) -> bytes:
        if self._rest:
            taken = self._rest if n < 0 else self._rest[:n]
            self._rest = self._rest[len(taken) :]
            return taken
        return self._read(n) or b""

    closed = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the file open: it belongs to the caller."""

    def _fill(self, n: int) -> bytes:
        pieces = b""
        while len(pieces) < n and (more := self._read(n - len(pieces))):
            pieces += more
        return pieces


def _plain(file: Any, origin: Origin, warn: Warn) -> Iterator[bytes]:
    codec = codec_of(file.head)
    if codec is None:
        if origin.walked and other_kind(file.head):
            warn(f"{origin.name}: {other_kind(file.head)} skipped")
            return iter(())
        refuse_other_kinds(file.head, origin.name)
        chunks = iter(lambda: file.read(CHUNK_BYTES), b"")
    else:
        chunks = decompressed(file, codec, CHUNK_BYTES, lambda text: warn(f"{origin.name}: {text}"))
    return _as_utf8(chunks)


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        if first:
            yield first
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    yield decoder.decode(first).encode("utf-8", "replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")
