"""XXH64 of one text, in plain Python: a query hashes one value and shall not load a compiler for it."""

from __future__ import annotations

from struct import unpack_from

PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
PRIME_3 = 0x165667B19E3779F9
PRIME_4 = 0x85EBCA77C2B2AE63
PRIME_5 = 0x27D4EB2F165667C5

MASK = 2**64 - 1
"""Arithmetic is modulo 2**64."""

STRIPE_BYTES = 32
"""Four lanes of 8 bytes are mixed at a time."""


def hash_text(text: str) -> int:
    """Give the XXH64, seed 0, of the UTF-8 bytes of a text, as `bloom_kernels.fill_hashes` gives it."""
    # A lone surrogate stands in no stored text; its bytes need not be those of any.
    return xxh64(text.encode("utf-8", "surrogatepass"))


def xxh64(data: bytes) -> int:
    """Give the 64-bit xxHash of some bytes with seed 0.

    Source: Collet, "XXH64 algorithm description", xxHash/doc/xxhash_spec.md, version 0.2.0, steps 1 to 7.
    """
    place = len(data) - len(data) % STRIPE_BYTES
    total = _stripes(data, place) if place else PRIME_5
    total = (total + len(data)) & MASK
    while place + 8 <= len(data):
        total ^= _round(0, unpack_from("<Q", data, place)[0])
        total = (_turned(total, 27) * PRIME_1 + PRIME_4) & MASK
        place += 8
    if place + 4 <= len(data):
        total ^= unpack_from("<I", data, place)[0] * PRIME_1 & MASK
        total = (_turned(total, 23) * PRIME_2 + PRIME_3) & MASK
        place += 4
    for byte in data[place:]:
        total ^= byte * PRIME_5 & MASK
        total = _turned(total, 11) * PRIME_1 & MASK
    total = (total ^ total >> 33) * PRIME_2 & MASK
    total = (total ^ total >> 29) * PRIME_3 & MASK
    return total ^ total >> 32


def _stripes(data: bytes, end: int) -> int:
    """Mix the stripes of `data[:end]` in four lanes, and these into one."""
    a, b, c, d = (PRIME_1 + PRIME_2) & MASK, PRIME_2, 0, -PRIME_1 & MASK
    for place in range(0, end, STRIPE_BYTES):
        one, two, three, four = unpack_from("<4Q", data, place)
        a, b, c, d = _round(a, one), _round(b, two), _round(c, three), _round(d, four)
    total = (_turned(a, 1) + _turned(b, 7) + _turned(c, 12) + _turned(d, 18)) & MASK
    for lane in (a, b, c, d):
        total = ((total ^ _round(0, lane)) * PRIME_1 + PRIME_4) & MASK
    return total


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * PRIME_2) & MASK, 31) * PRIME_1 & MASK


def _turned(word: int, n_bits: int) -> int:
    return (word << n_bits | word >> 64 - n_bits) & MASK
