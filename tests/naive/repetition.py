"""Repeated 4-grams the slow way, with Python strings and sets."""

from __future__ import annotations

from itertools import pairwise

RANGES = (
    (0x2010, 0x2027),
    (0x202F, 0x206F),
    (0x2190, 0x2BFF),
    (0x2E80, 0x2FFF),
    (0x3001, 0x30FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFE10, 0xFE6F),
    (0xFF00, 0xFF0F),
    (0xFF1A, 0xFF20),
    (0x1F000, 0x1FAFF),
    (0x20000, 0x3FFFF),
)
"""Code points beyond Latin-1 that are tokens by themselves."""

SPACES = {
    0x7F,
    0x3000,
    0xFEFF,
    *range(0x21),
    *range(0x80, 0xA1),
    *range(0x2000, 0x2010),
    *range(0x2028, 0x202F),
}


def tokens(text: str) -> list[str]:
    found: list[str] = []
    word = ""
    for sign in text:
        if is_word(sign):
            word += sign.lower() if sign.isascii() else sign
            continue
        if word:
            found.append(word)
            word = ""
        if ord(sign) not in SPACES:
            found.append(sign)
    return [*found, word] if word else found


def is_word(sign: str) -> bool:
    code = ord(sign)
    if code < 0x80:
        return sign.isalnum() or sign == "_"
    if code < 0xC0:
        return sign in "ªµº"
    return code not in SPACES and not any(low <= code <= high for low, high in RANGES)


def repetition_ratio(text: str | None) -> float | None:
    words = tokens(text or "")
    if len(words) < 4:
        return None
    pairs = list(pairwise(words))
    grams = [(pairs[i], pairs[i + 2]) for i in range(len(words) - 3)]
    return 1 - len(set(grams)) / len(grams)
