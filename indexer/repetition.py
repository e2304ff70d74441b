"""The counting loop of `text_signals`, compiled by numba; imported only by functions that run it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

SPACE, WORD, SINGLE = 0, 1, 2
"""What a code point is: no token, a letter of a word, or a token by itself."""


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def kind(code: int) -> int:
    """Class of a Unicode code point, see `text_signals.tokens`."""
    if code < 0x80:
        if code <= 0x20 or code == 0x7F:
            return SPACE
        is_word = 0x30 <= code <= 0x39 or 0x41 <= code <= 0x5A or 0x61 <= code <= 0x7A or code == 0x5F
        return WORD if is_word else SINGLE
    if (
        code <= 0xA0
        or 0x2000 <= code <= 0x200F
        or 0x2028 <= code <= 0x202F
        or code == 0x3000
        or code == 0xFEFF
    ):
        return SPACE
    if code <= 0xBF:
        return WORD if code == 0xAA or code == 0xB5 or code == 0xBA else SINGLE
    if 0x2010 <= code <= 0x206F or 0x2190 <= code <= 0x2BFF or 0x2E80 <= code <= 0x30FF:
        return SINGLE
    if 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or 0xFE10 <= code <= 0xFE6F:
        return SINGLE
    if 0xFF00 <= code <= 0xFF0F or 0xFF1A <= code <= 0xFF20 or 0x1F000 <= code <= 0x1FAFF:
        return SINGLE
    return SINGLE if 0x20000 <= code <= 0x3FFFF else WORD


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def repeated_share(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], out: npt.NDArray[np.float64]
) -> None:
    """Fill `out` (n) with 1 - distinct 4-grams / 4-grams of each text, NaN under 4 tokens.

    data: UTF-8; text i is `data[offsets[i]:offsets[i + 1]]`. 4-grams are compared by a 64-bit hash of their
    tokens' hashes: two of a million differ with probability 1 - 3e-8.
    """
    prime = np.uint64(0x100000001B3)
    seed = np.uint64(0xCBF29CE484222325)
    mixer = np.uint64(0x9E3779B97F4A7C15)
    longest = 0
    for i in range(out.shape[0]):
        longest = max(longest, offsets[i + 1] - offsets[i])
    hashes = np.empty(longest + 1, np.uint64)
    for i in range(out.shape[0]):
        n = 0
        state = seed
        inside = False
        at = offsets[i]
        end = offsets[i + 1]
        while at < end:
            first = data[at]
            size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            code = np.int64(first) if size == 1 else np.int64(first) & (0x7F >> size)
            for step in range(1, min(size, end - at)):
                code = (code << 6) | (np.int64(data[at + step]) & 0x3F)
            at += size
            what = kind(code)
            if inside and what != WORD:
                hashes[n] = state
                n += 1
                inside = False
            if what == SPACE:
                continue
            if 0x41 <= code <= 0x5A:
                code += 0x20
            if not inside:
                state = seed
            state = (state ^ np.uint64(code)) * prime
            if what == SINGLE:
                hashes[n] = state
                n += 1
            else:
                inside = True
        if inside:
            hashes[n] = state
            n += 1
        if n < 4:
            out[i] = np.nan
            continue
        grams = np.empty(n - 3, np.uint64)
        for j in range(n - 3):
            mixed = np.uint64(0)
            for k in range(4):
                mixed = (mixed ^ hashes[j + k]) * mixer
                mixed ^= mixed >> np.uint64(29)
            grams[j] = mixed
        grams.sort()
        distinct = 1
        for j in range(1, n - 3):
            if grams[j] != grams[j - 1]:
                distinct += 1
        out[i] = 1.0 - distinct / (n - 3)
