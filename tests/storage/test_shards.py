from __future__ import annotations

import numpy as np

from treering.storage.batch import KEY
from treering.storage.part import NO_SHARD, Slice, VectorTable
from treering.storage.shards import assign_shards, slices_of
from treering.storage.vectors import empty_table


def table_of(heads: list[int], seconds: list[int]) -> VectorTable:
    table = empty_table(np.zeros(len(heads), KEY), 4, 0, 0)
    table.have[:] = True
    table.head[:], table.second[:] = heads, seconds
    return table


def test_a_shard_is_sixteen_times_the_head() -> None:
    table = table_of([0, 3, 11], [1, 1, 1])
    assert assign_shards(np.array([0, 1, 2, 1, 0, 2], np.int32), table).tolist() == [0, 48, 176, 48, 0, 176]


def test_rows_without_vector_or_head_have_no_shard() -> None:
    table = table_of([255, 2, 4], [255, 0, 0])
    table.have[2] = False
    assert assign_shards(np.array([0, 1, 2, -1], np.int32), table).tolist() == [
        NO_SHARD,
        32,
        NO_SHARD,
        NO_SHARD,
    ]


def test_a_head_over_twice_the_mean_share_is_split_by_the_second() -> None:
    # Heads 0, 1, 2 with 7, 1 and 1 rows: the mean is 3, so head 0 is split and the others are not.
    table = table_of([0, 0, 0, 1, 2], [5, 255, 30, 3, 3])
    rows = np.array([0, 0, 0, 1, 1, 2, 2, 3, 4], np.int32)
    assert assign_shards(rows, table).tolist() == [6, 6, 6, 0, 0, 15, 15, 16, 32]


def test_a_head_of_just_twice_the_mean_stays_whole() -> None:
    table = table_of([0, 1, 2], [1, 0, 0])
    assert set(assign_shards(np.array([0] * 4 + [1, 2], np.int32), table).tolist()) == {0, 16, 32}


def test_slices_are_the_runs_of_equal_shards() -> None:
    shard = np.array([0, 0, 16, NO_SHARD], np.uint16)
    assert slices_of(shard, 4) == (Slice(0, 0, 2), Slice(16, 2, 3), Slice(NO_SHARD, 3, 4))
    assert slices_of(None, 4) == (Slice(NO_SHARD, 0, 4),)
    assert slices_of(shard[:0], 0) == slices_of(None, 0) == ()
