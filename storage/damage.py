"""What to say of a damaged file of a segment: where it lies, what is lost with it, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import DamageError
from .meta import SegmentMeta

MEND = "restore it from a copy of the store, or keep what is left with `treering check --salvage`"
"""What to do about a damaged file."""

TOLD_ROWS = 10
"""So many rows are told by their numbers."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A file of a segment. loss: what is out of reach while it is damaged, and what to do."""

    path: Path
    segment_id: str | None = None
    loss: str = MEND

    def damage(self, what: str) -> DamageError:
        """Give the error that says what is wrong with the file."""
        text = f"segment file {self.path} is damaged: {what}; {self.loss}"
        return DamageError(text, path=self.path, segment_id=self.segment_id, what=what)


def origin_of(path: Path, meta: SegmentMeta, *, is_derived: bool, has_payloads: bool = False) -> Origin:
    """Give what damage to one file of a segment means. has_payloads: the file has these and nothing else."""
    if is_derived:
        loss = "what it holds is made anew in memory, `treering check --repair` writes it anew"
    else:
        events = f"{meta.n_live:,} events of segment {meta.id}"
        if has_payloads:
            events = f"records with payloads of the {events}"
        loss = f"{events} from {_time(meta.t_min)} to {_time(meta.t_max)} are out of reach; {MEND}"
    return Origin(path, meta.id, loss)


def of_records(error: DamageError, rows: Sequence[int]) -> DamageError:
    """Give the error of a file of payloads with the rows whose records cannot be read."""
    shown = ", ".join(map(str, rows[:TOLD_ROWS]))
    more = f" and {len(rows) - TOLD_ROWS:,} more" if len(rows) > TOLD_ROWS else ""
    text = f"{error}; asked for were the records of its rows {shown}{more}"
    return DamageError(text, path=error.path, segment_id=error.segment_id, what=error.what)


def _time(t_ns: int) -> str:
    return f"{np.datetime64(t_ns, 'ns')}Z"
