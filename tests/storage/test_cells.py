from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.storage.cells import (
    EPOCH_LEVEL,
    ROOT_LEVEL,
    SPARSE_LEVEL,
    SPARSE_ROWS,
    covering_cell,
    middle_ns,
    split_cells,
    time_node,
)

DAY_NS = 86_400 * 10**9
NOW_NS = 1_777_000_000 * 10**9
INSTANTS = st.integers(-(2**63), 2**63 - 1)


def holds(level: int, cell: int, ts_ns: int) -> bool:
    if level == ROOT_LEVEL:
        return True
    return cell << (20 + level) <= ts_ns < (cell + 1) << (20 + level)


@given(INSTANTS, st.integers(0, ROOT_LEVEL))
def test_an_instant_lies_in_its_cell(ts_ns: int, level: int) -> None:
    assert holds(level, time_node(ts_ns, level), ts_ns)


@given(INSTANTS, INSTANTS)
def test_the_covering_cell_is_the_smallest_that_holds_both(first: int, last: int) -> None:
    level, cell = covering_cell(first, last)
    assert holds(level, cell, first)
    assert holds(level, cell, last)
    if level:
        assert time_node(first, level - 1) != time_node(last, level - 1) or level == ROOT_LEVEL
        low, high = sorted((first, last))
        assert low < middle_ns(level, cell) <= high


@given(st.lists(st.one_of(INSTANTS, st.integers(NOW_NS, NOW_NS + DAY_NS)), max_size=30))
def test_split_keeps_each_row_once_inside_its_cell(times: list[int]) -> None:
    ts = np.array(times, np.int64)
    cells = split_cells(ts)
    order = [row for _, _, rows in cells for row in rows.tolist()]
    assert order == sorted(range(len(times)), key=lambda row: (times[row], row))
    for level, cell, rows in cells:
        assert level <= SPARSE_LEVEL
        assert all(holds(level, cell, times[row]) for row in rows)


def test_rows_of_an_hour_stay_whole() -> None:
    ts = (NOW_NS // 2**42 * 2**42) + np.arange(100_000) * 10**6
    ((level, _, rows),) = split_cells(ts)
    assert level <= EPOCH_LEVEL
    assert len(rows) == 100_000


def test_a_stray_event_gets_its_own_small_cell() -> None:
    ts = np.concatenate([NOW_NS + np.arange(20_000) * 10**6, [0, 3_029_529_600 * 10**9, -5]])
    cells = split_cells(ts)
    alone = {int(ts[rows[0]]): level for level, _, rows in cells if len(rows) == 1}
    assert alone == {0: 0, 3_029_529_600 * 10**9: 0, -5: 0}
    assert sum(len(rows) for _, _, rows in cells) == 20_003


def test_a_sparse_file_of_seven_months_is_a_few_cells() -> None:
    ts = NOW_NS + np.linspace(0, 212 * DAY_NS, 9_000).astype(np.int64)
    cells = split_cells(ts)
    assert len(cells) <= 10
    assert all(len(rows) <= SPARSE_ROWS for _, _, rows in cells)


def test_no_rows_have_no_cells() -> None:
    assert split_cells(np.empty(0, np.int64)) == []


@pytest.mark.parametrize("level", [0, 22, 43])
def test_times_before_1970_lie_in_negative_cells(level: int) -> None:
    assert time_node(-1, level) == -1
    assert time_node(0, level) == 0
