"""How far a source goes along with another one, told by the records that the store holds of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from treering.storage.acknowledged import Acknowledged
from treering.storage.batch import TS_ORIGINS
from treering.storage.ledger import NO_EVENTS, Position, Run
from treering.storage.rejects import Reject

from .lines import Batch

LOOK_EVENTS = 4096
"""Events that are taken from the store at a time."""

MAX_SPREAD = 1 << 20
"""A stretch whose events lie among more than this many others is not looked through."""

_RECORD = TS_ORIGINS.index("record")


class Records(Protocol):
    """What a store remembers of records."""

    def acknowledged(self, first_seq: int, end_seq: int) -> list[Acknowledged]:
        """Give the records of the events with these sequence numbers."""
        ...

    def rejects(self) -> Iterator[Reject]:
        """Give the records that are no events."""
        ...


@dataclass(frozen=True, slots=True)
class Shared:
    """What a source has in common with a stretch of another.

    offset, line: where the first record begins that they do not share, and the lines before it. run: the
    events of the other that they share. is_timed: whether one of them has a time of its own, the same in both.
    is_all: whether the source ends before they differ.
    """

    offset: int
    line: int
    run: Run = NO_EVENTS
    is_timed: bool = False
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """How a source ends: with the line `torn` at `offset`, which has no line feed; empty where the last has one."""

    offset: int
    torn: bytes


@dataclass(slots=True)
class Stretch:
    """What the store holds of a stretch of a source: its events one after the other, and its rejects.

    trusts: takes every reject for one of the source, which spares to read those of the store. has_trusted:
    whether it did.
    """

    records: Records
    position: Position
    place: int
    trusts: bool = False
    has_trusted: bool = False
    first_seq: int | None = None
    end_seq: int = 0
    n_passed: int = 0
    _events: Iterator[Acknowledged] = field(init=False)
    _next: Acknowledged | None = field(init=False)
    _rejects: dict[int, bytes] | None = None

    def __post_init__(self) -> None:
        self._events = _without_torn(_events(self.records, self.position, self.place))
        self._next = next(self._events, None)

    @property
    def next(self) -> Acknowledged | None:
        """The next event, None behind the last."""
        return self._next

    def step(self) -> None:
        """Go on to the event behind the next."""
        assert self._next is not None
        self.first_seq = self._next.seq if self.first_seq is None else self.first_seq
        self.end_seq, self.n_passed = self._next.seq + 1, self.n_passed + 1
        self._next = next(self._events, None)

    def holds_reject(self, offset: int, start: bytes, *, whole: bytes | None = None) -> bool:
        """Whether a record that begins with `start`, or is `whole`, was rejected at this place."""
        if self.trusts:
            self.has_trusted = True
            return True
        if self._rejects is None:
            name, least = self.position.name, self.position.stretch(self.place)[0]
            found = (r for r in self.records.rejects() if r.source == name and r.offset >= least)
            self._rejects = {reject.offset: reject.record for reject in found}
        record = self._rejects.get(offset)
        return record is not None and (record == whole or record.startswith(start))

    @property
    def passed(self) -> Run:
        """The events that were stepped over."""
        return NO_EVENTS if self.first_seq is None else Run(self.first_seq, self.end_seq, self.n_passed)


@dataclass(frozen=True, slots=True)
class _Item:
    offset: int
    line: int
    record: bytes
    ts_ns: int | None
    is_reject: bool = False


def shared(stretch: Stretch, batches: Iterator[Batch], *, end: End | None) -> Shared:
    """Compare what a reader makes of a source's whole lines, from where the stretch begins, with the stretch.

    end: how the source ends behind the batches, None where it goes on.
    """
    offset, line, _, _ = stretch.position.stretch(stretch.place)
    is_timed = False
    for batch in batches:
        items = _items(batch)
        for at, item in enumerate(items):
            if not _is_held(item, stretch):
                run, is_last = stretch.passed, next(batches, None) is None
                is_all = end is not None and is_last and _is_cut(items[at:], stretch, end)
                return Shared(item.offset, item.line - 1, run, is_timed, is_all)
            if not item.is_reject:
                is_timed = is_timed or _is_timed(item, stretch.next)
                stretch.step()
        offset, line = max(offset, batch.offset), max(line, batch.line)
    run = stretch.passed
    is_all = end is not None and _is_cut((), stretch, end)
    return Shared(offset, line, run, is_timed, is_all)


def has_times(records: Records, position: Position) -> bool:
    """Whether events at the beginning of a source have times of their own."""
    run = position.stretch(0)[3]
    first = records.acknowledged(run.first_seq, min(run.end_seq, run.first_seq + LOOK_EVENTS))
    return any(one.source == position.name and one.ts_origin == _RECORD for one in first)


def _is_held(item: _Item, stretch: Stretch) -> bool:
    if item.is_reject:
        return stretch.holds_reject(item.offset, item.record + b"\n", whole=item.record)
    held = stretch.next
    return held is not None and (held.offset, held.record) == (item.offset, item.record)


def _is_timed(item: _Item, held: Acknowledged | None) -> bool:
    return held is not None and held.ts_origin == _RECORD and held.ts_ns == item.ts_ns


def _is_cut(items: Sequence[_Item], stretch: Stretch, end: End) -> bool:
    """Whether the last records of a source, and what it ends in, are beginnings of what the store holds there."""
    torn = end.torn.rstrip(b"\r")
    is_held = not torn.strip()
    for item in items:
        # A document that was cut is one reject, with its line feeds.
        start = item.record if item.is_reject and item.record.endswith(b"\n") else item.record + b"\n"
        held = stretch.next
        if held is not None and held.offset == item.offset:
            stretch.step()
            if held.record != item.record and not held.record.startswith(start):
                return False
            is_held = is_held or held.record.startswith(start + torn)
        elif not stretch.holds_reject(item.offset, start, whole=item.record):
            return False
        else:
            is_held = is_held or stretch.holds_reject(item.offset, start + torn)
    held = stretch.next
    if held is not None and held.offset == end.offset:
        return is_held or held.record.startswith(torn)
    return is_held or stretch.holds_reject(end.offset, torn)


def _items(batch: Batch) -> list[_Item]:
    raw = batch.raw
    times = [
        ts_ns if origin == _RECORD else None
        for ts_ns, origin in zip(raw.ts_ns.tolist(), raw.ts_origin.tolist(), strict=True)
    ]
    events = [
        _Item(offset, line, raw.record(row), times[row])
        for row, (offset, line) in enumerate(zip(raw.offset.tolist(), raw.line.tolist(), strict=True))
    ]
    rejects = [_Item(r.offset, r.line, r.record, None, is_reject=True) for r in batch.rejects]
    return sorted(events + rejects, key=lambda item: item.offset) if rejects else events


def _events(records: Records, position: Position, place: int) -> Iterator[Acknowledged]:
    run = position.stretch(place)[3]
    name = None if run.is_whole else position.name
    if name is not None and not _is_alone(records, position, place):
        return
    for one in _look(records, run):
        if name is None or one.source == name:
            yield one


def _is_alone(records: Records, position: Position, place: int) -> bool:
    """Whether, of the events among which a stretch lies, those of its name are surely the stretch."""
    start, _, end, run = position.stretch(place)
    if run.end_seq - run.first_seq > MAX_SPREAD:
        return False
    n_events, last = 0, None
    for one in _look(records, run):
        if one.source != position.name:
            continue
        if not start <= one.offset < end or (last is not None and not _follows(one, last)):
            return False
        n_events, last = n_events + 1, one
    return n_events == run.n_rows


def _follows(one: Acknowledged, last: Acknowledged) -> bool:
    """Whether a record may be the next of its source: behind the last, or the whole of it."""
    return one.offset > last.offset or (one.offset == last.offset and one.record.startswith(last.record))


def _look(records: Records, run: Run) -> Iterator[Acknowledged]:
    for first_seq in range(run.first_seq, run.end_seq, LOOK_EVENTS):
        yield from records.acknowledged(first_seq, min(first_seq + LOOK_EVENTS, run.end_seq))


def _without_torn(events: Iterator[Acknowledged]) -> Iterator[Acknowledged]:
    """Leave out unfinished lines that came again when they were whole."""
    held = next(events, None)
    while held is not None:
        following = next(events, None)
        if following is None or following.offset != held.offset:
            yield held
        held = following
