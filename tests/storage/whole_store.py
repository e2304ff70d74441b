"""A small store with every kind of file, what is in it as plain Python has it, and ways to damage it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
import pyarrow as pa

from tests.storage.records import MODEL, SECOND_NS, position, reject, text_keys, vectors_of
from treering.storage.batch import KEY, ColumnBatch, Keys, ModelInfo, RawBatch, Source, TextParts
from treering.storage.cleaner import Cleaner
from treering.storage.cut import Cut, State, cut_chosen
from treering.storage.eraser import Act
from treering.storage.part import Part
from treering.storage.rejects import Reject
from treering.storage.ring import Ring

Event = tuple[int, str, str]
"""Time in ns, body, id."""

N_TEXTS = 40


def body_of(n: int) -> str:
    return f"text {n % N_TEXTS} of many"


def id_of(n: int) -> str:
    return hashlib.md5(str(n).encode()).hexdigest()


def event_of(n: int) -> Event:
    return n * SECOND_NS, body_of(n), id_of(n)


def records(numbers: Sequence[int]) -> RawBatch:
    """Records {"n", "body", "id"}, one a second."""
    lines = [orjson.dumps({"n": n, "body": body_of(n), "id": id_of(n)}) for n in numbers]
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
    return RawBatch(
        sources=(Source("a.jsonl", "test", {}),),
        ts_ns=np.array([n * SECOND_NS for n in numbers], np.int64),
        ts_origin=np.zeros(len(lines), np.uint8),
        source=np.zeros(len(lines), np.uint16),
        offset=ends - np.array([len(line) for line in lines], np.int64),
        line=np.arange(1, len(lines) + 1, dtype=np.int64),
        ends=ends,
        records=b"".join(lines),
    )


def decode(raw: RawBatch, first_seq: int) -> ColumnBatch:
    """Decode such records: a number `n#i`, a noise `noise#f` that fills many pages, texts and ids."""
    rows = [orjson.loads(raw.record(row)) for row in range(raw.n_rows)]
    n, bodies = raw.n_rows, [row["body"] for row in rows]
    columns = {
        "ts": pa.array(raw.ts_ns),
        "seq": pa.array(np.arange(first_seq, first_seq + n)),
        "ts_origin": pa.array(raw.ts_origin),
        "source": pa.array([raw.sources[i].name for i in raw.source]).dictionary_encode(),
        "source_offset": pa.array(raw.offset),
        "record": pa.array([raw.record(row) for row in range(n)], pa.binary()),
        "n#i": pa.array([row["n"] for row in rows], pa.int64()),
        "noise#f": pa.array([(row["n"] * 0.618) % 1 for row in rows]),
        "tenant_id": pa.array([f"t{row['n'] % 3}" for row in rows]),
        "request_id": pa.array([row["id"] for row in rows]),
        "body": pa.array(bodies, pa.string()),
    }
    parts, template = texts_of(columns, n, None)
    return ColumnBatch(n, columns, parts, template)


def texts_of(
    columns: Mapping[str, pa.Array], n_rows: int, model: ModelInfo | None
) -> tuple[TextParts, Keys]:
    """Give what such columns embed, and the templates: as a salvage asks for it."""
    bodies = columns["body"].to_pylist() if "body" in columns else [None] * n_rows
    row = np.flatnonzero([body is not None for body in bodies]).astype(np.int32)
    keys = np.zeros(n_rows, KEY)
    keys[row] = text_keys([bodies[i] for i in row])
    n = len(row)
    parts = TextParts(row, np.zeros(n, np.uint8), np.zeros(n, np.int16), keys[row], np.ones(n, np.bool_))
    return parts, keys


def open_store(path: Path, mode: Any = "w", **more: Any) -> Ring:
    return Ring.open(path, mode, decoder=decode, **more)


def embed(ring: Ring) -> None:
    """Add all vectors and a signal that are still to come."""
    if ring.model is None:
        ring.set_model(MODEL)
    for segment in ring.unfinished():
        table = segment.vectors()
        signals = {"score": pa.array(segment.seq.astype(np.float64) / 1000)}
        fresh = vectors_of(table.key[~table.have])
        ring.add_late(segment.id, vectors=fresh, signals=signals, signals_done=True)


class Numbers:
    """Chooses events by number, and no rejects."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = list(numbers)

    def rows(self, parts: Sequence[Part]) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
        return [np.flatnonzero(np.isin(part.numbers("n#i")[0], self._numbers)) for part in parts]

    def rejects(self, rejects: Sequence[Reject]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.zeros(len(rejects), np.bool_)


def delete(ring: Ring, numbers: Sequence[int], *, cleans: bool = True) -> None:
    """Delete events; without `cleans` the files stay as they are, beside a deletion file."""

    def plan(state: State) -> Cut:
        return cut_chosen(state, Numbers(numbers))

    if cleans:
        ring.erase(plan, Act("delete", {"query": "q"}))
        return
    with patch.object(Cleaner, "clean", lambda self: ({}, ())):
        ring.erase(plan, Act("delete", {"query": "q"}))


GONE = (3, 1700, 2405)
"""Numbers of deleted events: of the folded segment, which was rewritten, and of two that have a deletion file."""

N_EVENTS = 2560


def build_store(path: Path) -> dict[int, Event]:
    """Make a store: a folded segment of 1500 events, one with late files, two with deletions, and a log.

    Gives its events by sequence number.
    """
    with open_store(path) as ring:
        ring.append(records(range(1500)), positions=[position(1500)], rejects=[reject(0)])
        ring.flush()
        embed(ring)
        ring.fold()
        delete(ring, GONE[:1])
        embed(ring)
        ring.fold()
        for first, end in ((1500, 2000), (2000, 2400)):
            ring.append(records(range(first, end)), positions=[position(end)], rejects=[reject(end)])
            ring.flush()
        embed(ring)
        ring.append(records(range(2400, 2450)), positions=[position(2450)])
        ring.flush()
        delete(ring, GONE[1:], cleans=False)
        for first in range(2450, N_EVENTS, 10):
            ring.append(records(range(first, first + 10)), rejects=[reject(first)])
    return {n: event_of(n) for n in range(N_EVENTS) if n not in GONE}


def events_in(ring: Ring) -> dict[int, Event]:
    """Give all events of a store by sequence number; each column is checked against the number."""
    found: dict[int, Event] = {}
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            columns = [part.column(name).to_pylist() for name in ("body", "request_id", "record")]
            rows = zip(part.seq.tolist(), part.ts.tolist(), *columns, strict=True)
            for seq, ts, body, one_id, record in rows:
                assert seq not in found
                found[seq] = (ts, body, one_id)
                assert orjson.loads(record) == {"n": seq, "body": body, "id": one_id}
    return found


Damage = Callable[[Path], None]


def flip(path: Path, share: float = 0.5, mask: int = 0x10) -> None:
    """Flip a bit of a byte at a share of a file."""
    whole = bytearray(path.read_bytes())
    whole[min(int(len(whole) * share), len(whole) - 1)] ^= mask
    path.write_bytes(whole)


def cut(path: Path, share: float = 0.5) -> None:
    """Cut a file to a share of it."""
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])


def zero(path: Path, share: float = 0.5) -> None:
    """Fill the page at a share of a file with zeros; a file of zeros is left with other bytes."""
    whole = bytearray(path.read_bytes())
    start = int(len(whole) * share) // 4096 * 4096
    page = bytes(len(whole[start : start + 4096]))
    assert whole[start : start + 4096] != page
    whole[start : start + 4096] = page
    path.write_bytes(whole)


def lose(path: Path) -> None:
    """Remove a file."""
    path.unlink()


DAMAGES: dict[str, Damage] = {
    "flipped at the beginning": lambda path: flip(path, 0.01),
    "flipped in the middle": flip,
    "flipped at the end": lambda path: flip(path, 0.999),
    "cut": cut,
    "cut a little": lambda path: cut(path, 0.97),
    "emptied": lambda path: cut(path, 0.0),
    "zeroed page": zero,
    "missing": lose,
}
