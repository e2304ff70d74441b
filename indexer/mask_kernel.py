"""The byte loops of the masker (compiled): see `mask` for the rule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import int64, njit, uint64

_DIGIT, _HEX, _LETTER, _JOIN, _BLANK, _RULER = 1, 2, 4, 8, 16, 32


def _classes() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    for characters, flag in (
        (b"0123456789", _DIGIT),
        (b"abcdefABCDEF", _HEX),
        (bytes(range(65, 91)) + bytes(range(97, 123)), _LETTER),
        (b"_.-", _JOIN),
        (b" \t\n\r\v\f", _BLANK),
        (b"=#-*.>~", _RULER),
    ):
        for c in characters:
            table[c] |= flag
    return table


def _counts() -> npt.NDArray[np.uint64]:
    table = np.zeros(256, np.uint64)
    for c in range(256):
        if _CLASS[c] & (_DIGIT | _LETTER):
            is_digit, is_hex = bool(_CLASS[c] & _DIGIT), bool(_CLASS[c] & (_DIGIT | _HEX))
            table[c] = 1 << 56 | is_hex << 28 | is_digit
    return table


_CLASS = _classes()
_COUNT = (
    _counts()
)  # digits in bits 0-27, hex digits in 28-55; zero ends a piece: one look-up a byte instead of three
_MARK = np.uint8(ord("#"))
_NAME_DIGITS = 5
_PIECE_DIGITS = 3
_HEX_LENGTH = 8
_ID_LENGTH = 16
_BAR_BYTES = 600
_TIMES_BYTES = 96


@njit(cache=True, nogil=True)
def _is_alnum(c):  # type: ignore[no-untyped-def]
    return (_CLASS[c] & (_DIGIT | _LETTER)) != 0


@njit(cache=True, nogil=True)
def _is_hex(c):  # type: ignore[no-untyped-def]
    return (_CLASS[c] & (_DIGIT | _HEX)) != 0


@njit(cache=True, nogil=True)
def _uuid_end(text, i, hi):  # type: ignore[no-untyped-def]
    """End of the UUID (8-4-4-4-12 hex digits) whose first eight digits are at i, or i."""
    if i + 36 > hi:
        return i
    for k in range(8, 36):
        if k == 8 or k == 13 or k == 18 or k == 23:
            if text[i + k] != 45:
                return i
        elif not _is_hex(text[i + k]):
            return i
    if i + 36 < hi and _is_alnum(text[i + 36]):
        return i
    return i + 36


@njit(cache=True, nogil=True)
def _address_end(text, i, hi):  # type: ignore[no-untyped-def]
    """End of the IPv6 or hardware address that starts at i, or i.

    That is hex groups with three colons, or with two beside each other, and a digit somewhere.
    """
    j = i
    colons = 0
    double = False
    digits = 0
    while j < hi and (text[j] == 58 or _is_hex(text[j])):
        if text[j] == 58:
            colons += 1
            if j > i and text[j - 1] == 58:
                double = True
        elif _CLASS[text[j]] & _DIGIT:
            digits += 1
        j += 1
    if j < hi and (_is_alnum(text[j]) or text[j] == 95):
        return i
    if j > i and text[j - 1] == 58 and not (j - 1 > i and text[j - 2] == 58):
        j -= 1
        colons -= 1
    if digits and (colons >= 3 or double):
        return j
    return i


@njit(cache=True, nogil=True)
def _put_mark(out, n):  # type: ignore[no-untyped-def]
    """Put a mark: a sign before it belongs to it, and a list of marks is one mark."""
    is_signed = n > 0 and (out[n - 1] == 45 or out[n - 1] == 43)
    if is_signed and (n == 1 or not (_is_alnum(out[n - 2]) or out[n - 2] == _MARK)):
        n -= 1
    if n >= 2 and out[n - 1] == 44 and out[n - 2] == _MARK:
        return n - 1
    if n >= 3 and out[n - 1] == 32 and out[n - 2] == 44 and out[n - 3] == _MARK:
        return n - 2
    out[n] = _MARK
    return n + 1


@njit(cache=True, nogil=True)
def _number_end(text, i, hi):  # type: ignore[no-untyped-def]
    """End of the number whose first digit is at i: digits, inner points and commas, an exponent."""
    j = i
    while j < hi and _CLASS[text[j]] & _DIGIT:
        j += 1
    while j + 1 < hi and (text[j] == 46 or text[j] == 44) and _CLASS[text[j + 1]] & _DIGIT:
        j += 1
        while j < hi and _CLASS[text[j]] & _DIGIT:
            j += 1
    if j < hi and (text[j] | 32) == 101:
        k = j + 1
        if k < hi and (text[k] == 45 or text[k] == 43):
            k += 1
        m = k
        while m < hi and _CLASS[text[m]] & _DIGIT:
            m += 1
        if m > k and (m == hi or not _is_alnum(text[m])):
            return m
    return j


@njit(cache=True, nogil=True)
def _bar_end(text, i, hi):  # type: ignore[no-untyped-def]
    """End of the progress bar whose percent sign is at i, or i: ``%|`` (``% Completed |``) to ``[..<..]``."""
    j = i + 1
    if j < hi and text[j] == 32:
        j += 1
        if j + 10 < hi and text[j] == 67 and text[j + 1] == 111 and text[j + 8] == 100 and text[j + 9] == 32:
            j += 10
    if j >= hi or text[j] != 124:
        return i
    limit = min(hi, j + _BAR_BYTES)
    while j < limit and text[j] != 91:
        j += 1
    if j == limit:
        return i
    limit = min(hi, j + _TIMES_BYTES)
    times = False
    while j < limit and text[j] != 93:
        times = times or text[j] == 60
        j += 1
    if j == limit or not times:
        return i
    return j + 1


@njit(cache=True, nogil=True)
def _is_id(text, i, length, digits, hexes):  # type: ignore[no-untyped-def]
    """Whether a piece is an id: 0x hex, eight and more hex digits, sixteen and more letters and digits."""
    if text[i] == 48 and length > 2 and (text[i + 1] | 32) == 120 and hexes == length - 1:
        return True
    if digits == length:
        return False
    return (hexes == length and length >= _HEX_LENGTH) or (length >= _ID_LENGTH and digits >= 2)


@njit(cache=True, nogil=True)
def _put_piece(text, i, j, hi, is_name, out, n):  # type: ignore[no-untyped-def]
    """Put the letters and digits [i, j) of a name, or of a number with units; gives the next i and n."""
    start = i
    while i < j:
        if not _CLASS[text[i]] & _DIGIT:
            out[n] = text[i]
            n += 1
            i += 1
            continue
        k = i
        while k < j and _CLASS[text[k]] & _DIGIT:
            k += 1
        if not is_name:
            i = _number_end(text, i, hi)
            n = _put_mark(out, n)
        elif k - i >= _NAME_DIGITS or (k - i >= _PIECE_DIGITS and i == start and k == j):
            i = k
            n = _put_mark(out, n)
        else:
            while i < k:
                out[n] = text[i]
                n += 1
                i += 1
    return i, n


@njit(cache=True, nogil=True)
def _put_field(text, i, hi, out, n):  # type: ignore[no-untyped-def]
    """Put the field that starts at i: pieces of letters and digits joined by one or two of ``_ . -``."""
    is_name = (_CLASS[text[i]] & _LETTER) != 0
    is_first = True
    while True:
        j = i
        start_n = n
        counts = uint64(0)
        while j < hi:  # copies while it counts: most pieces are plain words and stay as they are
            c = text[j]
            count = _COUNT[c]
            if count == 0:
                break
            counts += count
            out[n] = c
            n += 1
            j += 1
        digits = int64(counts & uint64(0xFFFFFFF))
        hexes = int64((counts >> uint64(28)) & uint64(0xFFFFFFF))
        if is_first and hexes == j - i and j < hi and text[j] == 58:
            end = _address_end(text, i, hi)
            if end > i:
                return end, _put_mark(out, start_n)
        if hexes == 8 and j - i == 8 and j < hi and text[j] == 45:
            end = _uuid_end(text, i, hi)
            if end > i:
                n = _put_mark(out, start_n)
                j = end
                digits = 0
        if digits and _is_id(text, i, j - i, digits, hexes):
            n = _put_mark(out, start_n)
        elif digits:
            j, n = _put_piece(text, i, j, hi, is_name, out, start_n)
        i = j
        k = i
        while k < hi and k < i + 2 and _CLASS[text[k]] & _JOIN:
            k += 1
        if k == i or k == hi or not _is_alnum(text[k]):  # noqa: SIM109
            return i, n
        while i < k:
            out[n] = text[i]
            n += 1
            i += 1
        is_first = False


@njit(cache=True, nogil=True)
def mask_into(text, i, hi, out):  # type: ignore[no-untyped-def]
    """Write the masked form of `text[i:hi]` (uint8) to `out` (uint8, at least as long); gives its length."""
    n = 0
    while i < hi:
        c = text[i]
        kind = _CLASS[c]
        if kind & _BLANK:
            i += 1
            if n and out[n - 1] != 32:
                out[n] = 32
                n += 1
            continue
        if kind & (_DIGIT | _LETTER):
            i, n = _put_field(text, i, hi, out, n)
            if i < hi and text[i] == 37 and out[n - 1] == _MARK:
                end = _bar_end(text, i, hi)
                if end > i:
                    out[n] = 37
                    n += 1
                    i = end
            continue
        if c == 58 and i + 1 < hi and text[i + 1] == 58:
            end = _address_end(text, i, hi)
            if end > i:
                n = _put_mark(out, n)
                i = end
                continue
        if c == 0xE2 and i + 2 < hi and text[i + 1] == 0x96 and 0x80 <= text[i + 2] <= 0x9F:
            i += 3  # block elements: the bars themselves
            continue
        i += 1
        if n and kind & _RULER and out[n - 1] == c:
            continue
        out[n] = c
        n += 1
    if n and out[n - 1] == 32:
        n -= 1
    return n


@njit(cache=True, nogil=True)
def _mix(h):  # type: ignore[no-untyped-def]
    """Finaliser of MurmurHash3 (fmix64)."""
    h ^= h >> uint64(33)
    h *= uint64(0xFF51AFD7ED558CCD)
    h ^= h >> uint64(33)
    h *= uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> uint64(33))


@njit(cache=True, nogil=True)
def hash_words(words, out, n):  # type: ignore[no-untyped-def]
    """Give two 64-bit hashes of `out[:n]`, eight bytes a step, never both zero; `words` is `out` as uint64.

    The bytes up to the next multiple of eight are cleared.
    """
    n_words = (n + 7) // 8
    for k in range(n, n_words * 8):
        out[k] = 0
    first = uint64(0xCBF29CE484222325)
    second = uint64(0x9E3779B97F4A7C15)
    for k in range(n_words):
        w = words[k]
        first = (first ^ w) * uint64(0xBF58476D1CE4E5B9)
        first ^= first >> uint64(32)
        second = (second ^ (w << uint64(29) | w >> uint64(35))) * uint64(0xD6E8FEB86659FD93)
        second ^= second >> uint64(29)
    first = _mix(first ^ uint64(n))
    second = _mix(second + first)
    return first, second | uint64(1)


@njit(cache=True, nogil=True)
def mask_keys_into(data, ends, scratch, words, hi, lo):  # type: ignore[no-untyped-def]
    """Fill hi, lo (uint64) with the mask key of each text `data[ends[i - 1]:ends[i]]`; zero for an empty one.

    scratch: uint8, eight bytes longer than the longest text and more, a multiple of eight; words: the same
    memory as uint64.
    """
    start = 0
    for row in range(len(ends)):
        end = ends[row]
        if end > start:
            n = mask_into(data, start, end, scratch)
            hi[row], lo[row] = hash_words(words, scratch, n)
        else:
            hi[row], lo[row] = uint64(0), uint64(0)
        start = end
