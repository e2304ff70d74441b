"""Which texts each event embeds and where each vector is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import KEY, Int32s, Int64s, Keys, TextParts, UInt8s
from .part import Postings

Ranks = npt.NDArray[np.integer]

RADIX_LIMIT = 2**16
"""numpy sorts 16-bit integers by radix, several times faster than wider ones."""


@dataclass(slots=True)
class PartsTable:
    """Embedded texts with their vectors, ordered by (row, field, chunk); columns as in `TextParts`.

    vec: int32, place of the text's key in the part's dictionary.
    """

    row: Int32s
    field: UInt8s
    chunk: npt.NDArray[np.int16]
    vec: Int32s
    primary: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def with_keys(self, keys: Keys) -> TextParts:
        """Give the same texts with their keys."""
        return TextParts(self.row, self.field, self.chunk, keys[self.vec], self.primary)

    def vec_of_row(self, n_rows: int) -> Int32s:
        """Give the vector of each row's primary text, -1 where it has none."""
        vectors = np.full(n_rows, -1, np.int32)
        vectors[self.row[self.primary]] = self.vec[self.primary]
        return vectors

    def postings(self, n_vectors: int, rank: Ranks | None) -> Postings:
        """Give the uses of each vector. rank: place of each row in (ts, seq) order; None: rows lie so."""
        by_time = np.arange(len(self)) if rank is None else np.argsort(rank[self.row], kind="stable")
        offsets, order = group(self.vec[by_time], n_vectors)
        uses = by_time[order]
        return Postings(offsets, self.row[uses], self.field[uses])


def join_parts(pieces: Sequence[TextParts], lengths: Sequence[int]) -> TextParts:
    """Put the texts of several batches one after the other; rows count on."""
    if not pieces:
        return TextParts.empty()
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32)
    rows = [piece.row + start for piece, start in zip(pieces, starts, strict=True)]
    return TextParts(
        np.concatenate(rows).astype(np.int32),
        np.concatenate([piece.field for piece in pieces]),
        np.concatenate([piece.chunk for piece in pieces]),
        join_keys([piece.key for piece in pieces]),
        np.concatenate([piece.primary for piece in pieces]),
    )


def order_parts(parts: TextParts, vec: Int32s, row_now: Ranks | None) -> PartsTable:
    """Move texts to the new places of their rows; those of one row stay in their (field, chunk) order.

    row_now: new row of each old one, -1 where it is left out (its texts are too); None: rows stay.
    """
    row = parts.row if row_now is None else row_now[parts.row].astype(np.int32)
    order = np.argsort(row, kind="stable")
    order = order[np.searchsorted(row[order], 0) :]
    return PartsTable(row[order], parts.field[order], parts.chunk[order], vec[order], parts.primary[order])


def join_keys(pieces: Sequence[Keys]) -> Keys:
    """Put keys one after the other."""
    return np.concatenate([np.empty(0, KEY), *pieces])


def index_keys(keys: Keys, *, zero_is_none: bool = False) -> tuple[Keys, Int32s]:
    """Give the distinct keys, ascending by (hi, lo), and the place of each key among them.

    zero_is_none: the all-zero key has the place -1 and is not among the distinct ones.
    """
    if not len(keys):
        return np.empty(0, KEY), np.empty(0, np.int32)
    packed = pa.py_buffer(np.ascontiguousarray(keys))
    coded = pa.Array.from_buffers(pa.binary(KEY.itemsize), len(keys), [None, packed]).dictionary_encode()
    values = np.frombuffer(coded.dictionary.buffers()[1], KEY, len(coded.dictionary))
    order = np.lexsort((values["lo"], values["hi"]))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    distinct = values[order]
    if zero_is_none and distinct["hi"][0] == 0 and distinct["lo"][0] == 0:
        distinct, place = distinct[1:], place - 1
    return distinct, place[coded.indices.to_numpy()]


def group(groups: Int32s, n_groups: int) -> tuple[Int64s, npt.NDArray[np.intp]]:
    """Sort by group, stable: offsets int64 (n_groups + 1), and the order; members below 0 are left out."""
    narrow = groups if n_groups >= RADIX_LIMIT // 2 else groups.astype(np.int16)
    order = np.argsort(narrow, kind="stable")
    sizes = np.bincount(groups[groups >= 0], minlength=n_groups)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return offsets, order[len(order) - int(offsets[-1]) :]
