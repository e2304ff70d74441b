"""A small store with every kind of file, what is in it as plain Python has it, and ways to damage it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
import pyarrow as pa

from tests.storage.records import MODEL, SECOND_NS, payload, position, reject, text_keys, vectors_of
from treering.storage.batch import KEY, ColumnBatch, Keys, ModelInfo, RawBatch, Source, TextParts
from treering.storage.catalog import Change, Committer, load
from treering.storage.cleaner import Cleaner
from treering.storage.cut import Cut, State, cut_chosen
from treering.storage.eraser import Act
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout
from treering.storage.meta import SegmentMeta
from treering.storage.newest import newest_version
from treering.storage.part import FieldStats, Part
from treering.storage.rejects import Reject
from treering.storage.ring import Ring

Event = tuple[int, str, str]
"""Time in ns, body and id of a number."""

N_TEXTS = 40

WITH_FILES = range(104, 1500, 25)
"""Numbers whose records have a file in them, one of twenty: all are of the folded segment."""


def body_of(n: int) -> str:
    return f"text {n % N_TEXTS} of many"


def id_of(n: int) -> str:
    return hashlib.md5(str(n).encode()).hexdigest()


def record_of(n: int) -> bytes:
    """Give the record {"n", "body", "id"} of a number."""
    record = {"n": n, "body": body_of(n), "id": id_of(n)}
    if n in WITH_FILES:
        record["file"] = payload(n % 20, 2250)
    return orjson.dumps(record)


def event_of(n: int) -> Event:
    return n * SECOND_NS, body_of(n), id_of(n)


def records(numbers: Sequence[int]) -> RawBatch:
    """Records, one a second."""
    lines = [record_of(n) for n in numbers]
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


def texts_of(columns: Mapping[str, pa.Array], n_rows: int, model: ModelInfo | None) -> tuple[TextParts, Keys]:
    """Give what such columns embed, and the templates: as a salvage asks for it."""
    bodies: list[str | None] = columns["body"].to_pylist() if "body" in columns else [None] * n_rows
    row = np.flatnonzero([body is not None for body in bodies]).astype(np.int32)
    keys = np.zeros(n_rows, KEY)
    keys[row] = text_keys([body for body in bodies if body is not None])
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

LIVE = frozenset(range(N_EVENTS)) - frozenset(GONE)
"""Sequence numbers of the events of the store."""


def build_store(path: Path) -> None:
    """Make a store: a folded segment of 1500 events, one with late files, two with deletions, and a log.

    The event of number n has the sequence number n.
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


Row = dict[str, Any]
"""An event as it is stored, by column; None where a value is missing."""

COLUMNS = ("ts", "n#i", "body", "record", "request_id", "tenant_id", "noise#f", "source_offset", "score")


def rows_in(ring: Ring) -> dict[int, Row]:
    """Give all events of a store by sequence number."""
    found: dict[int, Row] = {}
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            held = {
                name: part.column(name).to_pylist() for name in COLUMNS if name == "ts" or name in part.fields
            }
            for place, seq in enumerate(part.seq.tolist()):
                assert seq not in found
                found[seq] = {name: held[name][place] if name in held else None for name in COLUMNS}
    return found


def stored_rows(path: Path) -> dict[int, Row]:
    """Give all events of the store at a path."""
    with open_store(path, "r") as ring:
        return rows_in(ring)


def is_of(seq: int, row: Row) -> bool:
    """Whether every value of a row that is there is that of the event with this number."""
    ts, body, one_id = event_of(seq)
    expected = {"ts": ts, "n#i": seq, "body": body, "record": record_of(seq), "request_id": one_id}
    return all(row[name] in (value, None) for name, value in expected.items()) and row["ts"] is not None


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

FILES = {
    "root": "_manifest/*.json",
    "list of segments": "meta/segments-*.json",
    "list of positions": "meta/ledger-*.json",
    "list of rejects": "meta/rejects-*.json",
    "list of audit records": "meta/audit-*.json",
    "model": "meta/model-*.json",
    "log": "wal/*.wal",
    "rejects": "rejects/*.arrow",
    "segment.json": "seg/21-0-*/segment.json",
    "hot": "seg/21-0-*/hot.arrow",
    "text": "seg/21-0-*/text.arrow",
    "vec": "seg/21-0-*/vec.arrow",
    "parts": "seg/21-0-*/parts.arrow",
    "blobs": "seg/21-0-*/blobs.arrow",
    "post": "seg/21-0-*/post.arrow",
    "patt": "seg/21-0-*/patt.arrow",
    "late": "seg/22-0-*/late-0000.arrow",
    "deletion": "seg/20-1-*/del-0000.arrow",
}
"""Every kind of file, and one that the store has of it; the segment 21-0 is the folded one."""

DERIVED = ("segment.json", "post", "patt")
"""Kinds that hold nothing that cannot be made anew."""


def file_of(path: Path, kind: str) -> Path:
    """Give the file of a kind, of several the first."""
    return sorted(path.glob(FILES[kind]))[0]


def told_otherwise(store: Path, change: Callable[[SegmentMeta], SegmentMeta]) -> None:
    """Let the manifest say something else of the folded segment."""
    layout = Layout(store)
    catalog = load(OS_FILES, layout, newest_version(OS_FILES, layout))
    (meta,) = (one for one in catalog.segments.entries.values() if one.id.startswith("21-0-"))
    Committer(OS_FILES, layout, catalog, epoch=1).commit(Change(put_segments=[change(meta)]))


LIES: dict[str, Callable[[SegmentMeta], SegmentMeta]] = {
    "its slices do not cover": lambda meta: replace(meta, slices=meta.slices[:-1]),
    "sequence numbers": lambda meta: replace(meta, seq_max=10**6),
    "are not in its cell": lambda meta: replace(meta, cell=7),
    "other times": lambda meta: replace(meta, t_max=meta.t_max - 1),
    "of column n#i": lambda meta: replace(meta, fields={**meta.fields, "n#i": FieldStats(1499, 0, 5)}),
    "of column noise#f": lambda meta: replace(meta, fields={**meta.fields, "noise#f": FieldStats(3)}),
    "of column record": lambda meta: replace(
        meta, fields={n: s for n, s in meta.fields.items() if n != "record"}
    ),
    "vectors are to come": lambda meta: replace(meta, pending=3),
    "other values of tenant_id": lambda meta: replace(meta, partitions={"tenant_id": ("t0", "t1")}),
}
