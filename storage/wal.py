"""The write-ahead log: numbered files of frames, each whole or not there at all.

Byte layout: `docs/format/wal.md`. A frame is durable when `WalWriter.append` returns. A torn last frame of
the last file is what a crash leaves and is cut off; a bad frame anywhere else is damage.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from .blame import as_damage
from .entry import Entry, Kind, decode, encode
from .errors import DamageError, StoreError
from .files import Data, Files, Handle, crc32c, names_below
from .remote import is_remote
from .upgrade import FORMAT, OLDEST

MAGIC = b"TREE-WAL"
"""First bytes of every file of the log."""

HEADER = struct.Struct("<8sIIQ")
"""File header: magic, format version, crc32c of the other three fields, number of the file."""

FRAME = struct.Struct("<IIQIB3x")
"""Frame header: length of the frame with header, crc32c of all its other bytes, first seq, rows, kind."""

MAX_FRAME_BYTES = 1 << 31
"""A longer frame is refused; one append should hold megabytes."""

_NAME = re.compile(r"(\d{6,})\.wal")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the log: byte `offset` of file `number`, which is of format `version`.

    At offset 0 the file's header is still to come.
    """

    number: int
    offset: int = 0
    version: int = FORMAT


def wal_path(directory: Path, number: int) -> Path:
    """Give the path of a file of the log."""
    return directory / f"{number:06d}.wal"


def wal_numbers(files: Files, directory: Path) -> list[int]:
    """Give the numbers of the log's files, ascending; none where the directory is missing."""
    return sorted(int(m[1]) for name in names_below(files, directory) if (m := _NAME.fullmatch(name)))


class WalWriter:
    """The open end of the log.

    `append` one after the other, `rotate` to go on in the next file, then `close`. A call that failed changed
    nothing, unless `is_broken`: then the end of the log is unknown, and only a new opening can tell.
    """

    def __init__(self, files: Files, directory: Path, mark: Mark, handle: Handle) -> None:
        self._files = files
        self._directory = directory
        self._handle = handle
        self.mark = mark
        self.is_broken = False

    @classmethod
    def create(cls, files: Files, directory: Path, number: int) -> WalWriter:
        """Start file `number`; the file is durable on return."""
        handle = _start_file(files, directory, number)
        return cls(files, directory, Mark(number, HEADER.size), handle)

    @classmethod
    def reopen(cls, files: Files, directory: Path, mark: Mark) -> WalWriter:
        """Go on at `mark` in the last file: what stands behind is cut off, what stands before is synced."""
        if mark.offset == 0:
            files.unlink(wal_path(directory, mark.number))
            return cls.create(files, directory, mark.number)
        handle = files.append(wal_path(directory, mark.number))
        try:
            handle.truncate(mark.offset)
            handle.sync()
            # The writer before may have died between making the file and this.
            files.fsync_dir(directory)
        except BaseException:
            handle.close()
            raise
        writer = cls(files, directory, mark, handle)
        if mark.version != FORMAT:
            # Frames of one format to a file.
            writer.rotate()
        return writer

    def append(self, frame: Data) -> None:
        """Add a frame that `make_frame` gave; durable on return."""
        self.is_broken = True
        try:
            self._handle.write(frame)
        except OSError:
            # Half a frame must not stay: the next one behind it would make it damage instead of a torn tail. After
            # an interrupt it may be a whole one, which a reader has seen: then the log is broken.
            self._handle.truncate(self.mark.offset)
            self.is_broken = False
            raise
        self._handle.sync()
        self.mark = replace(self.mark, offset=self.mark.offset + len(frame))
        self.is_broken = False

    def rotate(self) -> None:
        """Go on in the next file; it is durable on return.

        Raises FileExistsError where somebody else made that file, who may go on in it: then the log is broken.
        """
        number = self.mark.number + 1
        self.is_broken = True
        handle = self._next_file(number)
        self._handle.close()
        self._handle, self.mark = handle, Mark(number, HEADER.size)
        self.is_broken = False

    def _next_file(self, number: int) -> Handle:
        path = wal_path(self._directory, number)
        try:
            handle = self._files.create(path)
        except FileExistsError:
            raise
        except OSError:
            self.is_broken = False
            raise
        try:
            _begin_file(self._files, handle, path, number)
        except FileExistsError:
            raise
        except BaseException:
            self._take_back(path)
            self.is_broken = False
            raise
        return handle

    def _take_back(self, path: Path) -> None:
        """Remove a file that was made here: with a next one there, a torn frame at the end of this would be damage."""
        # In a bucket nobody knows who made what may be there, and no frame is ever torn.
        if not is_remote(self._files):
            self._files.unlink(path)
            self._files.fsync_dir(self._directory)

    def close(self) -> None:
        """Give the descriptor back; every frame is durable already."""
        self._handle.close()


