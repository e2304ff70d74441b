"""Frames of the log that hold vectors: those of today bit by bit, and float16 ones as format 1 had them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tests.storage.records import decode as decode_records
from tests.storage.records import raw_batch, text_keys, vectors_of
from treering.storage.batch import Vectors
from treering.storage.entry import Entry, Kind, decode, encode

FIRST_OF_VECTORS = 9
"""Buffer with the vectors' keys, by docs/format/wal.md."""


def entry() -> Entry:
    keys = text_keys(["text 1", "text 2", "text 3"])
    numbers = np.random.default_rng(3).standard_normal((3, 8))
    numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
    sides = vectors_of(keys)
    vectors = Vectors.of(
        keys, numbers, heads=sides.heads, n_tokens=sides.n_tokens, head=sides.head, qls=sides.qls
    )
    return Entry(5, columns=decode_records(raw_batch(range(20)), 5), vectors=vectors)


def payload_of(told: Entry) -> bytes:
    return b"".join(bytes(pa.py_buffer(chunk)) for chunk in encode(told))


def unpacked(payload: bytes) -> tuple[dict[str, object], list[bytes]]:
    (n_head,) = struct.unpack_from("<I", payload)
    head = json.loads(payload[4 : 4 + n_head])
    start, found = -(-(4 + n_head) // 8) * 8, []
    for size in head["buffers"]:
        found.append(payload[start : start + size])
        start += -(-size // 8) * 8
    return head, found


def packed(head: dict[str, object], buffers: Sequence[bytes]) -> bytes:
    text = json.dumps({**head, "buffers": [len(b) for b in buffers]}).encode()
    pieces = [struct.pack("<I", len(text)) + text, *buffers]
    return b"".join(piece + bytes(-len(piece) % 8) for piece in pieces)


def test_vectors_lie_in_a_frame_as_values_and_steps() -> None:
    told = entry()
    assert told.vectors is not None
    head, buffers = unpacked(payload_of(told))
    assert head["vectors"] == {"dim": 8, "heads": 2, "qls": 136}
    assert np.frombuffer(buffers[10], "<i2").reshape(3, 8).tolist() == told.vectors.values.tolist()
    assert np.frombuffer(buffers[11], "<f4").tolist() == told.vectors.step.tolist()
    assert len(buffers) == 17


def test_float16_vectors_of_format_1_are_read_as_if_they_came_now() -> None:
    told = entry()
    assert told.vectors is not None
    head, buffers = unpacked(payload_of(told))
    exact = told.vectors.exact().astype("<f2")
    old = [*buffers[: FIRST_OF_VECTORS + 1], exact.tobytes(), *buffers[FIRST_OF_VECTORS + 3 :]]
    got = decode(Kind.TABLE, 5, 20, memoryview(packed({**head, "positions": []}, old)), version=1)
    now = Vectors.of(told.vectors.key, exact)
    assert got.vectors is not None
    np.testing.assert_array_equal(got.vectors.values, now.values)
    np.testing.assert_array_equal(got.vectors.step, now.step)
    for name in ("key", "heads", "n_tokens", "head", "second", "qls"):
        np.testing.assert_array_equal(getattr(got.vectors, name), getattr(told.vectors, name))
