"""What to say of a damaged file of a segment: where it lies, what is lost with it, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import DamageError
from .meta import SegmentMeta

MEND = "restore it from a copy of the store, or keep what is left with `treering check --salvage`"
"""What to do about a damaged file."""


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


def origin_of(path: Path, meta: SegmentMeta, *, is_derived: bool) -> Origin:
    """Give what damage to one file of a segment means."""
    if is_derived:
        loss = "what it holds is made anew in memory, `treering check --repair` writes it anew"
    else:
        loss = (
            f"{meta.n_live:,} events of segment {meta.id} from {_time(meta.t_min)} to {_time(meta.t_max)} "
            f"are out of reach; {MEND}"
        )
    return Origin(path, meta.id, loss)


def _time(t_ns: int) -> str:
    return f"{np.datetime64(t_ns, 'ns')}Z"
