"""What a look at a store's files found: what is wrong with which file, what that costs, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .stored_file import Json

CheckProgress = Callable[[int, int, str], None]
"""Called with what is done, what there is in all, and the unit of both."""

SALVAGE = "restore the store from a copy, or keep what is left with `treering check --salvage`"
"""What to do where data is out of reach."""

REPAIR = "`treering check --repair` makes it anew"
"""What to do where nothing is lost."""


class Severity(StrEnum):
    """How bad a finding is."""

    DAMAGED = "damaged"
    """Data is out of reach, or an answer could be wrong."""
    DERIVED = "derived"
    """What is wrong follows from other files, and can be made anew from these."""
    UNFINISHED = "unfinished"
    """Something was begun and is not done: what was erased still stands in files. Answers are right."""
    LEFTOVER = "leftover"
    """Nothing counts on the file: a crash left it, or a reader of an older version keeps it."""
    NOTE = "note"
    """Worth knowing, and nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    file: below the directory of the store. what: what is wrong with it. todo: what to do. n_rows: events out of
    reach by it (the same events may be out of reach by several findings), t_min, t_max: between which times, ns,
    inclusive, None where nobody knows. segment_id: of the segment that the file belongs to.
    """

    severity: Severity
    file: str
    what: str
    todo: str
    n_rows: int = 0
    t_min: int | None = None
    t_max: int | None = None
    segment_id: str | None = None

    def to_json(self) -> Json:
        """Give it as JSON values."""
        return {
            "severity": str(self.severity),
            "file": self.file,
            "what": self.what,
            "todo": self.todo,
            "events": self.n_rows,
            "t_min_ns": self.t_min,
            "t_max_ns": self.t_max,
            "segment": self.segment_id,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that a salvage could not keep.

    kind: `events`, `column`, `payloads`, `vectors`, `positions`, `rejects`, `audit` or `model`. file: what it was
    in, below the directory of the store. n: how many (events; rows of a column; payloads; vectors; sources;
    rejects; records), None where nobody knows. what: one line for people. seqs: sequence numbers of lost events, or
    of those whose records are lost with payloads, as ranges `[first, end)`, ascending; where only their bounds are
    known, these hold more than `n` numbers. t_min, t_max: as of a `Finding`. name: of the column.
    """

    kind: str
    file: str
    n: int | None
    what: str
    seqs: tuple[tuple[int, int], ...] = ()
    t_min: int | None = None
    t_max: int | None = None
    name: str | None = None

    def to_json(self) -> Json:
        """Give it as JSON values."""
        return {
            "kind": self.kind,
            "file": self.file,
            "n": self.n,
            "what": self.what,
            "seqs": [list(one) for one in self.seqs],
            "t_min_ns": self.t_min,
            "t_max_ns": self.t_max,
            "name": self.name,
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found, and what a repair or a salvage did before it.

    version: of the manifest that was looked at. events: in segments and in the log, as far as they are known.
    files, bytes: that were looked at. audit_head: hash of the last audit record, empty without one. repairs:
    what was mended, a line each. losses: what a salvage could not keep. aside: where it moved what was damaged.
    """

    path: Path
    version: int
    is_deep: bool
    findings: Sequence[Finding]
    segments: int
    events: int
    files: int
    bytes: int
    audit_head: str
    seconds: float
    repairs: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    aside: str | None = None

    @property
    def is_clean(self) -> bool:
        """Whether every file is as it should be; leftovers, notes and what is not finished do not count."""
        return not self.of(Severity.DAMAGED) and not self.of(Severity.DERIVED)

    @property
    def n_unreachable(self) -> int:
        """Number of events that are out of reach, each segment counted once."""
        by_segment: dict[str, int] = {}
        n_others = 0
        for finding in self.of(Severity.DAMAGED):
            if finding.segment_id is None:
                n_others += finding.n_rows
            else:
                known = by_segment.get(finding.segment_id, 0)
                by_segment[finding.segment_id] = max(known, finding.n_rows)
        return n_others + sum(by_segment.values())

    def of(self, severity: Severity) -> list[Finding]:
        """Give the findings of one severity."""
        return [finding for finding in self.findings if finding.severity == severity]

    def to_json(self) -> Json:
        """Give it as JSON values."""
        return {
            "path": str(self.path),
            "version": self.version,
            "deep": self.is_deep,
            "clean": self.is_clean,
            "events": self.events,
            "events_out_of_reach": self.n_unreachable,
            "segments": self.segments,
            "files": self.files,
            "bytes": self.bytes,
            "audit_head": self.audit_head,
            "findings": [finding.to_json() for finding in self.findings],
            "repairs": list(self.repairs),
            "losses": [loss.to_json() for loss in self.losses],
            "aside": self.aside,
            "seconds": round(self.seconds, 3),
        }
