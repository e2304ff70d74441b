"""Byte chunks cut into lines, on line feeds and nothing else, with their offsets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treering.storage.batch import RawBatch, Source
from treering.storage.rejects import Reject


@dataclass(slots=True)
class Lines:
    """Collects chunks of one stream and gives its complete lines.

    offset: byte offset of the next line's start. number: 1-based number of the next line.
    """

    offset: int = 0
    number: int = 1
    _rest: list[bytes] = field(default_factory=list)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Give the lines that `chunk` completes; the caller advances `offset` and `number`."""
        if b"\n" not in chunk:  # a huge line comes in many chunks: joined once, when it ends
            self._rest.append(chunk)
            return []
        lines = b"".join((*self._rest, chunk)).split(b"\n")
        rest = lines.pop()
        self._rest = [rest] if rest else []
        return lines

    def rest(self) -> bytes:
        """Give the unfinished last line and forget it."""
        rest, self._rest = b"".join(self._rest), []
        return rest


@dataclass(slots=True)
class Batch:
    """What a reader has made of the bytes up to `offset`, ready to be acknowledged.

    offset: everything before it is taken. line: how many line feeds lie before it. n_lines: lines that these
    records, rejects and blanks came from. n_joined: lines of them that belong to an event begun before.
    repeated_keys: records in which a key stood twice.
    """

    raw: RawBatch
    offset: int
    line: int
    rejects: list[Reject] = field(default_factory=list)
    n_lines: int = 0
    n_joined: int = 0
    repeated_keys: int = 0


@dataclass(slots=True)
class RawRows:
    """Records of one source on their way into a `RawBatch`."""

    records: list[bytes] = field(default_factory=list)
    ts_ns: list[int] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)

    def add(self, record: bytes, ts_ns: int, origin: int, offset: int, line: int) -> None:
        """Append one record."""
        self.records.append(record)
        self.ts_ns.append(ts_ns)
        self.origin.append(origin)
        self.offset.append(offset)
        self.line.append(line)

    def to_raw(self, source: Source) -> RawBatch:
        """Give the records as a batch of `source`."""
        n = len(self.records)
        return RawBatch(
            sources=(source,),
            ts_ns=np.array(self.ts_ns, np.int64),
            ts_origin=np.array(self.origin, np.uint8),
            source=np.zeros(n, np.uint16),
            offset=np.array(self.offset, np.int64),
            line=np.array(self.line, np.int64),
            ends=np.cumsum(np.fromiter(map(len, self.records), np.int64, n), dtype=np.int64),
            records=b"".join(self.records),
        )
