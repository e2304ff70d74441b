"""The hash of ids is XXH64: published values, and the compiled version equals the plain one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.storage.bloom_kernels import fill_hashes
from treering.storage.text_hash import hash_text, xxh64

PUBLISHED_BUFFER = {
    0: 0xEF46DB3751D8E999,
    1: 0xE934A84ADB052768,
    4: 0x9136A0DCA57457EE,
    14: 0x8282DCC4994E35C8,
    222: 0xB641AE8CB691C174,
}
"""XXH64, seed 0, of the first bytes of a made-up buffer. Source: self test of xxhsum (xxHash 0.8)."""

PUBLISHED_TEXTS = {
    "a": 0xD24EC4F1A98C6E5B,
    "abc": 0x44BC2CF5AD770999,
    "message digest": 0x066ED728FCEEB3BE,
    "Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}
"""Source: documents of python-xxhash and of other bindings."""


def made_up_buffer(n_bytes: int) -> bytes:
    """The buffer that xxhsum tests itself with."""
    state, out = 2654435761, bytearray()
    for _ in range(n_bytes):
        out.append(state >> 56)
        state = state * 11400714785074694797 % 2**64
    return bytes(out)


def compiled(values: Sequence[bytes]) -> list[int]:
    array = pa.array(values, pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(values) + 1)
    hashes = np.empty(len(values), np.uint64)
    fill_hashes(np.frombuffer(array.buffers()[2] or b"", np.uint8), offsets, hashes)
    return [int(value) for value in hashes]


@pytest.mark.parametrize(("n_bytes", "expected"), PUBLISHED_BUFFER.items())
def test_published_values_of_a_buffer(n_bytes: int, expected: int) -> None:
    data = made_up_buffer(n_bytes)
    assert xxh64(data) == expected
    assert compiled([b"before", data, b"behind"])[1] == expected


@pytest.mark.parametrize(("text", "expected"), PUBLISHED_TEXTS.items())
def test_published_values_of_texts(text: str, expected: int) -> None:
    assert hash_text(text) == expected
    assert compiled([text.encode()]) == [expected]


@given(st.lists(st.binary(max_size=130), min_size=1, max_size=20))
def test_compiled_hash_equals_the_plain_one(values: list[bytes]) -> None:
    assert compiled(values) == [xxh64(value) for value in values]


def test_compiled_hash_equals_the_plain_one_at_every_length() -> None:
    data = made_up_buffer(4 * 32 + 9)
    values = [data[:n] for n in range(len(data))]
    assert compiled(values) == [xxh64(value) for value in values]


def test_a_text_that_no_file_can_hold_has_a_hash_all_the_same() -> None:
    assert hash_text("\ud800") == xxh64(b"\xed\xa0\x80")
