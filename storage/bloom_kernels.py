"""The inner loops that build Bloom filters, compiled by numba; import this module only where segments are written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit, uint32, uint64

from .text_hash import PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5

UInt64s = npt.NDArray[np.uint64]
UInt32s = npt.NDArray[np.uint32]

_1, _2, _3 = np.uint64(PRIME_1), np.uint64(PRIME_2), np.uint64(PRIME_3)
_4, _5 = np.uint64(PRIME_4), np.uint64(PRIME_5)
_EMPTY = (
    np.uint64((PRIME_1 + PRIME_2) % 2**64),
    np.uint64(PRIME_2),
    np.uint64(0),
    np.uint64(2**64 - PRIME_1),
)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def fill_hashes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], hashes: UInt64s) -> None:
    """Fill `hashes` with the XXH64, seed 0, of n byte strings.

    data: uint8, all strings. offsets: int64 (n + 1); string i is `data[offsets[i]:offsets[i + 1]]`.
    Source: as `text_hash.xxh64`, which is the plain version of this.
    """
    for i in range(hashes.shape[0]):
        place, end = offsets[i], offsets[i + 1]
        n_bytes = end - place
        total = _5
        if n_bytes >= 32:
            a, b, c, d = _EMPTY
            while place + 32 <= end:
                a = _round(a, _word(data, place))
                b = _round(b, _word(data, place + 8))
                c = _round(c, _word(data, place + 16))
                d = _round(d, _word(data, place + 24))
                place += 32
            total = _turned(a, 1) + _turned(b, 7) + _turned(c, 12) + _turned(d, 18)
            total = (total ^ _round(uint64(0), a)) * _1 + _4
            total = (total ^ _round(uint64(0), b)) * _1 + _4
            total = (total ^ _round(uint64(0), c)) * _1 + _4
            total = (total ^ _round(uint64(0), d)) * _1 + _4
        total += uint64(n_bytes)
        while place + 8 <= end:
            total = _turned(total ^ _round(uint64(0), _word(data, place)), 27) * _1 + _4
            place += 8
        if place + 4 <= end:
            half = uint64(0)
            for k in range(4):
                half |= uint64(data[place + k]) << uint64(8 * k)
            total = _turned(total ^ (half * _1), 23) * _2 + _3
            place += 4
        while place < end:
            total = _turned(total ^ (uint64(data[place]) * _5), 11) * _1
            place += 1
        total = (total ^ (total >> uint64(33))) * _2
        total = (total ^ (total >> uint64(29))) * _3
        hashes[i] = total ^ (total >> uint64(32))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def fill_blocks(hashes: UInt64s, salts: UInt32s, words: UInt32s) -> None:
    """Set the bits of each hash in a split-block Bloom filter.

    salts: uint32 (8). words: uint32 (8 * blocks), zeros to begin with. Source: as `blooms.Filter`.
    """
    n_blocks = uint64(words.shape[0] // 8)
    for i in range(hashes.shape[0]):
        block = 8 * (((hashes[i] >> uint64(32)) * n_blocks) >> uint64(32))
        key = uint32(hashes[i])
        for k in range(8):
            bit = uint32(key * salts[k]) >> uint32(27)
            words[block + uint64(k)] |= uint32(1) << bit


@njit(inline="always")
def _word(data, place):  # type: ignore[no-untyped-def]
    word = uint64(0)
    for k in range(8):
        word |= uint64(data[place + k]) << uint64(8 * k)
    return word


@njit(inline="always")
def _round(lane, word):  # type: ignore[no-untyped-def]
    return _turned(lane + word * _2, 31) * _1


@njit(inline="always")
def _turned(word, n_bits):  # type: ignore[no-untyped-def]
    return (word << uint64(n_bits)) | (word >> uint64(64 - n_bits))
