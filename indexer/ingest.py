"""The way in: sources read, records acknowledged batch by batch, and a report of what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, Protocol

import numpy as np

from treering.storage.batch import TS_ORIGINS, RawBatch, Source
from treering.storage.errors import ConfigError, InputError
from treering.storage.ledger import Position, Run
from treering.storage.rejects import Reject
from treering.storage.schema import CANONICAL

from .ansi import strip_escapes
from .clocks import Clock
from .decode import READERS
from .fingerprints import first_line, free_fingerprint
from .jsonl import JsonDocumentReader, JsonLinesReader, is_document, is_json_lines
from .lineheads import LineFormat, detect
from .lines import Batch
from .recognition import Ledger, Recognition, Start
from .rows_in import ROWS_NAME, row_blocks
from .sources import Input, Origin, opened, resolve
from .taken import Taken
from .textlog import TextReader
from .times import DAY_S, SECOND_NS, fraction_ns, parse_time, zone
from .utf8 import count_invalid

SAMPLE_BYTES = 1 << 18
"""Bytes from which the reader and the heads of a source are told."""

MAX_TOLD_REJECTS = 100
"""Rejects that a report carries; the store keeps all of them."""

_BOM = b"\xef\xbb\xbf"
_INGEST = TS_ORIGINS.index("ingest")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What a user may tell the readers.

    reader: `jsonl json text`, else told by content. map: canonical field (or `ts`) to native path. tz: zone
    of times that name none. year: year of the first time that names none. base_time: time of logs without
    any, else the file's. join: whether lines of one event become one event. again: load what has been loaded.
    strict: stop at the first record that is rejected.
    """

    reader: str | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    tz: str = "UTC"
    year: int | None = None
    base_time: str | int | None = None
    join: bool = True
    again: bool = False
    strict: bool = False


@dataclass(slots=True)
class IngestReport:
    """What came of the sources.

    accepted: events. rejected: records that no reader understood. joined: lines that belong to an event begun
    before. skipped_bytes: bytes that an earlier load had taken. lines: lines read (blank ones too). sources:
    sources with anything new. warnings: one line each, for people. rejects: the first `MAX_TOLD_REJECTS` of
    the rejected.
    """

    accepted: int = 0
    rejected: int = 0
    joined: int = 0
    skipped_bytes: int = 0
    lines: int = 0
    sources: int = 0
    warnings: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Note a warning once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def warn_of_times(self, name: str, *, n_undated: int, n_future: int) -> None:
        """Note how many events of the source `name` had no usable time, and how many one that is to come."""
        if n_undated:
            self.warn(f"{name}: {_n(n_undated, 'record')} without a usable time, dated at the load")
        if n_future:
            self.warn(f"{name}: {_n(n_future, 'time')} more than a day ahead of now")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load is: bytes taken of this source, its size on disk if known, totals so far."""

    source: str
    taken_bytes: int
    size_bytes: int | None
    accepted: int
    rejected: int


class Sink(Ledger, Protocol):
    """What acknowledges records: a ring."""

    @property
    def next_seq(self) -> int:
        """Sequence number of the next event."""
        ...

    def append(
        self, raw: RawBatch, *, positions: Sequence[Position] = (), rejects: Sequence[Reject] = ()
    ) -> int:
        """Store records durably and give the first sequence number."""
        ...


class Reader(Protocol):
    """What makes records of a source's bytes."""

    def feed(self, chunk: bytes) -> Batch:
        """Take the bytes that follow."""
        ...

    def finish(self) -> Batch:
        """Take the end."""
        ...


