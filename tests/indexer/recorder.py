"""A ring in memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from treering.storage.acknowledged import Acknowledged
from treering.storage.batch import RawBatch
from treering.storage.ledger import Position
from treering.storage.rejects import Reject


@dataclass
class Recorder:
    """A ring in memory: what was acknowledged, in order."""

    batches: list[RawBatch] = field(default_factory=list)
    known: dict[str, Position] = field(default_factory=dict)
    rejected: list[Reject] = field(default_factory=list)
    next_seq: int = 0

    def position(self, fingerprint: str) -> Position | None:
        return self.known.get(fingerprint)

    def positions(self) -> Mapping[str, Position]:
        return self.known

    def rejects(self) -> Iterator[Reject]:
        return iter(self.rejected)

    def acknowledged(self, first_seq: int, end_seq: int) -> list[Acknowledged]:
        found, seq = [], 0
        for raw in self.batches:
            for row in range(raw.n_rows):
                offset, ts_ns, origin = (int(a[row]) for a in (raw.offset, raw.ts_ns, raw.ts_origin))
                name = raw.sources[raw.source[row]].name
                found.append(Acknowledged(seq + row, name, offset, ts_ns, origin, raw.record(row)))
            seq += raw.n_rows
        return found[first_seq:end_seq]

    def append(
        self,
        raw: RawBatch,
        *,
        positions: Sequence[Position] = (),
        rejects: Sequence[Reject] = (),
    ) -> int:
        self.batches.append(raw)
        self.known.update({p.fingerprint: p for p in positions})
        self.rejected += rejects
        self.next_seq += raw.n_rows
        return self.next_seq - raw.n_rows

    @property
    def records(self) -> list[bytes]:
        return [raw.record(i) for raw in self.batches for i in range(raw.n_rows)]
