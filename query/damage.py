"""Answers from what of a damaged store can be read: for whoever asks for that, and told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from treering.storage.errors import DamageError
from treering.storage.part import Part
from treering.storage.snapshot import Snapshot

from .result import Result
from .times_out import format_time


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A segment that was left out. t_min, t_max: its first and last event, ns, inclusive. reason: what is wrong."""

    segment: str
    n_rows: int
    t_min: int
    t_max: int
    reason: str

    def __str__(self) -> str:
        """Give one line for people."""
        first, last = format_time(self.t_min, "UTC"), format_time(self.t_max, "UTC")
        return f"{self.n_rows:,} events from {first} to {last} are out of reach: {self.reason}"


def ask_what_is_left(snapshot: Snapshot, ask: Callable[[Snapshot], Result]) -> Result:
    """Give the answer of the segments that can be read; its meta says which cannot.

    Every row is read once before, so that damage shows now and not while the answer is printed. Raises DamageError
    for a file that is of no segment.
    """
    lost: list[Unreachable] = []
    while True:
        try:
            result = ask(snapshot)
            deque(result, maxlen=0)
        except DamageError as error:
            part = _damaged_part(snapshot.parts, error)
            lost.append(Unreachable(part.id, part.n_rows, part.t_min, part.t_max, str(error)))
            snapshot = snapshot.without(part.id)
            continue
        result.meta["unreachable"] = lost
        result.meta["complete"] = bool(result.meta["complete"]) and not lost
        return result


def _damaged_part(parts: Iterable[Part], error: DamageError) -> Part:
    found = next((part for part in parts if part.id == error.segment_id), None)
    if found is None:
        raise error
    return found
