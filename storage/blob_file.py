"""The payloads of a segment: each once, in small batches, so that one is read without the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, MutableMapping
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from .arrow_file import ArrowFile, write_arrow
from .batch import Int64s
from .files import Files
from .payloads import HASH, Hashes, Payloads
from .stored_file import StoredFile
from .sums import Sums

BATCH_BYTES = 1 << 20
"""Payloads of a batch come to at most this much, unless it is one: what is read to show a record."""

SCHEMA = pa.schema(
    [("sha256", pa.binary(HASH.itemsize)), ("bytes", pa.int64()), ("payload", pa.large_binary())]
)


def write_blobs(
    files: Files, path: Path, payloads: Payloads, *, sums: MutableMapping[str, Sums] | None = None
) -> StoredFile:
    """Write payloads, of which a batch is in memory at a time. Raises DamageError where one cannot be read."""
    firsts = _firsts(payloads.n_bytes)
    facts = {"rows": len(payloads), "firsts": firsts}
    # Base64 letters carry six bits each, which zstd finds and lz4 does not.
    return write_arrow(
        files,
        path,
        SCHEMA,
        _batches(payloads, firsts),
        kind="blobs",
        facts=facts,
        compression="zstd",
        sums=sums,
    )


class BlobFile(Payloads):
    """The payloads of an open segment. Methods raise DamageError."""

    def __init__(self, file: ArrowFile, *, is_whole: bool = True) -> None:
        """Take an open file. is_whole: whether to refuse one that lacks batches at its end."""
        self.file = file
        self.firsts = np.array(file.facts["firsts"], np.int64)
        self.n_rows = int(file.facts["rows"])
        if is_whole and file.n_batches != len(self.firsts):
            raise file.damage(f"it has {file.n_batches} batches, expected {len(self.firsts)}")

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def hashes(self) -> Hashes:
        """Their hashes, ascending."""
        pieces = [_hashes_of(self._column(n, "sha256")) for n in range(len(self.firsts))]
        return np.concatenate([np.empty(0, HASH), *pieces])

    @cached_property
    def n_bytes(self) -> Int64s:
        """Their sizes."""
        pieces = [self._column(n, "bytes").to_numpy() for n in range(len(self.firsts))]
        return np.concatenate([np.empty(0, np.int64), *pieces])

    @property
    def merge_bytes(self) -> int:
        """Memory that copying all of them takes."""
        largest = max(BATCH_BYTES, int(self.n_bytes.max(initial=0)))
        return 2 * largest + self.n_rows * (HASH.itemsize + 3 * 8)

    def read(self, numbers: Int64s) -> Iterator[pa.Buffer]:
        """Give payloads one after the other; in memory is one batch, and none once its last one was given."""
        batches = np.searchsorted(self.firsts, numbers, side="right") - 1
        pairs = zip(batches.tolist(), numbers.tolist(), strict=True)
        for batch, asked in groupby(pairs, key=lambda pair: pair[0]):
            values = self.values(batch, [number for _, number in asked])
            while values:
                yield values.popleft()

    def values(self, batch: int, numbers: list[int]) -> deque[pa.Buffer]:
        """Give payloads of one batch."""
        array, first = self._column(batch, "payload"), int(self.firsts[batch])
        return deque(array[number - first].as_buffer() for number in numbers)

    def rows_of(self, batch: int) -> range:
        """Give the numbers of the payloads in a batch."""
        ends = [*self.firsts[1:].tolist(), self.n_rows]
        return range(int(self.firsts[batch]), ends[batch])

    def _column(self, batch: int, name: str) -> pa.Array:
        array, expected = self.file.batch_column(batch, name), len(self.rows_of(batch))
        if len(array) != expected:
            raise self.file.damage(f"record batch {batch} has {len(array)} rows, expected {expected}")
        return array


def _hashes_of(column: pa.Array) -> Hashes:
    return np.frombuffer(column.buffers()[1], HASH, len(column))


def _firsts(n_bytes: Int64s) -> list[int]:
    """Give the first payload of each batch."""
    firsts, filled = list[int](), BATCH_BYTES + 1
    for number, size in enumerate(n_bytes.tolist()):
        if filled + size > BATCH_BYTES:
            firsts.append(number)
            filled = 0
        filled += size
    return firsts


def _batches(payloads: Payloads, firsts: list[int]) -> Iterator[pa.RecordBatch]:
    values = payloads.read(np.arange(len(payloads)))
    for first, end in zip(firsts, [*firsts[1:], len(payloads)], strict=True):
        held = [next(values) for _ in range(first, end)]
        yield _batch(payloads.hashes[first:end], held)


def _batch(hashes: Hashes, held: list[pa.Buffer]) -> pa.RecordBatch:
    n_bytes = np.array([value.size for value in held], np.int64)
    offsets = np.concatenate([[0], np.cumsum(n_bytes)])
    contents = held[0] if len(held) == 1 else pa.py_buffer(b"".join(held))
    keys = pa.py_buffer(hashes.tobytes())
    columns = [
        pa.Array.from_buffers(SCHEMA.field("sha256").type, len(held), [None, keys]),
        pa.array(n_bytes),
        pa.Array.from_buffers(pa.large_binary(), len(held), [None, pa.py_buffer(offsets), contents]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
