"""Records of any bytes for the tests of payloads: a store of them, and what it holds."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.storage.records import MODEL, SECOND_NS, payload
from treering.storage.batch import KEY, ColumnBatch, RawBatch, Source, TextParts
from treering.storage.cut import Cut, State, cut_chosen
from treering.storage.eraser import Act
from treering.storage.files import OS_FILES
from treering.storage.memory import build
from treering.storage.moving import Anew
from treering.storage.part import Part
from treering.storage.rejects import Reject
from treering.storage.ring import Ring
from treering.storage.segment import Segment, write

OTHER = replace(MODEL, model_id="other")

PAYLOADS = [payload(seed, n_bytes).encode() for seed, n_bytes in enumerate((768, 769, 770, 1500, 3000))]
"""Base64 of 1024 letters and more, with no, two, one and no padding."""

ODD_RUNS = [b"A" * 1023, b"A" * 1024, b"_-" * 600, b"\\/" * 700, b"=" * 5, b"\\" * 3]

PIECES = st.one_of(
    st.sampled_from([*PAYLOADS, *PAYLOADS, *ODD_RUNS]),
    st.sampled_from(PAYLOADS).map(lambda letters: letters.replace(b"/", b"\\/")),
    st.sampled_from([b'{"url": "data:image/png;base64,', b'"}', b", ", "é".encode(), b"\xff\xfe", b"\0"]),
    st.binary(max_size=20),
)
RECORDS = st.lists(PIECES, max_size=5).map(b"".join)
"""Records with payloads at any place: none, first, last, next to each other, with escaped slashes."""


def raw_of(records: Sequence[bytes], first_s: int) -> RawBatch:
    """Give records as they are acknowledged, one a second."""
    n, sizes = len(records), np.array([len(one) for one in records], np.int64)
    return RawBatch(
        sources=(Source("a.bin", "test", {}),),
        ts_ns=(first_s + np.arange(n, dtype=np.int64)) * SECOND_NS,
        ts_origin=np.zeros(n, np.uint8),
        source=np.zeros(n, np.uint16),
        offset=np.cumsum(sizes) - sizes,
        line=np.arange(1, n + 1, dtype=np.int64),
        ends=np.cumsum(sizes),
        records=b"".join(records),
    )


def decode(raw: RawBatch, first_seq: int) -> ColumnBatch:
    """Decode them: a record is the text of its first letters, and a number."""
    n = raw.n_rows
    columns = {
        "ts": pa.array(raw.ts_ns),
        "seq": pa.array(np.arange(first_seq, first_seq + n)),
        "ts_origin": pa.array(raw.ts_origin),
        "source": pa.array(["a.bin"] * n, pa.string()).dictionary_encode(),
        "source_offset": pa.array(raw.offset),
        "record": pa.array([raw.record(row) for row in range(n)], pa.binary()),
        "n#i": pa.array(np.arange(first_seq, first_seq + n)),
        "body": pa.array([head_of(raw.record(row)) for row in range(n)], pa.string()),
    }
    return ColumnBatch(n, columns, TextParts.empty(), np.zeros(n, KEY))


def head_of(record: bytes) -> str:
    """Give what `decode` takes as the text of a record."""
    return record[:12].decode("latin-1")


def batch_of(records: Sequence[bytes], first_seq: int = 0) -> ColumnBatch:
    """Give records as columns."""
    return decode(raw_of(records, first_seq), first_seq)


def open_any(path: Path, mode: Any = "w", **more: Any) -> Ring:
    """Open a store of such records."""
    return Ring.open(path, mode, decoder=decode, **more)


def put(ring: Ring, records: Sequence[bytes]) -> None:
    """Load records as a segment."""
    ring.append(raw_of(records, ring.next_seq))
    ring.flush()


def held(ring: Ring) -> dict[int, bytes | None]:
    """Give the record of each event, by sequence number; row by row it is the same."""
    found: dict[int, bytes | None] = {}
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            records = part.column("record").to_pylist()
            found |= dict(zip(part.seq.tolist(), records, strict=True))
            for row in (0, part.n_rows - 1):
                assert part.column("record", np.array([row])).to_pylist() == [records[row]]
            heads = [None if one is None else head_of(one) for one in records]
            assert part.column("body").to_pylist() == heads
    return found


class Seqs:
    """Chooses events by sequence number."""

    def __init__(self, seqs: Collection[int]) -> None:
        self._seqs = list(seqs)

    def rows(self, parts: Sequence[Part]) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
        return [np.flatnonzero(np.isin(part.seq, self._seqs)) for part in parts]

    def rejects(self, rejects: Sequence[Reject]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.zeros(len(rejects), np.bool_)


def delete(ring: Ring, seqs: Collection[int]) -> None:
    """Erase events."""

    def plan(state: State) -> Cut:
        return cut_chosen(state, Seqs(seqs))

    ring.erase(plan, Act("delete", {"query": "q"}))


@cache
def picture(seed: int, n_bytes: int = 200_000) -> bytes:
    """Give base64 of many bytes that nothing makes smaller."""
    return base64.b64encode(random.Random(seed).randbytes(n_bytes))


def chat(n: int, *pictures: bytes) -> bytes:
    """Give a record with pictures in it."""
    urls = b", ".join(b'"data:image/png;base64,%s"' % one for one in pictures)
    return b'{"n": %d, "images": [%s], "text": "what is on them?"}' % (n, urls)


def blob_files(path: Path) -> list[Path]:
    """Give the files of payloads of a store."""
    return sorted(path.glob("seg/*/blobs.arrow"))


def segments_of(path: Path, n: int, records: Callable[[int], list[bytes]]) -> list[Segment]:
    """Write so many segments of the records of a number."""
    segments = []
    for k in range(n):
        batch = batch_of(records(k), 100 * k)
        part = build([batch], None, dim=None, part_id=f"s{k}")
        meta = write(OS_FILES, path / part.id, part, level=44, cell=0)
        segments.append(Segment.open(OS_FILES, path / part.id, meta))
    return segments


def moved(ring: Ring, path: Path) -> Ring:
    """Move a store to another model."""
    model = ring.model
    mover = ring.mover(OTHER if model is None or model == MODEL else MODEL, lambda part: Anew({}))
    assert mover.catch_up() and mover.swap()
    mover.close()
    return ring
