"""The log read past its damage: every whole frame of a file, and the bytes that are none."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .blame import told
from .blocks import read_past
from .entry import Entry, Kind, decode
from .files import Files
from .upgrade import FORMAT, OLDEST
from .wal import FRAME, HEADER, candidates, read_header, wal_numbers, wal_path, whole_frame


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole frame: bytes `[start, end)` of file `number`, with the sequence numbers `[first_seq, end_seq)`."""

    number: int
    start: int
    end: int
    first_seq: int
    n_rows: int
    kind: Kind
    version: int

    @property
    def end_seq(self) -> int:
        """First sequence number behind its events."""
        return self.first_seq + self.n_rows


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file of the log.

    header: what is wrong with its header, or with all of it, None: nothing. bad: byte ranges `[start, end)` that
    are no whole frame though acknowledged frames stood there. torn: the end of the last file, an append that was
    never acknowledged (or is being written now); None: there is none.
    """

    number: int
    n_bytes: int
    header: str | None
    frames: tuple[Frame, ...]
    bad: tuple[tuple[int, int], ...]
    torn: tuple[int, int] | None


def scan_log(files: Files, directory: Path, floor: int) -> Iterator[ScannedFile]:
    """Scan the files of the log from file `floor` on, one after the other; some between may be missing."""
    numbers = [number for number in wal_numbers(files, directory) if number >= floor]
    for number in numbers:
        yield _scan_file(files, directory, number, floor=floor, is_last=number == numbers[-1])


def read_entries(files: Files, directory: Path, frames: Sequence[Frame]) -> Iterator[Entry]:
    """Give what whole frames of one file hold."""
    if not frames:
        return
    data = memoryview(read_past(files, wal_path(directory, frames[0].number)))
    for frame in frames:
        payload = data[frame.start + FRAME.size : frame.end]
        yield decode(frame.kind, frame.first_seq, frame.n_rows, payload, version=frame.version)


def _scan_file(files: Files, directory: Path, number: int, *, floor: int, is_last: bool) -> ScannedFile:
    path = wal_path(directory, number)
    try:
        data = read_past(files, path)
    except OSError as error:
        return ScannedFile(number, 0, told(error, path), (), (), None)
    header, is_new, version = _read_header(
        files, path, number, data[: HEADER.size], may_be_torn=is_last and number > floor
    )
    if is_new:
        torn = (0, len(data)) if data else None
        return ScannedFile(number, len(data), None, (), (), torn)
    frames, bad = _frames(data, number, version)
    torn = bad.pop() if is_last and bad and bad[-1][1] == len(data) else None
    return ScannedFile(number, len(data), header, tuple(frames), tuple(bad), torn)


def _read_header(
    files: Files, path: Path, number: int, head: bytes, *, may_be_torn: bool
) -> tuple[str | None, bool, int]:
    """Give what is wrong with a header, whether it was just being made, and the format of the frames."""
    try:
        mark = read_header(files, path, number, may_be_torn=may_be_torn)
    except OSError as error:
        return told(error, path), False, _version(head)
    return None, mark.offset == 0, mark.version


def _version(header: bytes) -> int:
    if len(header) < HEADER.size:
        return FORMAT
    version = int(struct.unpack_from("<8xI", header)[0])
    return version if OLDEST <= version <= FORMAT else FORMAT


def _frames(data: bytes, number: int, version: int) -> tuple[list[Frame], list[tuple[int, int]]]:
    view, frames, bad = memoryview(data), list[Frame](), list[tuple[int, int]]()
    start = min(HEADER.size, len(data))
    while start < len(data):
        length = whole_frame(view, start)
        if length == 0:
            begins = (at for at in candidates(data, start + 8) if whole_frame(view, at))
            end = next(begins, len(data))
            bad.append((start, end))
            start = end
            continue
        _, _, first_seq, n_rows, kind = FRAME.unpack_from(view, start)
        frames.append(Frame(number, start, start + length, first_seq, n_rows, Kind(kind), version))
        start += length
    return frames, bad
