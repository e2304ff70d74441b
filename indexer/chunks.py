"""Long texts cut into chunks that fit the embedding model, and into sentences; and their content keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice

import numpy as np
import numpy.typing as npt

from .mask import mask_key

BUDGET = 1000
"""Weight of a chunk, about 256 tokens (the model's window); a plain character weighs 1, a quarter token."""

OVERLAP = 150
"""Weight that a chunk shares with the one before it (15 %), so that no sentence is only ever seen cut."""

MAX_CHUNKS = 256
"""Chunks of one field of one event that are embedded, about 64k tokens; the rest is found by words only."""

_WIDE_WEIGHT = 4
_OTHER_WEIGHT = 2
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_BLANK = re.compile(r"\s")
_SAFE_LENGTH = BUDGET // _WIDE_WEIGHT

_CLOSERS = "\"'”’)\\]}»」』）】"
_BOUNDARY = re.compile(
    rf"[.!?…]+[{_CLOSERS}]*(?=\s|$)\s*|[。！？；｡]+[{_CLOSERS}]*\s*|(?:[ \t]*\n)+\s*",
)
_ABBREVIATIONS = frozenset(
    [
        "mr",
        "mrs",
        "ms",
        "dr",
        "prof",
        "sr",
        "jr",
        "st",
        "vs",
        "etc",
        "e.g",
        "i.e",
        "cf",
        "fig",
        "figs",
        "eq",
        "no",
        "nos",
        "vol",
        "pp",
        "ed",
        "eds",
        "al",
        "approx",
        "inc",
        "ltd",
        "co",
        "corp",
        "dept",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
        "sun",
        "u.s",
        "u.k",
        "a.m",
        "p.m",
    ]
)
_LIST_MARK = re.compile(r"(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})\.")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Give the sentences of `text` as `[start, end)`, without the blanks around them.

    Ends are ``. ! ? …`` before a blank, Chinese and Japanese full stops anywhere, and line breaks (so list
    items are sentences). Abbreviations, initials, decimals and list numbers do not end one.
    """
    spans = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        if not _is_end(text, start, match):
            continue
        spans.append((start, match.end()))
        start = match.end()
    spans.append((start, len(text)))
    return [span for span in (_trim(text, *s) for s in spans) if span[0] < span[1]]


def split_chunks(text: str) -> Iterator[tuple[int, int]]:
    """Give the chunks of `text` as `[start, end)`, each when it is asked for: together they cover it.

    Neighbours share about 15 %. A chunk weighs at most `BUDGET`: letters of Chinese, Japanese and Korean weigh
    4, other characters outside Latin 2. Cuts fall on the last sentence end, else line break, else blank of a
    chunk's second half, else anywhere.
    """
    if fits(text):
        if text:
            yield 0, len(text)
        return
    start = 0
    while True:
        window = text[start : start + BUDGET + 1]  # a character weighs at least 1: no chunk reaches further
        total = np.concatenate(([0], np.cumsum(_weights(window))))
        reach = int(np.searchsorted(total, BUDGET, side="right")) - 1
        if reach >= len(text) - start:
            yield start, len(text)
            return
        end = _cut(window, max(reach, 1))
        yield start, start + end
        start += _overlap_start(window, end, total)


def embedded_chunks(text: str) -> Iterator[tuple[int, int]]:
    """Give the chunks of `text` that are embedded: the first `MAX_CHUNKS` that are not blank."""
    filled = (span for span in split_chunks(text) if not text[slice(*span)].isspace())
    return islice(filled, MAX_CHUNKS)


def fits(text: str) -> bool:
    """Whether `text` is one chunk."""
    n = len(text)
    if n <= _SAFE_LENGTH or (text.isascii() and n <= BUDGET):
        return True
    return n <= BUDGET and int(_weights(text).sum()) <= BUDGET


def part_texts(field: str, text: str) -> list[tuple[tuple[int, int], str]]:
    """Give the embedded texts of a field's text with their keys as (hi, lo), in chunk order: `MAX_CHUNKS` at most.

    A body that is one chunk is keyed by its mask key, so that lines of one template share a vector; every
    other text by its exact bytes.
    """
    if not text or text.isspace():
        return []
    if field == "body" and fits(text):
        return [(mask_key(text), text)]
    return [(exact_key(chunk), chunk) for chunk in (text[lo:hi] for lo, hi in embedded_chunks(text))]


def exact_key(text: str) -> tuple[int, int]:
    """Give the 128-bit key of a text's exact bytes as (hi, lo), never zero."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1


def _is_end(text: str, start: int, match: re.Match[str]) -> bool:
    if not match.group().startswith("."):
        return True
    before = text[max(start, match.start() - 12) : match.start()].split()
    if not before:
        return True
    word = before[-1].lstrip("(\"'[“‘")
    if word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper()):
        return "\n" in match.group()
    is_list_mark = (
        _LIST_MARK.fullmatch(word + ".") is not None and text[start : match.start()].strip() == word
    )
    return not is_list_mark


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _weights(text: str) -> npt.NDArray[np.int64]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    weights = np.where(codes < 0x250, 1, _OTHER_WEIGHT)
    wide = (
        ((codes >= 0x2E80) & (codes <= 0x9FFF))
        | ((codes >= 0xAC00) & (codes <= 0xD7AF))
        | ((codes >= 0xF900) & (codes <= 0xFAFF))
        | ((codes >= 0xFF00) & (codes <= 0xFFEF))
        | ((codes >= 0x20000) & (codes <= 0x3FFFF))
    )
    return np.where(wide, _WIDE_WEIGHT, weights).astype(np.int64)


def _cut(text: str, limit: int) -> int:
    """Give the end of the chunk that begins `text` and may reach `limit`."""
    lowest = limit // 2
    window = text[lowest:limit]
    ends = [m.end() for m in _BOUNDARY.finditer(window) if m.end() < len(window) or m.group()[-1:].isspace()]
    if ends:
        return lowest + ends[-1]
    for blank in ("\n", " ", "\t"):
        at = window.rfind(blank)
        if at >= 0:
            return lowest + at + 1
    return limit


def _overlap_start(text: str, end: int, total: npt.NDArray[np.int64]) -> int:
    """Give where the chunk after `[0, end)` begins: `OVERLAP` before `end`, moved to the start of a word."""
    at = max(int(np.searchsorted(total, total[end] - OVERLAP, side="left")), 1)
    if not text[at - 1].isspace() and not _WIDE.match(text[at - 1]):
        blank = _next_blank(text, at, end)
        at = blank if blank is not None else at
    return min(at, end)


def _next_blank(text: str, start: int, end: int) -> int | None:
    match = _BLANK.search(text, start, end)
    return match.end() if match and match.end() < end else None
