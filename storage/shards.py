"""Shards: which rows of a merged part lie together, by the attention head that reads them most sharply."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .batch import NO_HEAD, Int32s
from .part import NO_SHARD, Slice, VectorTable

SHARDS_PER_HEAD = 16
"""Shard of head h is 16 h; those of a head that was split are 16 h + 1 + the second head (at most 14)."""

SPLIT_SHARE = 2
"""A head with more than this many times the mean rows of the heads in use is split by the second head."""

Shards = npt.NDArray[np.uint16]


def assign_shards(vec_of_row: Int32s, table: VectorTable) -> Shards:
    """Give the shard of each row, NO_SHARD where its primary text has no vector or no head. Source: S70."""
    shard_of_vector = np.full(len(table) + 1, NO_SHARD, np.uint16)
    heads, seconds = table.head.astype(np.int64), table.second.astype(np.int64)
    known = np.flatnonzero(table.have & (table.head != NO_HEAD))
    shard_of_vector[known] = heads[known] * SHARDS_PER_HEAD
    head_rows = _count_heads(vec_of_row, heads, known)
    used = np.count_nonzero(head_rows)
    for head in np.flatnonzero(head_rows * used > SPLIT_SHARE * head_rows.sum()):
        split = known[(heads[known] == head) & (seconds[known] != NO_HEAD)]
        shard_of_vector[split] += (1 + np.minimum(seconds[split], SHARDS_PER_HEAD - 2)).astype(np.uint16)
    return shard_of_vector[vec_of_row]


def slices_of(shard: Shards | None, n_rows: int) -> tuple[Slice, ...]:
    """Give the runs of equal shards; None: all rows are one run without a shard."""
    if not n_rows:
        return ()
    if shard is None:
        return (Slice(NO_SHARD, 0, n_rows),)
    starts = [0, *(np.flatnonzero(shard[1:] != shard[:-1]) + 1).tolist()]
    ends = [*starts[1:], n_rows]
    return tuple(Slice(int(shard[lo]), lo, hi) for lo, hi in zip(starts, ends, strict=True))


def _count_heads(
    vec_of_row: Int32s, heads: npt.NDArray[np.int64], known: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    rows = np.bincount(vec_of_row[vec_of_row >= 0], minlength=len(heads))
    return np.bincount(heads[known], rows[known], minlength=NO_HEAD).astype(np.int64)
