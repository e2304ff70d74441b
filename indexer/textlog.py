"""Console logs as events: finds each line's head and time, and joins the lines that belong to one event."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from treering.storage.batch import TS_ORIGINS, Source

from .ansi import strip_escapes
from .clocks import Clock
from .lineheads import BY_NAME, CONTINUED, HEADLESS_ENTRY, LineFormat
from .lines import Batch, Lines, RawRows
from .times import SECOND_NS, fraction_ns

JOIN_LINES = 256
"""Lines that may lie between two lines of one event, where several processes write into one log."""

HELD_EVENTS = 64
"""Events that stay open behind the newest one while processes interleave: their traceback may still come."""

_RECORD, _PREVIOUS, _FILE = (TS_ORIGINS.index(name) for name in ("record", "previous", "file"))
_TRACEBACK = b"Traceback (most recent call last)"
_PREFIX = BY_NAME["prefix"]
_CHAINED = re.compile(rb"During handling of the above exception|The above exception was the direct")

Key = tuple[bytes | None, ...]


@dataclass(slots=True)
class _Events:
    """Events that are not given away yet, oldest first; parallel lists, because most are one line."""

    rows: RawRows = field(default_factory=RawRows)
    more: dict[int, list[bytes]] = field(default_factory=dict)
    last_line: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows.records)

    def extend(self, event: int, line: bytes, number: int) -> None:
        """Give `event` one more line."""
        self.more.setdefault(event, []).append(line)
        self.last_line[event] = number

    def cut(self, keep: int) -> int:
        """Give the largest number of events whose lines all come before the lines of every later event.

        At least `keep` events stay.
        """
        n = max(len(self) - keep, 0)
        for event in sorted(self.last_line, reverse=True):
            if event < n < len(self) and self.last_line[event] >= self.rows.line[n]:
                n = event
        return n

    def take(self, n: int) -> RawRows:
        """Give the oldest `n` events and forget them."""
        rows, self.rows = _split(self.rows, n)
        for event, lines in self.more.items():
            if event < n:
                rows.records[event] = b"\n".join((rows.records[event], *lines))
        self.more = {event - n: lines for event, lines in self.more.items() if event >= n}
        self.last_line = {event - n: line for event, line in self.last_line.items() if event >= n}
        return rows


def _split(rows: RawRows, n: int) -> tuple[RawRows, RawRows]:
    taken = RawRows(rows.records[:n], rows.ts_ns[:n], rows.origin[:n], rows.offset[:n], rows.line[:n])
    rest = RawRows(rows.records[n:], rows.ts_ns[n:], rows.origin[n:], rows.offset[n:], rows.line[n:])
    return taken, rest


class TextReader:
    """Reads one console log.

    A line with a head begins an event. In a log whose lines have timed heads, a line without one goes on with
    the event before, unless it is known to stand alone (progress bars, warnings); after a line that stands
    alone only lines that look like it go on (indented, tracebacks). In a log without timed heads each line is
    an event, but for tracebacks. Where a logger repeats its head on each line of a traceback, lines of the
    same head and second are one event, also when other processes write between them. Blank lines belong to
    the event before.

    Parameters
    ----------
    source : what the batches say they are from.
    formats : heads to try, from `lineheads.detect`.
    clock : reads their times.
    first_ns : time of events before the first timed line: the first time of the sample (with origin
    `previous`), or
        the file's own time (origin `file`).
    headed : whether the sample has timed heads.
    offset, line : where the bytes to come begin, and how many lines lie before.
    join : False makes each line an event.
    """

    def __init__(
        self,
        source: Source,
        formats: Sequence[LineFormat],
        clock: Clock,
        *,
        first_ns: int,
        headed: bool,
        offset: int = 0,
        line: int = 0,
        join: bool = True,
    ) -> None:
        self.source = source
        self._formats = tuple(formats)
        self._clock = clock
        self._headed = headed
        self._join = join
        self._lines = Lines(offset, line + 1)
        self._now_ns = first_ns
        self._origin = _PREVIOUS if headed else _FILE
        self._events = _Events()
        self._last_headed = False
        self._in_traceback = False
        self._tracebacks: dict[Key, int] = {}
        self._prefixed = False
        self._joined = 0
        self._taken_lines = line

    def feed(self, chunk: bytes) -> Batch:
        """Take the bytes that follow and give the events that no later line can change."""
        self._add(self._lines.feed(chunk))
        first_open = min([len(self._events) - self._open, *self._tracebacks.values()])
        return self._give(self._events.cut(len(self._events) - first_open), final=False)

    @property
    def _open(self) -> int:
        """How many of the newest events a later line may still belong to."""
        return HELD_EVENTS if self._prefixed and self._join else 1

    def finish(self) -> Batch:
        """Take the unfinished last line as a line and give all events."""
        rest = self._lines.rest()
        unfinished = bool(rest)
        if unfinished:
            self._add([rest])
            self._lines.offset -= 1  # there was no line feed
            self._lines.number -= 1
        return self._give(len(self._events), final=True, unfinished=unfinished)

    def _give(self, n: int, *, final: bool, unfinished: bool = False) -> Batch:
        rows = self._events.take(n)
        self._tracebacks = {key: event - n for key, event in self._tracebacks.items() if event >= n}
        open_rows = self._events.rows
        offset = self._lines.offset if final or not len(self._events) else open_rows.offset[0]
        line = self._lines.number - 1 if final or not len(self._events) else open_rows.line[0] - 1
        batch = Batch(rows.to_raw(self.source), offset, line, n_lines=line - self._taken_lines + unfinished)
        batch.n_joined = batch.n_lines - n
        self._taken_lines = line
        return batch

    def _add(self, lines: list[bytes]) -> None:
        first = self._formats[0]
        match, stamp, seen = first.pattern.match, first.stamp, self._clock.seen(first.clock or "iso")
        rows, position = self._events.rows, self._lines
        add_record, add_ts, add_origin = rows.records.append, rows.ts_ns.append, rows.origin.append
        add_offset, add_line = rows.offset.append, rows.line.append  # bound once: this loop sets the speed
        for line in lines:
            offset, number = position.offset, position.number
            position.offset = offset + len(line) + 1
            position.number = number + 1
            if line.endswith(b"\r"):
                line = line[:-1]
            shown = strip_escapes(line).lstrip(b"\r") if b"\x1b" in line or b"\r" in line else line
            head = match(shown)
            if head is None or self._tracebacks or _TRACEBACK in shown or not first.clock:
                self._add_other(line, shown, offset, number)
                continue
            time, fraction, zone = head.group(*stamp)
            seconds = seen.get(time + zone if zone else time) or self._clock.seconds(first.clock, time, zone)
            if seconds is None:
                self._add_other(line, shown, offset, number)
                continue
            self._now_ns = now = seconds * SECOND_NS + (fraction_ns(fraction) if fraction else 0)
            add_record(line)
            add_ts(now)
            add_origin(_RECORD)
            add_offset(offset)
            add_line(number)
            self._last_headed, self._in_traceback, self._origin = True, False, _PREVIOUS
            if not self._prefixed:
                self._prefixed = first.name == "vllm" and head.start("severity") > 0

    def _add_other(self, line: bytes, shown: bytes, offset: int, number: int) -> None:
        """Add a line that the first format does not settle."""
        for fmt in self._formats:
            head = fmt.pattern.match(shown)
            if head is None:
                continue
            if self._add_headed(fmt, head, line, shown, offset, number):
                return
        self._add_headless(line, shown, offset, number)

    def _add_headed(
        self, fmt: LineFormat, head: re.Match[bytes], line: bytes, shown: bytes, offset: int, number: int
    ) -> bool:
        """Add a line with a head; False where its time is none, so that it has no head after all."""
        origin, now_ns = self._origin, self._now_ns
        if fmt.clock:
            time, fraction, zone = head.group(*fmt.stamp)
            seconds = self._clock.seconds(fmt.clock, time, zone)
            if seconds is None:
                return False
            origin, now_ns = _RECORD, seconds * SECOND_NS + fraction_ns(fraction)
            self._prefixed = self._prefixed or (fmt.name == "vllm" and head.start("severity") > 0)
        event = self._goes_on_with(fmt, head, shown, number) if self._join else None
        if event is not None:
            self._events.extend(event, line, number)
            return True
        self._new(line, now_ns, origin, offset, number, headed=True)
        if fmt.clock:
            self._now_ns, self._origin, self._headed = now_ns, _PREVIOUS, True
        text = shown[head.end() :]
        if text.startswith(_TRACEBACK) and fmt is not _PREFIX:
            self._tracebacks[head.group(*fmt.roles, *fmt.stamp)] = len(self._events) - 1
        return True

    def _goes_on_with(self, fmt: LineFormat, head: re.Match[bytes], shown: bytes, number: int) -> int | None:
        """Give the event that a line with a head belongs to all the same: a traceback with repeated heads."""
        text = shown[head.end() :].lstrip(b"\r")
        if fmt is _PREFIX:
            self._prefixed = True
            return self._prefixed_event(head, text, number)
        if not fmt.clock:
            return None
        key = head.group(*fmt.roles, *fmt.stamp)
        event = self._tracebacks.get(key)
        if event is None and text.startswith(_TRACEBACK):
            event = self._event_of_head(fmt, key, number)
            if event is not None:
                self._tracebacks[key] = event
        if event is None:
            self._forget_tracebacks(number)
            return None
        if number - self._last_line(event) > JOIN_LINES:
            del self._tracebacks[key]
            return None
        return event

    def _forget_tracebacks(self, number: int) -> None:
        for key, event in list(self._tracebacks.items()):
            if number - self._last_line(event) > JOIN_LINES:
                del self._tracebacks[key]

    def _event_of_head(self, fmt: LineFormat, key: Key, number: int) -> int | None:
        """Give the newest open event with the same head and second."""
        for event in self._open_events(number):
            head = fmt.pattern.match(strip_escapes(self._events.rows.records[event]))
            if head is not None and head.group(*fmt.roles, *fmt.stamp) == key:
                return event
        return None

    def _prefixed_event(self, head: re.Match[bytes], text: bytes, number: int) -> int | None:
        """Give the event that a line with a process prefix and no time goes on with."""
        who = head.group(0).strip()
        event = next((e for e in self._open_events(number) if self._shown(e).startswith(who)), None)
        if event is None:
            return None
        if not text.strip() or CONTINUED.match(text):
            return event
        lines = self._events.more.get(event, [])
        last = strip_escapes(lines[-1] if lines else self._events.rows.records[event]).removeprefix(who)
        in_traceback = any(_TRACEBACK in line for line in (self._events.rows.records[event], *lines))
        return event if in_traceback and last[:2] in (b"  ", b" \t") else None

    def _shown(self, event: int) -> bytes:
        return strip_escapes(self._events.rows.records[event])

    def _open_events(self, number: int) -> range:
        n = len(self._events)
        first = max(n - self._open, 0)
        while first < n and number - self._last_line(first) > JOIN_LINES:
            first += 1
        return range(n - 1, first - 1, -1)

    def _last_line(self, event: int) -> int:
        return self._events.last_line.get(event, self._events.rows.line[event])

    def _add_headless(self, line: bytes, shown: bytes, offset: int, number: int) -> None:
        if self._is_continuation(shown):
            self._events.extend(len(self._events) - 1, line, number)
            self._note_traceback(shown)
            return
        if not shown.strip():
            return  # a blank line before any event
        self._new(line, self._now_ns, self._origin, offset, number, headed=False)
        self._in_traceback = shown.startswith(_TRACEBACK)

    def _is_continuation(self, shown: bytes) -> bool:
        if not len(self._events):
            return False
        if not shown.strip():
            return True
        if not self._join:
            return False
        if self._in_traceback:
            return True
        if HEADLESS_ENTRY.match(shown):
            return False
        if self._headed:
            return self._last_headed or CONTINUED.match(shown) is not None
        if shown.startswith(_TRACEBACK):
            return self._last_headed or self._had_traceback()
        return _CHAINED.match(shown) is not None and self._had_traceback()

    def _had_traceback(self) -> bool:
        event = len(self._events) - 1
        lines = (self._events.rows.records[event], *self._events.more.get(event, ()))
        return any(_TRACEBACK in line for line in lines)

    def _note_traceback(self, shown: bytes) -> None:
        """Follow a bare traceback: it runs from its first line to the first line that is not indented."""
        if shown.startswith(_TRACEBACK):
            self._in_traceback = True
        elif shown.strip() and not shown[:1].isspace():
            self._in_traceback = False

    def _new(self, line: bytes, now_ns: int, origin: int, offset: int, number: int, *, headed: bool) -> None:
        self._events.rows.add(line, now_ns, origin, offset, number)
        self._last_headed, self._in_traceback = headed, False
