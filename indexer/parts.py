"""The embedded texts of decoded events: which chunks of which fields, and the key of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.batch import KEY, PART_FIELDS, Keys, TextParts

from .chunks import BUDGET, MAX_CHUNKS, embedded_chunks, exact_key, fits
from .mask import mask_keys

_BODY, _PROMPT, _RESPONSE, _CONTEXT = range(len(PART_FIELDS))
_PRIMARY_ORDER = (_RESPONSE, _BODY, _PROMPT)


@dataclass(slots=True)
class _Rows:
    row: list[int] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    chunk: list[int] = field(default_factory=list)
    key: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: int, field_: int, texts: list[str]) -> None:
        """Add the chunks of one event's field, whose texts follow each other."""
        chunks = (text[lo:hi] for text in texts for lo, hi in embedded_chunks(text))
        for n, chunk in enumerate(islice(chunks, MAX_CHUNKS)):
            self.row.append(row)
            self.fields.append(field_)
            self.chunk.append(n)
            self.key.append(exact_key(chunk))


def body_keys(body: pa.Array) -> Keys:
    """Give the mask key of each body (zero for null, empty and blank ones)."""
    filled = body.fill_null("") if body.null_count else body
    _, offsets, data = filled.buffers()
    ends = np.frombuffer(offsets, np.int32)[filled.offset : filled.offset + len(filled) + 1].astype(np.int64)
    chars = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    keys = mask_keys(chars[ends[0] : ends[-1]], ends[1:] - ends[0])
    keys[_is_blank(filled)] = np.zeros((), KEY)
    return keys


def text_parts(columns: Mapping[str, pa.Array], keys: Keys) -> TextParts:
    """Give the parts of a batch, by event, field and chunk.

    The body, if it is one chunk, has its mask key (from `keys`); all other texts are keyed by their exact
    bytes. The primary text of an event is its response, else its body, else its prompt. Of a field
    `MAX_CHUNKS` chunks are taken.
    """
    rows = _Rows()
    short = _short_bodies(columns.get("body"), keys, rows)
    for field_, name in ((_PROMPT, "prompt"), (_RESPONSE, "response"), (_CONTEXT, "context")):
        if name in columns:
            for row, value in enumerate(columns[name].to_pylist()):
                if value:
                    rows.add(
                        row, field_, [value] if isinstance(value, str) else [text for text in value if text]
                    )
    return _assemble(rows, short, keys)


def _short_bodies(body: pa.Array | None, keys: Keys, rows: _Rows) -> npt.NDArray[np.int64]:
    """Give the rows whose body is one chunk; add the chunks of the longer ones to `rows`."""
    if body is None:
        return np.empty(0, np.int64)
    has_key = (keys["hi"] != 0) | (keys["lo"] != 0)
    n_bytes = pc.binary_length(body).fill_null(0).to_numpy()
    n_chars = pc.utf8_length(body).fill_null(0).to_numpy()
    plain = (n_bytes == n_chars) & (n_chars <= BUDGET) | (n_chars <= BUDGET // 4)
    is_long = np.zeros(len(body), np.bool_)
    for row in np.flatnonzero(has_key & ~plain):
        text = body[int(row)].as_py()
        if not fits(text):
            is_long[row] = True
            rows.add(int(row), _BODY, [text])
    return np.flatnonzero(has_key & ~is_long)


def _assemble(rows: _Rows, short: npt.NDArray[np.int64], keys: Keys) -> TextParts:
    long_keys = np.array(rows.key, KEY) if rows.key else np.empty(0, KEY)
    row = np.concatenate((short, np.array(rows.row, np.int64))).astype(np.int32)
    field_ = np.concatenate((np.full(len(short), _BODY), np.array(rows.fields, np.int64))).astype(np.uint8)
    chunk = np.concatenate((np.zeros(len(short), np.int64), np.array(rows.chunk, np.int64))).astype(np.int16)
    key = np.concatenate((keys[short], long_keys))
    order = np.lexsort((chunk, field_, row)) if rows.row else np.arange(len(row))
    parts = TextParts(row[order], field_[order], chunk[order], key[order], np.zeros(len(row), np.bool_))
    parts.primary[:] = _primary(parts)
    return parts


def _primary(parts: TextParts) -> npt.NDArray[np.bool_]:
    """Mark chunk 0 of each event's best field."""
    rank = np.full(len(PART_FIELDS), 255)
    rank[list(_PRIMARY_ORDER)] = np.arange(len(_PRIMARY_ORDER))
    ranks = rank[parts.field]
    candidates = np.flatnonzero((parts.chunk == 0) & (ranks < 255))
    order = candidates[np.lexsort((ranks[candidates], parts.row[candidates]))]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = parts.row[order[1:]] != parts.row[order[:-1]]
    primary = np.zeros(len(parts), np.bool_)
    primary[order[is_first]] = True
    return primary


def _is_blank(texts: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0))
