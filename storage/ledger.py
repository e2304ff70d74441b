"""How far each source has been taken, so that loading it again adds only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .stored_file import Json, expect_members

MAX_MARKS = 64
"""Most marks of a source: a shorter copy has at most about a thirtieth of its bytes behind the last it reaches."""

MARK_BYTES = 1 << 20
"""Least bytes between two marks of one load: a store of many small sources has none."""

DIGEST_DIGITS = 32
"""Hex digits of a mark's digest, the first of the whole one: 128 bits."""


@dataclass(frozen=True, slots=True)
class Run:
    """The events of a stretch of a source: `n_rows` of those with sequence numbers in `[first_seq, end_seq)`.

    All of them where the numbers are that many; else other sources were loaded between.
    """

    first_seq: int = 0
    end_seq: int = 0
    n_rows: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether no other source has an event between."""
        return self.end_seq - self.first_seq == self.n_rows

    def joins(self, other: Run) -> bool:
        """Whether the events of the next stretch come right behind these."""
        return not self.n_rows or not other.n_rows or self.end_seq == other.first_seq

    def followed_by(self, other: Run) -> Run:
        """Give the run of this stretch and the next as one."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        return Run(self.first_seq, other.end_seq, self.n_rows + other.n_rows)


NO_EVENTS = Run()
"""The run of a stretch without events."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An earlier place of a source, at which a record begins.

    digest: the first `DIGEST_DIGITS` of that of the bytes [0, offset). run: the events between the mark before
    (or the beginning) and this one.
    """

    offset: int
    line: int
    digest: str
    run: Run


@dataclass(frozen=True, slots=True)
class Position:
    """A source taken up to here; it is acknowledged in one frame with the events before it.

    fingerprint: what the source is recognised by, whatever its name. offset: bytes taken of the decompressed
    stream. line: lines taken. digest: blake2b of the bytes [0, offset), in hex. marks: earlier places,
    ascending: by these a shorter copy of the source is recognised. run: the events behind the last mark.
    first_line: fingerprint of the first line, "" where it is not known. unfinished: bytes at the end that are
    an event made of a line without a line feed, which may still grow.
    """

    fingerprint: str
    name: str
    offset: int
    line: int
    digest: str
    marks: tuple[Mark, ...] = ()
    run: Run = NO_EVENTS
    first_line: str = ""
    unfinished: int = 0

    def stretch(self, place: int) -> tuple[int, int, int, Run]:
        """Give where a stretch between marks begins, and at how many lines; where it ends; and its events."""
        before = self.marks[place - 1] if place else Mark(0, 0, "", NO_EVENTS)
        if place == len(self.marks):
            return before.offset, before.line, self.offset, self.run
        mark = self.marks[place]
        return before.offset, before.line, mark.offset, mark.run

    def taken_on(
        self, name: str, offset: int, line: int, digest: str, run: Run, *, unfinished: int = 0
    ) -> Position:
        """Give the position of the same source up to `offset`; `run`: the events that came."""
        marks, own = self.marks, self.run
        n_bytes = self.offset - (marks[-1].offset if marks else 0)
        if not self.unfinished and (n_bytes >= spacing_bytes(offset) or not own.joins(run)):
            marks = _added(marks, Mark(self.offset, self.line, self.digest[:DIGEST_DIGITS], own))
            own = NO_EVENTS
        return replace(
            self,
            name=name,
            offset=offset,
            line=line,
            digest=digest,
            marks=marks,
            run=own.followed_by(run),
            unfinished=unfinished,
        )

    def cut(self, n_marks: int, offset: int, line: int, run: Run) -> Position:
        """Give the position of another source that is this one up to `offset`, behind `n_marks` marks.

        It has no fingerprint and no digest yet. run: the events between the last of the marks and `offset`.
        """
        return Position("", self.name, offset, line, "", self.marks[:n_marks], run, self.first_line)

    def acknowledged_with(self, end_seq: int) -> Position:
        """Give the position as it is stored: its last events are those before `end_seq`."""
        # Another thread may have appended between the making of the position and its append.
        if not self.run.n_rows or self.run.end_seq == end_seq:
            return self
        return replace(self, run=replace(self.run, end_seq=end_seq))

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {
            "fingerprint": self.fingerprint,
            "name": self.name,
            "offset": self.offset,
            "line": self.line,
            "digest": self.digest,
            "marks": [[m.offset, m.line, m.digest, *_run_to_json(m.run)] for m in self.marks],
            "run": _run_to_json(self.run),
            "first_line": self.first_line,
            "unfinished": self.unfinished,
        }

    @classmethod
    def from_json(cls, obj: Json) -> Position:
        """Read what `to_json` gave."""
        expect_members(obj, _MEMBERS, "position")
        marks = tuple(Mark(offset, line, digest, Run(*run)) for offset, line, digest, *run in obj["marks"])
        return cls(**(obj | {"marks": marks, "run": Run(*obj["run"])}))


_MEMBERS = (*("fingerprint", "name", "offset", "line", "digest", "marks", "run", "first_line", "unfinished"),)


def spacing_bytes(offset: int) -> int:
    """Give the least bytes between two marks of a source of which `offset` bytes are taken: a power of two."""
    return max(MARK_BYTES, 1 << (max(offset - 1, 0) // MAX_MARKS).bit_length())


def _added(marks: Sequence[Mark], mark: Mark) -> tuple[Mark, ...]:
    """Add a mark; if there are too many, leave out the one between the two shortest stretches."""
    kept = [*marks, mark]
    if len(kept) > MAX_MARKS:
        offsets = [0, *(m.offset for m in kept)]
        widths = [offsets[i + 2] - offsets[i] for i in range(len(kept) - 1)]
        i = widths.index(min(widths))
        kept[i : i + 2] = [replace(kept[i + 1], run=kept[i].run.followed_by(kept[i + 1].run))]
    return tuple(kept)


def _run_to_json(run: Run) -> list[Any]:
    return [run.first_seq, run.end_seq, run.n_rows]