def make_frame(entry: Entry) -> bytearray:
    """Give the bytes of an entry as one frame. Raises StoreError where it is larger than a frame may be."""
    payload = encode(entry)
    length = FRAME.size + sum(pa.py_buffer(chunk).size for chunk in payload)
    if length > MAX_FRAME_BYTES:
        raise StoreError(
            f"one append of {length} bytes is too large, at most {MAX_FRAME_BYTES}; append smaller batches"
        )
    head = FRAME.pack(length, 0, entry.first_seq, entry.n_rows, entry.kind)
    frame = bytearray().join([head, *payload])
    struct.pack_into("<I", frame, 4, _checksum(memoryview(frame)))
    return frame


def read_frames(
    files: Files, directory: Path, mark: Mark, *, floor: int
) -> tuple[list[tuple[int, Entry]], Mark]:
    """Give what the log holds from `mark` on, each with the number of its file, and the mark behind it.

    A torn tail of the last file is left out: there the mark stands before it. Safe beside a live writer.
    floor: the first file that the manifest counts on. Raises DamageError for a bad frame elsewhere, a missing
    file, a bad header.
    """
    numbers = _chain(files, directory, mark.number)
    entries: list[tuple[int, Entry]] = []
    for number in numbers:
        start = mark if number == mark.number else Mark(number)
        may_be_new = number == numbers[-1] and number > floor
        if start.offset == 0:
            start = read_header(files, wal_path(directory, number), number, may_be_torn=may_be_new)
        mark = start
        if start.offset:
            found, mark = _read_file(files, directory, start, is_last=number == numbers[-1])
            entries += [(number, entry) for entry in found]
    return entries, mark


def _chain(files: Files, directory: Path, first: int) -> list[int]:
    numbers = [n for n in wal_numbers(files, directory) if n >= first]
    for expected, number in enumerate(numbers or [-1], first):
        if number != expected:
            raise _missing(wal_path(directory, expected))
    return numbers


def _read_file(files: Files, directory: Path, mark: Mark, *, is_last: bool) -> tuple[list[Entry], Mark]:
    path = wal_path(directory, mark.number)
    data = _read(files, path, mark.offset)
    entries, end = _scan(data, mark.version)
    if end < len(data) and not (is_last and _is_torn(data, end)):
        raise DamageError(
            f"{path} at byte {mark.offset + end}: a frame fails its checksum or is cut short, and it is not "
            "the last one; restore the file from a copy"
        )
    return entries, replace(mark, offset=mark.offset + end)


def _read(files: Files, path: Path, start: int, n_bytes: int = -1) -> bytes:
    try:
        with as_damage(path):
            return files.read(path, start, n_bytes)
    except FileNotFoundError as error:
        raise _missing(path) from error


def _missing(path: Path) -> DamageError:
    return DamageError(f"{path}: missing, the newest manifest counts on it; restore the file from a copy")