def ingest(
    ring: Sink,
    inputs: Input | Iterable[Input],
    *,
    options: IngestOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
    report: IngestReport | None = None,
) -> IngestReport:
    """Read `inputs` into `ring`; each batch is durable before the next is read.

    report: one to count in, which also a load that fails has done up to where it came.

    A source whose bytes have been taken before adds only what is new, whatever its name, and one that is a
    beginning of what has been taken adds nothing (see `recognition`). Records without a
    usable time get the time of the load. Raises InputError where a source cannot be read at all, and at the
    first rejected record if `options.strict` (what was accepted before it stays).
    """
    options = options or IngestOptions()
    if options.reader not in (None, *READERS):
        raise ConfigError(f"reader {options.reader!r} is unknown, expected one of {', '.join(READERS)}")
    unknown = sorted(set(options.map) - {field.name for field in CANONICAL} - {"ts"})
    if unknown:
        near = get_close_matches(unknown[0], [field.name for field in CANONICAL], 3) or [
            "prompt",
            "response",
            "context",
        ]
        raise ConfigError(f"map: {unknown[0]!r} is no canonical field; did you mean {', '.join(near)}?")
    report, recognition = report or IngestReport(), Recognition(ring)
    for origin in resolve(inputs):
        _Load(ring, origin, options, report, progress, recognition).run()
    return report


def ingest_rows(
    ring: Sink,
    rows: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    options: IngestOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
    report: IngestReport | None = None,
) -> IngestReport:
    """Take rows from Python (a single mapping is one row) into `ring`, block by block; each block is durable.

    Rows are always new events: nothing is remembered of them. report: as of `ingest`. Raises InputError for a row
    that cannot be taken; the rows before it are stored.
    """
    report = report or IngestReport()
    _Load(ring, Origin(ROWS_NAME), options or IngestOptions(), report, progress).run_rows(rows)
    return report


def _before(batch: Batch, fault: Reject) -> Batch:
    """What of a batch stands before a record that was rejected; the source is taken up to there."""
    raw = batch.raw
    n = int(np.searchsorted(raw.offset, fault.offset))
    end = int(raw.ends[n - 1]) if n else 0
    kept = replace(
        raw,
        ts_ns=raw.ts_ns[:n],
        ts_origin=raw.ts_origin[:n],
        source=raw.source[:n],
        offset=raw.offset[:n],
        line=raw.line[:n],
        ends=raw.ends[:n],
        records=raw.records[:end],
    )
    return Batch(kept, fault.offset, fault.line - 1, n_lines=n)


