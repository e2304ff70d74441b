"""Inputs as streams of bytes: paths, globs, folders, standard input, open files; compressed or UTF-16 too."""

from __future__ import annotations

import codecs
import glob
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from treering.storage.errors import InputError, TreeringError

from .compression import codec_of, decompressed, other_kind, refuse_other_kinds
from .taken import HEAD_BYTES

CHUNK_BYTES = 1 << 20
"""Bytes of one read; a batch of records is acknowledged for each, so it is the grain of group commit too."""

Input = str | os.PathLike[str] | BinaryIO
Warn = Callable[[str], None]


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


class Opened:
    """The bytes of an open source in chunks: decompressed, UTF-16 as UTF-8."""

    def __init__(self, file: BinaryIO, origin: Origin, warn: Warn) -> None:
        self._file = file
        self._origin = origin
        self._warn = warn
        self._chunks = self._read()

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    @property
    def restart(self) -> Callable[[], Iterator[bytes]] | None:
        """What gives the bytes again from the beginning, of the same file whatever its path means now."""
        return self._again if self._origin.path is not None and self._file.seekable() else None

    def _again(self) -> Iterator[bytes]:
        self._file.seek(0)
        return self._read()

    def _read(self) -> Iterator[bytes]:
        return _plain(_Rewound(self._file), self._origin, self._warn)


@contextmanager
def opened(origin: Origin, warn: Warn) -> Iterator[Opened]:
    """Open `origin`. Raises InputError, on reading too."""
    try:
        file = _open(origin)
    except OSError as exc:
        raise InputError(f"{origin.name}: {exc.strerror or exc}") from exc
    try:
        yield Opened(file, origin, warn)
    except TreeringError:  # a fault of the store is an OSError too, and none of the source
        raise
    except OSError as exc:
        raise InputError(f"{origin.name}: {exc.strerror or exc}") from exc
    finally:
        if origin.path is not None:
            file.close()


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
    return _as_utf8(chunks, origin, warn)


def _as_utf8(chunks: Iterator[bytes], origin: Origin, warn: Warn) -> Iterator[bytes]:
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
    if rest := decoder.getstate()[0]:
        # Not U+FFFD: where the file is still being written, the next load finds the whole character.
        warn(f"{origin.name}: ends within a character of UTF-16; its {len(rest)} bytes are left out")
