"""Where the log begins that is not in segments, of a store whose manifest cannot be read."""

from __future__ import annotations

from dataclasses import replace

from .files import Files
from .layout import Layout
from .log_scan import Frame, scan_log
from .manifest import Root
from .remains import Traces, WholeLists


def told_start(files: Files, layout: Layout, root: Root, traces: Traces, whole: WholeLists) -> Root | None:
    """Give the root with what the damaged manifest says of the log, None where that cannot be true."""
    floor, next_seq = traces.facts.get("wal_floor", -1), traces.facts.get("next_seq", -1)
    if floor not in _numbers(files, layout):
        return None
    frames = _frames(files, layout, floor)
    # Two numbers that fit each other are not both wrong.
    fits = frames[0].first_seq == next_seq if frames else next_seq == _least_next_seq(root, whole)
    return replace(root, wal_floor=floor, next_seq=next_seq) if fits else None


def first_start(files: Files, layout: Layout, root: Root) -> Root:
    """Give the root with all of the log that is there: which of its events are in segments is not known."""
    floor = max(min(_numbers(files, layout), default=0), root.wal_floor)
    return replace(root, wal_floor=floor, next_seq=0)


def newest_start(files: Files, layout: Layout, root: Root) -> int | None:
    """Give the first sequence number in the newest file of the log, None where no event is in it."""
    scanned = list(scan_log(files, layout.wal, root.wal_floor))
    frames = [one for file in scanned[-1:] for one in file.frames if one.n_rows]
    return frames[0].first_seq if frames else None


def _numbers(files: Files, layout: Layout) -> list[int]:
    return [file.number for file in scan_log(files, layout.wal, 0)]


def _frames(files: Files, layout: Layout, floor: int) -> list[Frame]:
    return [one for file in scan_log(files, layout.wal, floor) for one in file.frames]


def _least_next_seq(root: Root, whole: WholeLists) -> int:
    """Give a number that the first one that is not in segments is not below."""
    ends = [root.next_seq]
    for entries in whole["segments"].values():
        ends += [meta.seq_max + 1 for meta in entries.values()]
    for entries in whole["ledger"].values():
        ends += [one.run.end_seq for one in entries.values()]
    return max(ends)
