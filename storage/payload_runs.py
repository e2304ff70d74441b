"""Where payloads stand in records: long runs of base64 letters, found by looking at few bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .batch import Int64s

MIN_PAYLOAD_BYTES = 1024
"""Letters from which a run is a payload; one that is cut out costs some 60 bytes besides its own."""

_WINDOW_BYTES = MIN_PAYLOAD_BYTES // 2
"""A run covers at least one window of this size whole, wherever it begins."""

_STRIDE_BYTES = 16
"""Of a window every so many bytes are looked at first: of ordinary text one in 300 looks like a run then."""

_PIECE_WINDOWS = 1 << 15
"""Windows that are looked at together: what is made of them in memory stays small."""

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_ESCAPE = b"\\"
"""Writers of JSON escape letters of base64 (`\\/`, `\\u002B`), and the ends of its lines (`\\r\\n`)."""

_OTHERS = bytes(byte not in _LETTERS + _ESCAPE for byte in range(256))
"""By byte: 0 for what may stand in a run, 1 for the others."""

_FIRST, _LAST = np.uint8(min(_LETTERS)), np.uint8(max(_LETTERS))
_BETWEEN = tuple(np.frombuffer(b",.", np.uint8))
"""Bytes between the first and the last letter that are frequent in lists of numbers."""

_PADDING = b"=="

UInt8s = npt.NDArray[np.uint8]


def find_runs(data: UInt8s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Give first byte and byte behind the last of each payload, ascending; none lies across the end of a record.

    ends: of the records in `data`, ascending, the first one's beginning before them.
    """
    found: list[tuple[int, int]] = []
    for first, behind in _stretches(data, ends):
        found += _runs_within(data, first, behind, ends)
    runs = np.array(found, np.int64).reshape(-1, 2)
    return runs[:, 0], runs[:, 1]


def _stretches(data: UInt8s, ends: Int64s) -> list[tuple[int, int]]:
    """Give the stretches of bytes in which there may be runs, ascending and apart from each other."""
    n_windows = len(data) // _WINDOW_BYTES
    windows = data[: n_windows * _WINDOW_BYTES].reshape(n_windows, _WINDOW_BYTES)
    may_be, inside = np.zeros(n_windows + 2, np.bool_), _windows_of_long(ends)
    for start in range(0, len(inside), _PIECE_WINDOWS):
        piece = inside[start : start + _PIECE_WINDOWS]
        may_be[piece + 1] = _look_like_letters(windows[piece, ::_STRIDE_BYTES]).all(axis=1)
    if not may_be.any():
        return []
    # A run reaches into the windows before and behind those that it covers whole.
    reached = may_be.copy()
    reached[:-1] |= may_be[1:]
    reached[1:] |= may_be[:-1]
    changes = np.flatnonzero(np.diff(reached.astype(np.int8), prepend=0, append=0)) - 1
    bounds = np.clip(changes * _WINDOW_BYTES, 0, len(data)).reshape(-1, 2)
    return [(first, behind) for first, behind in bounds.tolist()]


def _windows_of_long(ends: Int64s) -> Int64s:
    """Give the windows that lie whole in one record which is long enough for a payload."""
    begins = np.concatenate([[0], ends[:-1]])
    is_long = ends - begins >= MIN_PAYLOAD_BYTES
    first, behind = -(-begins[is_long] // _WINDOW_BYTES), ends[is_long] // _WINDOW_BYTES
    counts = behind - first
    starts = np.cumsum(counts) - counts
    return np.repeat(first - starts, counts) + np.arange(counts.sum())


def _look_like_letters(sample: UInt8s) -> npt.NDArray[np.bool_]:
    """Whether bytes may stand in a run: false is certain."""
    found: npt.NDArray[np.bool_] = (sample - _FIRST) <= _LAST - _FIRST
    for byte in _BETWEEN:
        found &= sample != byte
    return found


def _runs_within(data: UInt8s, first: int, behind: int, ends: Int64s) -> list[tuple[int, int]]:
    others = first + np.flatnonzero(np.frombuffer(data[first:behind].tobytes().translate(_OTHERS), np.uint8))
    within: npt.NDArray[Any] = ends[np.searchsorted(ends, first, "right") : np.searchsorted(ends, behind)]
    begins = np.sort(np.concatenate([[first], others + 1, within]))
    stops = np.sort(np.concatenate([others, within, [behind]]))
    long = np.flatnonzero(stops - begins >= MIN_PAYLOAD_BYTES)
    runs = (_trimmed(data, int(begins[place]), int(stops[place]), ends) for place in long)
    return [run for run in runs if run[1] - run[0] >= MIN_PAYLOAD_BYTES]


def _trimmed(data: UInt8s, begin: int, stop: int, ends: Int64s) -> tuple[int, int]:
    """Give a run without escapes at its end, which are of what stands behind it, and with its padding."""
    last = stop
    while last > begin and data[last - 1] == _ESCAPE[0]:
        last -= 1
    if last < stop:
        return begin, last
    end = int(ends[np.searchsorted(ends, stop)]) if stop < ends[-1] else stop
    tail = data[stop : min(stop + len(_PADDING), end)].tobytes()
    return begin, stop + len(tail) - len(tail.lstrip(b"="))
