"""Numbered records for the tests of durability, their decoder, and their model's vectors.

Run as a script (`records.py STORE`), it appends numbered records and prints each acknowledged number, until
it is killed.
"""

from __future__ import annotations

import base64
import hashlib
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from treering.storage.batch import KEY, ColumnBatch, ModelInfo, RawBatch, Source, TextParts, Vectors
from treering.storage.ledger import Position
from treering.storage.rejects import Reject
from treering.storage.ring import Ring
from treering.storage.snapshot import Snapshot

MODEL = ModelInfo("m", 8, 1, 2, 16, "basis", "calibration", tuple(0.5 for _ in range(136)))
SECOND_NS = 10**9


def line_of(n: int) -> bytes:
    """Give the record of a number."""
    return orjson.dumps({"n": n, "body": f"text {n % 7}"})


@cache
def payload(seed: int, n_bytes: int) -> str:
    """Give base64 of bytes that nothing makes smaller."""
    return base64.b64encode(random.Random(seed).randbytes(n_bytes)).decode()


def raw_batch(
    numbers: Iterable[int],
    *,
    step_ns: int = SECOND_NS,
    name: str = "a.jsonl",
    line: Callable[[int], bytes] = line_of,
) -> RawBatch:
    """Records {"n": number, "body": ...}, one a step of time. line: gives another record of a number."""
    ids = list(numbers)
    lines = [line(n) for n in ids]
    sizes = np.array([len(line) for line in lines], np.int64)
    ends = np.cumsum(sizes)
    return RawBatch(
        sources=(Source(name, "test", {"map": {}}),),
        ts_ns=np.array([n * step_ns for n in ids], np.int64),
        ts_origin=np.zeros(len(ids), np.uint8),
        source=np.zeros(len(ids), np.uint16),
        offset=ends - sizes,
        line=np.arange(1, len(ids) + 1, dtype=np.int64),
        ends=ends,
        records=b"".join(lines),
    )


def decode(raw: RawBatch, first_seq: int) -> ColumnBatch:
    """Decode such records: column `n#i`, text `body` and its key."""
    rows = [orjson.loads(raw.record(row)) for row in range(raw.n_rows)]
    n = raw.n_rows
    keys = text_keys([row["body"] for row in rows])
    columns = {
        "ts": pa.array(raw.ts_ns),
        "seq": pa.array(np.arange(first_seq, first_seq + n)),
        "ts_origin": pa.array(raw.ts_origin),
        "source": pa.array([raw.sources[i].name for i in raw.source]).dictionary_encode(),
        "reader": pa.array([raw.sources[i].reader for i in raw.source]).dictionary_encode(),
        "source_offset": pa.array(raw.offset),
        "source_line": pa.array(raw.line),
        "record": pa.array([raw.record(row) for row in range(n)], pa.binary()),
        "n#i": pa.array([row["n"] for row in rows], pa.int64()),
        "body": pa.array([row["body"] for row in rows]),
    }
    parts = TextParts(
        np.arange(n, dtype=np.int32), np.zeros(n, np.uint8), np.zeros(n, np.int16), keys, np.ones(n, np.bool_)
    )
    return ColumnBatch(n, columns, parts, keys)


def text_keys(texts: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """128-bit keys of texts."""
    return np.frombuffer(b"".join(hashlib.md5(text.encode()).digest() for text in texts), KEY)


def vectors_of(keys: np.ndarray[tuple[int], np.dtype[np.void]]) -> Vectors:
    """A unit vector and the rest for each key, a function of the key alone."""
    exact = np.zeros((len(keys), 8), np.float32)
    exact[np.arange(len(keys)), keys["lo"].astype(np.int64) % 8] = 1
    head = (keys["hi"] % 2).astype(np.uint8)
    return Vectors.of(
        keys,
        exact,
        heads=np.stack([head, head + 1], 1).astype(np.uint8),
        n_tokens=np.full(len(keys), 3, np.uint16),
        head=head,
        second=(1 - head).astype(np.uint8),
        qls=np.repeat((keys["lo"] % 100).astype(np.int8)[:, None], 136, 1),
    )


def numbers_in(snapshot: Snapshot) -> list[int]:
    """The numbers of all events, by sequence number."""
    pairs = []
    for part in snapshot.parts:
        pairs += list(zip(part.seq.tolist(), part.column("n#i").to_pylist(), strict=True))
        assert part.column("record").to_pylist() == [line_of(n) for n in part.column("n#i").to_pylist()]
    assert [seq for seq, _ in sorted(pairs)] == list(range(len(pairs)))
    return [n for _, n in sorted(pairs)]


def stored_numbers(ring: Ring) -> list[int]:
    """The numbers of all events of a store."""
    with ring.snapshot() as snapshot:
        return numbers_in(snapshot)


def position(n: int) -> Position:
    return Position("source", "a.jsonl", n, n, f"digest {n}")


def reject(n: int) -> Reject:
    return Reject("a.jsonl", n, 10 * n, "no JSON", b"{broken %d" % n)


def fill(ring: Ring) -> None:
    """Add all vectors and signals that are still to come, then fold."""
    for segment in ring.unfinished():
        table = segment.vectors()
        signal = pa.array(np.arange(segment.n_rows, dtype=np.float64))
        ring.add_late(
            segment.id,
            vectors=vectors_of(table.key[~table.have]),
            signals={"surprise": signal},
            signals_done=True,
        )
    ring.fold()


def main(path: Path) -> None:
    ring = Ring.open(path, decoder=decode, flush_bytes=4000)
    n = ring.next_seq
    while True:
        size = 1 + n % 5
        ring.append(raw_batch(range(n, n + size)), positions=[position(n + size)], rejects=[reject(n)])
        n += size
        print(n, flush=True)
        if n % 50 < 5:
            ring.flush()
            fill(ring)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
