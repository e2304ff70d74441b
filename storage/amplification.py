"""How many bytes a store wrote for those that it acknowledged, and what is left to compact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .fold import tier
from .meta import SegmentMeta


@dataclass(frozen=True, slots=True)
class Amplification:
    """What was written since the store was made, by what wrote it, in bytes.

    log: what appends acknowledged, in the log. by: everything, the log included (`log`, `flush`, `late`,
    `compact`). tiers: segments by tier, 4**tier events and more. n_pending: segments whose vectors or signals
    are still to come.
    """

    log: int
    by: Mapping[str, int]
    tiers: Mapping[int, int]
    n_pending: int

    @classmethod
    def of(cls, written: Mapping[str, int], open_log: int, segments: Iterable[SegmentMeta]) -> Amplification:
        """Make it of what the root says of the past, the bytes of the open log, and the segments."""
        metas = list(segments)
        by = {name: written.get(name, 0) for name in ("log", "flush", "late", "compact")} | dict(written)
        by["log"] += open_log
        tiers = Counter(tier(meta) for meta in metas)
        n_pending = sum(not meta.is_finished for meta in metas)
        return cls(by["log"], by, dict(sorted(tiers.items())), n_pending)

    @property
    def total(self) -> int:
        """Bytes written in all."""
        return sum(self.by.values())

    @property
    def factor(self) -> float | None:
        """Bytes written for each that was acknowledged, None while nothing was."""
        return self.total / self.log if self.log else None