class _Load:
    """One source on its way into a ring."""

    def __init__(
        self,
        ring: Sink,
        origin: Origin,
        options: IngestOptions,
        report: IngestReport,
        progress: Callable[[Progress], None] | None,
        recognition: Recognition | None = None,
    ) -> None:
        self._ring = ring
        self._recognition = recognition or Recognition(ring)
        self._origin = origin
        self._options = options
        self._report = report
        self._progress = progress
        self._position: Position | None = None
        self._now_ns = time.time_ns()
        self._future = 0
        self._undated = 0
        self._repeated = 0
        self._n_invalid = 0
        self._clock: Clock | None = None

    def run(self) -> None:
        with opened(self._origin, self._report.warn) as source:
            stream = Taken(iter(source), source.restart)
            start = Start() if self._options.again else self._find_start(stream)
            self._report.skipped_bytes += start.offset
            if not start.is_all:
                self._read(stream, start)
        self._tell()

    def run_rows(self, rows: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> None:
        taken_bytes = 0
        reader = self._json_lines_reader(self._told())
        for block in row_blocks(rows):
            taken_bytes += len(block)
            self._store(reader.feed(block), taken_bytes)
        self._report.sources += taken_bytes > 0
        self._tell()

    def _find_start(self, stream: Taken) -> Start:
        def read(chunks: Iterator[bytes], offset: int, line: int, is_whole: bool) -> Iterator[Batch]:
            reader, chunks = self._open_reader(stream, chunks, offset, line)
            if reader is None:
                return
            yield from map(reader.feed, chunks)
            if is_whole:
                yield reader.finish()

        def warn(text: str) -> None:
            self._report.warn(f"{self._origin.name}: {text}")

        start = self._recognition.start(stream, read, warn)
        self._clock = None
        known = start.position
        if known is not None and not known.fingerprint:
            warn(f"its first {start.offset} bytes were taken in as {known.name}; only what follows is added")
        return start

    def _read(self, stream: Taken, start: Start) -> None:
        beyond = stream.skip(start.offset) if start.offset else b""
        self._go_on_from(start, stream)
        rest = chain((beyond,) if beyond else (), stream)
        reader, chunks = self._open_reader(stream, rest, start.offset, start.line)
        if reader is None:
            return
        self._report.sources += 1
        for chunk in chunks:
            self._take(reader.feed(chunk), stream)
        self._take(reader.finish(), stream, is_line_open=isinstance(reader, TextReader))

    def _go_on_from(self, start: Start, stream: Taken) -> None:
        known = start.position
        if known is None:
            return
        digest = stream.digest(start.offset)
        if start.offset == known.offset and known.digest not in ("", digest):
            raise InputError(f"{self._origin.name}: was changed while it was read; load it again")
        self._position = known if known.digest else replace(known, digest=digest)

    def _open_reader(
        self, stream: Taken, chunks: Iterator[bytes], offset: int, line: int
    ) -> tuple[Reader | None, Iterator[bytes]]:
        """Give what reads the bytes from `offset` on, and these bytes; None where there are none."""
        sample = _sample(chunks)
        data = b"".join(sample)
        if not data:
            return None, iter(())
        if offset == 0 and data.startswith(_BOM):
            offset, data = len(_BOM), data[len(_BOM) :]
            sample = [data]
        head = stream.head() if offset else data
        reader = self._reader(head if b"\n" in head else data, data, offset, line)
        return reader, chain(sample, chunks)

    def _take(self, batch: Batch, stream: Taken, *, is_line_open: bool = False) -> None:
        """Store a batch of a source with how far the source is taken by it.

        is_line_open: a last line without a line feed is an event in it.
        """
        fault = batch.rejects[0] if batch.rejects and self._options.strict else None
        batch = batch if fault is None else _before(batch, fault)
        has_news = batch.offset > 0 and (batch.raw.n_rows > 0 or len(batch.rejects) > 0)
        unfinished = stream.offset - stream.line_start if is_line_open else 0
        self._store(
            batch, stream.offset, (self._position_after(batch, stream, unfinished),) if has_news else ()
        )
        if fault is not None:
            raise InputError(f"{fault.source}:{fault.line}: {fault.reason}; what stands before it is stored")

    def _store(self, batch: Batch, taken_bytes: int, positions: tuple[Position, ...] = ()) -> None:
        if batch.raw.n_rows or batch.rejects:
            self._ring.append(batch.raw, positions=positions, rejects=tuple(batch.rejects))
        self._count(batch)
        for position in positions:
            self._position = self._ring.position(position.fingerprint)
        if self._progress:
            report = self._report
            self._progress(
                Progress(
                    self._origin.name,
                    taken_bytes,
                    self._origin.size_bytes,
                    report.accepted,
                    report.rejected,
                )
            )

    def _position_after(self, batch: Batch, stream: Taken, unfinished: int) -> Position:
        position = self._position or Position("", self._origin.name, 0, 0, "")
        if not position.fingerprint:
            slot = free_fingerprint(self._ring, stream.head(batch.offset))
            position = replace(position, fingerprint=slot, first_line=first_line(stream.head()))
            self._recognition.note(position)
        first_seq, n_rows, digest = self._ring.next_seq, batch.raw.n_rows, stream.digest(batch.offset)
        run = Run(first_seq, first_seq + n_rows, n_rows)
        name = self._origin.name
        return position.taken_on(name, batch.offset, batch.line, digest, run, unfinished=unfinished)

    def _count(self, batch: Batch) -> None:
        report, raw = self._report, batch.raw
        report.accepted += raw.n_rows
        report.rejected += len(batch.rejects)
        report.rejects += batch.rejects[: MAX_TOLD_REJECTS - len(report.rejects)]
        report.joined += batch.n_joined
        report.lines += batch.n_lines
        self._repeated += batch.repeated_keys
        self._n_invalid += count_invalid(raw)
        self._undated += int(np.count_nonzero(raw.ts_origin == _INGEST))
        self._future += int(np.count_nonzero(raw.ts_ns > self._now_ns + DAY_S * SECOND_NS))

    def _reader(self, head: bytes, sample: bytes, offset: int, line: int) -> Reader:
        """Give the reader that the source's `head` asks for, for the bytes that begin with `sample`."""
        options, told = self._options, self._told()
        name = options.reader or _reader_of(head)
        if name == "text":
            return self._text_reader(sample, told, offset, line)
        if name == "jsonl":
            return self._json_lines_reader(told, offset, line)
        source, tz, path = Source(self._origin.name, name, told), zone(options.tz), options.map.get("ts")
        return JsonDocumentReader(source, now_ns=self._now_ns, tz=tz, ts_path=path, offset=offset, line=line)

    def _told(self) -> dict[str, object]:
        """Give what the decoder must know of the options."""
        options = self._options
        told = {
            "map": dict(options.map),
            "tz": options.tz,
            "year": options.year,
            "base_time": options.base_time,
        }
        return {key: value for key, value in told.items() if value or value == 0}

    def _json_lines_reader(
        self, told: Mapping[str, object], offset: int = 0, line: int = 0
    ) -> JsonLinesReader:
        source, tz = Source(self._origin.name, "jsonl", told), zone(self._options.tz)
        path = self._options.map.get("ts")
        return JsonLinesReader(source, now_ns=self._now_ns, tz=tz, ts_path=path, offset=offset, line=line)

    def _text_reader(self, sample: bytes, told: Mapping[str, object], offset: int, line: int) -> TextReader:
        options = self._options
        lines = sample.split(b"\n")[:1000]
        formats = detect(lines)
        base_ns = _base_ns(options.base_time, options.tz)
        base_ns = self._origin.modified_ns if base_ns is None else base_ns
        self._clock = Clock(zone(options.tz), year=options.year, latest_s=base_ns // SECOND_NS)
        first_ns = _first_time(
            lines, formats, Clock(zone(options.tz), year=options.year, latest_s=base_ns // SECOND_NS)
        )
        source = Source(self._origin.name, "text", {**told, "formats": [fmt.name for fmt in formats]})
        return TextReader(
            source,
            formats,
            self._clock,
            first_ns=base_ns if first_ns is None else first_ns,
            headed=first_ns is not None,
            offset=offset,
            line=line,
            join=options.join,
        )

    def _tell(self) -> None:
        name = self._origin.name
        if self._repeated:
            self._report.warn(
                f"{name}: {_n(self._repeated, 'record')} with a key twice; the last value counts"
            )
        if self._n_invalid:
            self._report.warn(
                f"{name}: {_n(self._n_invalid, 'record')} with invalid UTF-8: shown as U+FFFD, the bytes are kept"
            )
        self._report.warn_of_times(name, n_undated=self._undated, n_future=self._future)
        if self._clock and self._clock.assumed_years:
            years = ", ".join(map(str, sorted(self._clock.assumed_years)))
            rule = "as told" if self._options.year else "from the time of the file"
            self._report.warn(f"{name}: times without a year, read as {years} ({rule}; option year)")
        if self._clock and self._clock.assumed_zone and self._options.tz == "UTC":
            self._report.warn(f"{name}: times without a zone, read as UTC (option tz)")


def _n(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _sample(chunks: Iterator[bytes]) -> list[bytes]:
    sample: list[bytes] = []
    size = 0
    for chunk in chunks:
        sample.append(chunk)
        size += len(chunk)
        if size >= SAMPLE_BYTES or b"\n" in chunk:  # a pipe's first lines are enough: do not wait for more
            break
    return sample


def _reader_of(sample: bytes) -> str:
    head = sample[:SAMPLE_BYTES]
    if is_document(head):
        return "json"
    return "jsonl" if is_json_lines(head) else "text"


def _base_ns(value: str | int | None, tz: str) -> int | None:
    if value is None:
        return None
    base_ns = parse_time(value, zone(tz))
    if base_ns is None:
        raise ConfigError(f"base_time {value!r} is no time; give ISO 8601 or seconds since 1970")
    return base_ns


def _first_time(lines: Sequence[bytes], formats: Sequence[LineFormat], clock: Clock) -> int | None:
    """Give the time of the first line that has one."""
    for line in lines:
        shown = strip_escapes(line).lstrip(b"\r")
        for fmt in formats:
            head = fmt.pattern.match(shown) if fmt.clock else None
            if head is None:
                continue
            text, fraction, at_zone = head.group(*fmt.stamp)
            seconds = clock.seconds(fmt.clock, text, at_zone)
            if seconds is not None:
                return seconds * SECOND_NS + fraction_ns(fraction)
    return None
