"""A small store that has lived a while, all that it gives, and what it writes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.storage.records import MODEL, decode, fill, numbers_in, position, raw_batch, reject, vectors_of
from treering.storage.batch import ModelInfo
from treering.storage.files import OS_FILES, Files
from treering.storage.ledger import Position
from treering.storage.rejects import Reject
from treering.storage.ring import Ring


def writer(path: Path, files: Files = OS_FILES) -> Ring:
    return Ring.open(path, decoder=decode, files=files)


def reader(path: Path, files: Files = OS_FILES) -> Ring:
    return Ring.open(path, "r", decoder=decode, files=files)


def add(ring: Ring, end: int) -> None:
    """Append the numbers up to `end`, and a reject with them."""
    start = ring.next_seq
    ring.append(raw_batch(range(start, end)), positions=[position(end)], rejects=[reject(start)])


@dataclass(frozen=True)
class Content:
    """All that a store gives."""

    numbers: list[int]
    rejects: list[Reject]
    position: Position | None
    model: ModelInfo | None
    n_vectors: int
    signals: list[float | None]


def content(path: Path) -> Content:
    with reader(path) as ring, ring.snapshot() as snapshot:
        signals = [
            value
            for part in snapshot.parts
            for value in (part.column("surprise").to_pylist() if "surprise" in part.fields else [None])
        ]
        return Content(
            numbers_in(snapshot),
            list(ring.rejects()),
            ring.position("source"),
            ring.model,
            sum(int(part.vectors().have.sum()) for part in snapshot.parts),
            sorted(signals, key=str),
        )


def names(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def age(ring: Ring) -> None:
    """Give a store all that a store can have but deletions: a model, sidecars, folds, rejects, an open log."""
    ring.set_model(MODEL)
    for end in (4, 9, 12, 15, 19):
        add(ring, end)
        ring.flush()
    fill(ring)
    add(ring, 23)
    ring.flush()
    fill_one(ring)
    add(ring, 25)
    add(ring, 30)


def fill_one(ring: Ring) -> None:
    """Leave a sidecar: vectors and a signal of one segment, others still to come."""
    segment = ring.unfinished()[-1]
    table = segment.vectors()
    signal = pa.array(np.arange(segment.n_rows, dtype=np.float64))
    ring.add_late(segment.id, vectors=vectors_of(table.key[~table.have]), signals={"surprise": signal})


def files_of(path: Path) -> list[str]:
    return sorted(names(path) - {"LOCK"})


def damage_one(path: Path, how: str, rng: random.Random) -> None:
    """Put a damaged file in place of one: maps of the old one stay good, as on a disk that lost bytes."""
    data = bytearray(path.read_bytes())
    path.unlink()
    if how == "missing":
        return
    if how == "flipped":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes({"short": data[: rng.randrange(len(data))], "long": data + b"\0"}.get(how, data))


def assert_same_files(copy: Path, ring: Path) -> None:
    assert names(copy) - {"backup.json", "LOCK"} == names(ring) - {"LOCK"}
    for name in names(ring) - {"LOCK"}:
        assert (copy / name).read_bytes() == (ring / name).read_bytes()
