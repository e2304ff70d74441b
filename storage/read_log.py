"""The log as a whole, read past its damage: which frames there are, and which sequence numbers are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .files import Files
from .log_scan import Frame, ScannedFile, scan_log
from .wal import wal_path


@dataclass(slots=True)
class LogFault:
    """Something that is wrong with a file of the log. lost: sequence numbers `[first, end)`; None: no events."""

    file: Path
    what: str
    lost: tuple[int, int] | None = None

    @property
    def n_rows(self) -> int:
        """Events that are lost."""
        return 0 if self.lost is None else self.lost[1] - self.lost[0]


@dataclass(slots=True)
class ReadLog:
    """What the log holds. frames: those that are not in segments, in order. next_seq: behind the last of them.

    files: numbers of all files from the floor on. torn: bytes at the end that were never acknowledged, or are
    being written now.
    """

    next_seq: int
    frames: list[Frame] = field(default_factory=list)
    faults: list[LogFault] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    n_bytes: int = 0
    torn: tuple[Path, int] | None = None

    @property
    def n_rows(self) -> int:
        """Events in whole frames."""
        return sum(frame.n_rows for frame in self.frames)


def read_log(files: Files, directory: Path, *, floor: int, next_seq: int) -> ReadLog:
    """Read the log from file `floor` on. next_seq: first sequence number that is not in segments."""
    log, in_segments = ReadLog(next_seq), next_seq
    expected, waiting = floor, list[LogFault]()
    for scanned in scan_log(files, directory, floor):
        for number in range(expected, scanned.number):
            waiting.append(LogFault(wal_path(directory, number), "it is missing"))
        expected = scanned.number + 1
        log.files.append(scanned.number)
        log.n_bytes += scanned.n_bytes
        waiting = _take(log, scanned, wal_path(directory, scanned.number), waiting, in_segments)
    if not log.files:
        waiting.append(LogFault(wal_path(directory, floor), "it is missing"))
    log.faults += waiting
    return log


def _take(
    log: ReadLog, scanned: ScannedFile, path: Path, waiting: list[LogFault], in_segments: int
) -> list[LogFault]:
    """Add the frames of a file; give the faults behind which no frame has come yet."""
    if scanned.header is not None:
        waiting.append(LogFault(path, scanned.header))
    bad = list(scanned.bad)
    for frame in scanned.frames:
        waiting += [_no_frame(path, *one) for one in bad if one[0] < frame.start]
        bad = [one for one in bad if one[0] >= frame.start]
        if frame.n_rows and frame.end_seq <= in_segments:
            log.faults, waiting = log.faults + waiting, []
            continue
        if frame.first_seq != log.next_seq:
            waiting = _blamed(waiting, frame, path, log.next_seq)
        log.faults, waiting = log.faults + waiting, []
        log.frames.append(frame)
        log.next_seq = max(log.next_seq, frame.end_seq)
    if scanned.torn is not None:
        log.torn = path, scanned.torn[1] - scanned.torn[0]
    return waiting + [_no_frame(path, *one) for one in bad]


def _no_frame(path: Path, start: int, end: int) -> LogFault:
    return LogFault(
        path,
        f"bytes [{start}, {end}) are no whole frame: it fails its checksum or is cut short, and it is not the "
        "last one",
    )


def _blamed(waiting: list[LogFault], frame: Frame, path: Path, next_seq: int) -> list[LogFault]:
    """Say which fault before this frame is why its numbers do not follow."""
    if frame.first_seq < next_seq:
        what = f"at byte {frame.start} it goes back to seq {frame.first_seq}, expected {next_seq}"
        return [*waiting, LogFault(path, what)]
    lost = next_seq, frame.first_seq
    if not waiting:
        what = f"at byte {frame.start} it goes on at seq {frame.first_seq}, expected {next_seq}"
        return [LogFault(path, what, lost)]
    waiting[-1].lost = lost
    return waiting
