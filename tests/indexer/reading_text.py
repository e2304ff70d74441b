"""The events that a text log is read as."""

from dataclasses import dataclass
from datetime import UTC, datetime

from treering.indexer.clocks import Clock
from treering.indexer.lineheads import detect
from treering.indexer.textlog import TextReader
from treering.storage.batch import Source

LATEST_S = int(datetime(2026, 8, 5, tzinfo=UTC).timestamp())


@dataclass(frozen=True)
class Event:
    line: int
    origin: int
    ts: str
    record: bytes


def read_text(
    text: bytes, *, step: int = 1 << 20, join: bool = True, headed: bool = True
) -> tuple[list[Event], int, int]:
    formats = detect(text.split(b"\n"))
    source = Source("x.log", "text", {"formats": [f.name for f in formats]})
    reader = TextReader(source, formats, Clock(latest_s=LATEST_S), first_ns=0, headed=headed, join=join)
    batches = [reader.feed(text[i : i + step]) for i in range(0, len(text), step)] + [reader.finish()]
    events = []
    for batch in batches:
        raw = batch.raw
        for i in range(raw.n_rows):
            at = datetime.fromtimestamp(int(raw.ts_ns[i]) / 1e9, UTC).replace(tzinfo=None).isoformat()
            events.append(Event(int(raw.line[i]), int(raw.ts_origin[i]), at, raw.record(i)))
            start = int(raw.offset[i])
            first = raw.record(i).split(b"\n")[0]
            assert text[start : start + len(first)] == first
    assert batches[-1].offset == len(text)
    return events, sum(b.n_joined for b in batches), sum(b.n_lines for b in batches)
