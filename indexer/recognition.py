"""Which bytes of a source the store has taken before, whatever the source was called then.

A source is looked up by what it begins with, and compared by digests of its beginnings: at the end of what was
taken, and at the marks before. Where it ends or goes on otherwise behind a mark, the records that follow are
compared with those that the store holds. Bytes that are the same from the beginning on are the same bytes;
but a source that goes on otherwise than the one it begins like, and shares no record with a time of its own,
is another one that begins alike (a new log with the old banner), and nothing of it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Protocol

from treering.storage.errors import DamageError
from treering.storage.ledger import Position

from .beginnings import End, Records, Shared, Stretch, has_times, shared
from .fingerprints import Known, first_line, known_by
from .lines import Batch
from .taken import HEAD_BYTES, Taken

MAX_RIVALS = 16
"""Sources that begin alike, the newest, whose records are compared with those of a new one."""

KEPT_LEAST_BYTES = 1 << 20
"""Bytes that are kept at least, of a source that begins like a known one: letting go of fewer is not worth it."""

Warn = Callable[[str], None]
Reading = Callable[[Iterator[bytes], int, int, bool], Iterator[Batch]]
"""Makes batches of chunks, which begin at an offset and a number of lines, to the end of the source or not."""


class Ledger(Known, Records, Protocol):
    """What a store remembers of sources and their records."""

    def positions(self) -> Mapping[str, Position]:
        """Give how far all sources have been taken, by fingerprint, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """Where the reading of a source begins: before it all is known.

    position: of what is known; it has neither fingerprint nor digest where the source goes on otherwise than the
    known one. is_all: the source ends there.
    """

    offset: int = 0
    line: int = 0
    position: Position | None = None
    is_all: bool = False


@dataclass(slots=True)
class _Candidate:
    """A source that may be the same. place: digests that agree. bound: offset before which it is known to differ."""

    position: Position
    place: int = 0
    bound: int | None = None

    @property
    def point(self) -> tuple[int, str]:
        """Offset and digest of the next place to compare."""
        if self.place == len(self.position.marks):
            return self.position.offset, self.position.digest
        mark = self.position.marks[self.place]
        return mark.offset, mark.digest

    @property
    def is_same(self) -> bool:
        """Whether all that was taken of it is the same."""
        return self.place > len(self.position.marks)

    @property
    def is_open(self) -> bool:
        """Whether there is a place to compare."""
        return self.bound is None and not self.is_same

    @property
    def reached(self) -> int:
        """Up to which offset it agrees, and reading may have to go on from."""
        if self.is_same and not self.position.unfinished:
            return self.position.offset
        marks = self.position.marks[: self.place]
        return marks[-1].offset if marks else 0


