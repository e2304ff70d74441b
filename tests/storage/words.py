"""Events of words for the tests of erasure: what is in a store, and every byte of its files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from tests.storage.faults import CHANGES, Fault, FaultyFiles
from tests.storage.records import MODEL, SECOND_NS, text_keys, vectors_of
from treering.storage.batch import ColumnBatch, RawBatch, Source, TextParts
from treering.storage.cut import Chooser, Cut, Plan, State, cut_chosen
from treering.storage.deletion import Derived
from treering.storage.eraser import Act
from treering.storage.part import Part
from treering.storage.rejects import Reject
from treering.storage.ring import Ring
from treering.storage.snapshot import Snapshot

ACT = Act(
    "delete",
    {"query": "q"},
    (Derived("attention_source", "index", ("attention_collapse", "attention_source")),),
)
Row = tuple[int, int, str]
"""Sequence number, time in seconds, body."""


def words(rows: Iterable[tuple[int, str]], *, name: str = "a.jsonl") -> RawBatch:
    """Records of (time in seconds, body)."""
    given = list(rows)
    lines = [orjson.dumps({"body": body}) for _, body in given]
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
    return RawBatch(
        sources=(Source(name, "test", {}),),
        ts_ns=np.array([t * SECOND_NS for t, _ in given], np.int64),
        ts_origin=np.zeros(len(given), np.uint8),
        source=np.zeros(len(given), np.uint16),
        offset=ends - np.array([len(line) for line in lines], np.int64),
        line=np.arange(1, len(given) + 1, dtype=np.int64),
        ends=ends,
        records=b"".join(lines),
    )


def decode(raw: RawBatch, first_seq: int) -> ColumnBatch:
    """Decode such records: the text is keyed by the first word of its body, and `user#s` is the last."""
    bodies = [orjson.loads(raw.record(row))["body"] for row in range(raw.n_rows)]
    n, keys = raw.n_rows, text_keys([body.split()[0] for body in bodies])
    columns = {
        "ts": pa.array(raw.ts_ns),
        "seq": pa.array(np.arange(first_seq, first_seq + n)),
        "source": pa.array([raw.sources[i].name for i in raw.source]).dictionary_encode(),
        "record": pa.array([raw.record(row) for row in range(n)], pa.binary()),
        "body": pa.array(bodies),
        "user#s": pa.array([body.split()[-1] for body in bodies]),
        "request_id": pa.array([f"id-{body.split()[-1]}" for body in bodies]),
    }
    parts = TextParts(
        np.arange(n, dtype=np.int32), np.zeros(n, np.uint8), np.zeros(n, np.int16), keys, np.ones(n, np.bool_)
    )
    return ColumnBatch(n, columns, parts, keys)


def open_words(path: Path, **more: Any) -> Ring:
    """Open a store of such records."""
    return Ring.open(path, decoder=decode, **more)


def open_copy(base: Path, place: Path, fault: Fault | None = None) -> tuple[Ring, FaultyFiles]:
    """Copy a disk with a store `ring` on it and open that; changes of the copy count from here on."""
    shutil.copytree(base, place)
    files = FaultyFiles(place)
    ring = open_words(place / "ring", files=files)
    files.fault, files.n_calls, files.calls = fault or Fault(-1, among=CHANGES), 0, []
    return ring, files


def reject(text: str) -> Reject:
    """A record that is no event."""
    return Reject("a.jsonl", 1, 0, "no JSON", text.encode())


def embed(ring: Ring) -> dict[str, int]:
    """Add what waits, as `fill` does; give the event that each first word was embedded from."""
    if ring.model is None:
        ring.set_model(MODEL)
    embedded = {}
    for segment in ring.unfinished():
        table = segment.vectors()
        found, known = ring.lookup(table.key[~table.have])
        if len(known):
            ring.add_late(segment.id, vectors=known)
        lacking = np.flatnonzero(~table.have)[~found]
        fresh = vectors_of(table.key[lacking])
        # A vector is of its event's text: here the number of the event is in it.
        fresh.n_tokens[:] = table.exemplar[lacking]
        bodies = dict(zip(segment.seq.tolist(), segment.column("body").to_pylist(), strict=True))
        embedded.update({bodies[seq].split()[0]: seq for seq in table.exemplar[lacking].tolist()})
        signals = {
            "attention_collapse": pa.array(np.full(segment.n_rows, 0.25)),
            "attention_source": pa.array(["index"] * segment.n_rows),
        }
        ring.add_late(segment.id, vectors=fresh, signals=signals, signals_done=True)
    return embedded


class Having:
    """Takes events whose body, and rejects whose record, passes a test."""

    def __init__(self, test: Callable[[str], bool]) -> None:
        self.test = test
        self.before: Callable[[], None] = lambda: None

    def rows(self, parts: Sequence[Part]) -> list[npt.NDArray[np.intp]]:
        chosen = [np.flatnonzero([self.test(body) for body in bodies_of(part)]) for part in parts]
        self.before()
        return chosen

    def rejects(self, rejects: Sequence[Reject]) -> npt.NDArray[np.bool_]:
        return np.array([self.test(one.record.decode()) for one in rejects], np.bool_)


def having(word: str) -> Plan:
    """Plan to take what has this word."""
    return choosing(Having(lambda text: word in text))


def choosing(chooser: Chooser) -> Plan:
    """Plan to take what is chosen."""

    def plan(state: State) -> Cut:
        return cut_chosen(state, chooser)

    return plan


def bodies_of(part: Part) -> list[str]:
    """The bodies of a part, which may have none."""
    bodies: list[str] = part.column("body").to_pylist() if part.n_rows else []
    return bodies


def rows_in(snapshot: Snapshot) -> list[Row]:
    """All events, by sequence number."""
    rows = []
    for part in snapshot.parts:
        times = (part.ts // SECOND_NS).tolist()
        rows += list(zip(part.seq.tolist(), times, bodies_of(part), strict=True))
        if part.n_rows:
            assert part.fields["body"].n == part.n_rows
            assert (part.t_min, part.t_max) == (part.ts.min(), part.ts.max())
    assert len(rows) == snapshot.n_rows
    return sorted(rows)


def stored(ring: Ring) -> list[Row]:
    """All events of a store, by sequence number."""
    with ring.snapshot() as snapshot:
        return rows_in(snapshot)


def vector_events(ring: Ring) -> dict[str, int | None]:
    """The event that the vector of each first word is made of, None where it is still to come."""
    found: dict[str, int | None] = {}
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            table, bodies = part.vectors(), bodies_of(part)
            for body, vec in zip(bodies, part.vec_of_row().tolist(), strict=True):
                event = int(table.n_tokens[vec]) if table.have[vec] else None
                assert event is None or event == table.exemplar[vec]
                assert found.setdefault(body.split()[0], event) == event
    return found


def files_with(path: Path, token: str) -> set[str]:
    """Names of the files of a store that hold a text anywhere: as it is, or in a buffer of Arrow."""
    wanted = token.encode()
    return {
        str(file.relative_to(path))
        for file in path.rglob("*")
        if file.is_file() and any(wanted in data for data in contents(file))
    }


def contents(file: Path) -> Iterator[bytes]:
    """A file's bytes, and those of every Arrow buffer in it without its compression."""
    data = file.read_bytes()
    yield data
    if data.startswith(b"ARROW1"):
        with pa.ipc.open_file(data) as reader:
            for number in range(reader.num_record_batches):
                for column in reader.get_batch(number).columns:
                    yield from _buffers(column)


def _buffers(array: pa.Array) -> Iterator[bytes]:
    yield from (buffer.to_pybytes() for buffer in array.buffers() if buffer is not None)
    if pa.types.is_dictionary(array.type):
        yield from _buffers(array.dictionary)


def without(rows: Sequence[Row], word: str) -> list[Row]:
    """Events that lack a word."""
    return [row for row in rows if word not in row[2]]


def counts(details: Mapping[str, Any], names: Collection[str]) -> tuple[Any, ...]:
    """Some members of an audit record."""
    return tuple(details[name] for name in names)