def _scan(data: bytes, version: int) -> tuple[list[Entry], int]:
    view, end = memoryview(data), 0
    entries = []
    while (length := whole_frame(view, end)) > 0:
        _, _, first_seq, n_rows, kind = FRAME.unpack_from(view, end)
        payload = view[end + FRAME.size : end + length]
        entries.append(decode(Kind(kind), first_seq, n_rows, payload, version=version))
        end += length
    return entries, end


def whole_frame(view: memoryview, start: int) -> int:
    """Give the length of the frame at `start`, 0 where there is no whole and right one."""
    if len(view) - start < FRAME.size:
        return 0
    length, checksum, *_ = FRAME.unpack_from(view, start)
    if length < FRAME.size or length % 8 or length > len(view) - start:
        return 0
    return length if checksum == _checksum(view[start : start + length]) else 0


def _is_torn(data: bytes, end: int) -> bool:
    """Whether no whole frame stands behind the bad one at `end`.

    Each frame is synced before the next is written, so a crash spoils only the last; a whole frame behind a
    bad one shows that the bad one was once whole, and cutting there would drop acknowledged events.
    """
    view = memoryview(data)
    return not any(whole_frame(view, start) for start in candidates(data, end + 8))


def candidates(data: bytes, start: int) -> Iterator[int]:
    """Give the places from `start` on, a multiple of 8, at which a frame could begin by what its header says."""
    if len(data) - start < FRAME.size:
        return
    words = np.frombuffer(data, "<u8", count=(len(data) - start) // 8, offset=start)
    n_places = len(words) - FRAME.size // 8 + 1
    length = words[:n_places] & 0xFFFF_FFFF
    kind = words[2 : n_places + 2] >> 32
    room = (len(words) - np.arange(n_places)) * 8
    hits = (length >= FRAME.size) & (length <= room) & (length % 8 == 0) & (kind >= 1) & (kind <= max(Kind))
    yield from (start + np.flatnonzero(hits) * 8).tolist()


def _start_file(files: Files, directory: Path, number: int) -> Handle:
    path = wal_path(directory, number)
    handle = files.create(path)
    _begin_file(files, handle, path, number)
    return handle


def _begin_file(files: Files, handle: Handle, path: Path, number: int) -> None:
    """Write the header; the file is durable on return, and closed where that fails."""
    try:
        handle.write(_header(number))
        handle.sync()
        files.fsync_dir(path.parent)
    except BaseException:
        handle.close()
        raise


def _checksum(frame: memoryview) -> int:
    return crc32c(frame[8:], crc32c(frame[:4]))


def _header(number: int) -> bytes:
    return HEADER.pack(MAGIC, FORMAT, _header_checksum(MAGIC, FORMAT, number), number)


def _header_checksum(magic: bytes, version: int, number: int) -> int:
    return crc32c(struct.pack("<8sIQ", magic, version, number))


def read_header(files: Files, path: Path, number: int, *, may_be_torn: bool) -> Mark:
    """Check a file's header, give the mark behind it; before it, where it may be torn and is."""
    data = _read(files, path, 0, HEADER.size + 1)
    if may_be_torn and len(data) <= HEADER.size and data != _header(number):
        return Mark(number)
    if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise DamageError(f"{path}: no log header, expected {MAGIC!r}; restore the file from a copy")
    magic, version, checksum, found = HEADER.unpack_from(data)
    if checksum != (expected := _header_checksum(magic, version, found)):
        raise DamageError(
            f"{path}: header checksum {checksum:08x}, expected {expected:08x}; restore the file from a copy"
        )
    if not OLDEST <= version <= FORMAT:
        raise StoreError(
            f"{path}: store format {version}, this treering reads {OLDEST} to {FORMAT}; "
            "use the treering version that wrote it"
        )
    if found != number:
        raise DamageError(f"{path}: says it is file {found}, expected {number}; restore it from a copy")
    return Mark(number, HEADER.size, version)