@dataclass(slots=True)
class Recognition:
    """Tells for one source after the other where its reading begins."""

    ledger: Ledger
    _by_first_line: dict[str, list[str]] | None = None
    _has_times: dict[str, bool] = field(default_factory=dict)

    def start(self, stream: Taken, read: Reading, warn: Warn) -> Start:
        """Give where to go on with a source, and bring the stream there or before.

        read: makes records of its bytes. warn: is told what could not be compared.
        """
        stream.keep()
        while stream.offset < HEAD_BYTES and stream.read():
            pass
        candidates = [_Candidate(position) for position in known_by(self.ledger, stream.head())]
        self._compare_digests(stream, candidates)
        same = max((c for c in candidates if c.is_same), key=lambda c: c.position.offset, default=None)
        start = _grown(stream, same.position) if same else Start()
        if not stream.is_at_end or stream.offset > start.offset:
            rivals = [c for c in candidates if not c.is_same]
            start = self._beyond(stream, start, rivals, partial(self._compare_records, stream, read, warn))
        stream.go_back(start.offset)
        return start

    def note(self, position: Position) -> None:
        """Remember a source that was not known before."""
        if self._by_first_line is not None:
            self._by_first_line.setdefault(position.first_line, []).append(position.fingerprint)

    def _compare_digests(self, stream: Taken, candidates: list[_Candidate]) -> None:
        """Compare as far as the stream and any candidate go; what may have to be read again stays kept."""
        points = [(c.point, i) for i, c in enumerate(candidates)]
        heapify(points)
        while points and stream.reaches(points[0][0][0]):
            (offset, digest), i = heappop(points)
            if stream.digest(offset).startswith(digest):
                candidates[i].place += 1
            else:
                candidates[i].bound = offset
            if candidates[i].is_open:
                heappush(points, (candidates[i].point, i))
            if offset >= stream.kept_from + KEPT_LEAST_BYTES and self._is_settled(stream, candidates, offset):
                stream.keep()

    def _is_settled(self, stream: Taken, candidates: list[_Candidate], offset: int) -> bool:
        """Whether nothing before `offset` has to be read again."""
        agreed = max(c.reached for c in candidates)
        rest = [c for c in candidates if c.bound is None or c.bound > agreed]
        if any(c.reached < offset for c in rest):
            return False
        return stream.restart is not None or any(c.is_same or self._is_timed(c) for c in rest)

    def _is_timed(self, candidate: _Candidate) -> bool:
        position = candidate.position
        if position.fingerprint not in self._has_times:
            with suppress(DamageError):  # then nothing is known of its times; comparing says what is damaged
                self._has_times[position.fingerprint] = has_times(self.ledger, position)
        return self._has_times.get(position.fingerprint, False)

    def _beyond(
        self, stream: Taken, start: Start, rivals: list[_Candidate], compare: Callable[[_Candidate], Shared]
    ) -> Start:
        """Give where a source goes on otherwise than those that begin alike, `start` where it does so there."""
        if stream.kept_from == 0:
            rivals = [*rivals, *self._of_first_line(stream, rivals)]
        rivals = [c for c in rivals if c.bound is None or c.bound > start.offset]
        rivals = [c for c in rivals if c.reached >= stream.kept_from]
        if rivals:
            stream.read()  # the record in which it differs, if not the end
        for rival in sorted(rivals, key=self._order, reverse=True)[:MAX_RIVALS]:
            found = compare(rival)
            if found.is_all:
                return Start(stream.offset, found.line, rival.position, is_all=True)
            if self._is_further(start, rival, found):
                start = _differing(rival, found)
        return start

    def _is_further(self, start: Start, rival: _Candidate, found: Shared) -> bool:
        """Whether a source has more in common with a rival than what is known, and surely comes of it."""
        if found.offset <= start.offset:
            return False
        return found.is_timed or (rival.place > 0 and self._is_timed(rival))

    def _order(self, rival: _Candidate) -> tuple[int, bool]:
        return rival.reached, self._has_times.get(rival.position.fingerprint, False)

    def _compare_records(
        self, stream: Taken, read: Reading, warn: Warn, rival: _Candidate, *, trusts: bool = True
    ) -> Shared:
        offset, line, _, _ = rival.position.stretch(rival.place)
        n_bytes = (max(stream.line_start, offset) if stream.is_at_end else stream.offset) - offset
        batches = read(_first(stream.kept(offset), n_bytes), offset, line, stream.is_at_end)
        end = End(offset + n_bytes, b"".join(stream.kept(offset + n_bytes))) if stream.is_at_end else None
        try:
            stretch = Stretch(self.ledger, rival.position, rival.place, trusts)
            found = shared(stretch, batches, end=end)
        except DamageError as error:
            warn(f"not compared with what was taken of {rival.position.name}: {error}")
            return Shared(offset, line)
        if stretch.has_trusted and (found.is_all or self._is_further(Start(offset), rival, found)):
            return self._compare_records(stream, read, warn, rival, trusts=False)
        return found

    def _of_first_line(self, stream: Taken, others: list[_Candidate]) -> list[_Candidate]:
        """Give the newest sources with the same first line. They differ in the first 4096 bytes, or it ends there."""
        if self._by_first_line is None:
            self._by_first_line = {}
            for position in self.ledger.positions().values():
                self.note(position)
        known = {c.position.fingerprint for c in others}
        slots = [s for s in self._by_first_line.get(first_line(stream.head()), ()) if s not in known]
        found = [self.ledger.position(slot) for slot in reversed(slots[-MAX_RIVALS:])]
        bound = None if stream.is_at_end else HEAD_BYTES
        return [_Candidate(p, _agreeing(stream.head(), p), bound) for p in found if p]


def _grown(stream: Taken, position: Position) -> Start:
    """Give where to go on with a source of which all that was taken is the same."""
    start = Start(position.offset, position.line, position)
    if not position.unfinished or not stream.reaches(position.offset + 1):
        return start
    behind = next(stream.kept(position.offset))[:1]
    if behind in (b"\n", b"\r"):
        return start
    # The line went on: it is taken whole, and what was taken of it stays an event.
    return Start(position.offset - position.unfinished, position.line, position)


def _differing(rival: _Candidate, found: Shared) -> Start:
    known = rival.position.cut(rival.place, found.offset, found.line, found.run)
    return Start(found.offset, found.line, known)


def _agreeing(head: bytes, position: Position) -> int:
    """Give how many of a position's marks a source that begins with `head` agrees with, no further than that."""
    n = 0
    for mark in position.marks:
        if mark.offset > len(head) or not blake2b(head[: mark.offset]).hexdigest().startswith(mark.digest):
            break
        n += 1
    return n


def _first(chunks: Iterator[bytes], n_bytes: int) -> Iterator[bytes]:
    """Give the first `n_bytes` of some chunks, a small piece first: most sources differ early."""
    piece_bytes = HEAD_BYTES
    for chunk in chunks:
        at = 0
        while at < len(chunk) and n_bytes > 0:
            piece = chunk[at : at + min(piece_bytes, n_bytes)]
            at, n_bytes, piece_bytes = at + len(piece), n_bytes - len(piece), 1 << 16
            yield piece
