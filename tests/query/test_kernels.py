"""Compiled scans give the integers and the selections that numpy gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from treering.query import kernels

EXTREME = st.sampled_from([-128, -127, -1, 0, 1, 127])
QUERY = st.sampled_from([-127, -64, -1, 0, 1, 127])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([64, 128, 384, 448, 768]), st.integers(0, 5))
def test_dots_equal_numpy_on_both_paths(data: st.DataObject, width: int, n: int) -> None:
    fill = data.draw(EXTREME)
    codes = data.draw(hnp.arrays(np.int8, (n, width), elements=EXTREME, fill=st.just(fill)))
    query = data.draw(hnp.arrays(np.int8, width, elements=QUERY, fill=QUERY))
    expected = codes.astype(np.int32) @ query.astype(np.int32)
    assert kernels.dots(codes, query, vnni=False).tolist() == expected.tolist()
    assert kernels.dots(codes, query, vnni=True).tolist() == expected.tolist()


def test_dots_of_random_rows_equal_numpy_on_both_paths() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(-128, 128, (500, 384), dtype=np.int8)
    query = rng.integers(-127, 128, 384, dtype=np.int8)
    expected = codes.astype(np.int32) @ query.astype(np.int32)
    assert np.array_equal(kernels.dots(codes, query, vnni=False), expected)
    assert np.array_equal(kernels.dots(codes, query, vnni=True), expected)


def test_read_only_and_unaligned_rows_are_taken() -> None:
    rng = np.random.default_rng(1)
    raw = rng.integers(-128, 128, 64 * 10 + 8, dtype=np.int8)
    codes = raw[8:].reshape(10, 64)
    codes.flags.writeable = False
    query = rng.integers(-127, 128, 64, dtype=np.int8)
    assert np.array_equal(kernels.dots(codes, query), codes.astype(np.int32) @ query.astype(np.int32))


@pytest.mark.parametrize("vnni", [False, True])
@pytest.mark.parametrize("use_ids", [False, True])
@pytest.mark.parametrize("k", [1, 7, 50, 400])
def test_selection_keeps_every_row_that_may_be_among_the_best(vnni: bool, use_ids: bool, k: int) -> None:
    rng = np.random.default_rng(k)
    n = 300
    codes = rng.integers(-127, 128, (n, 128), dtype=np.int8)
    query = rng.integers(-127, 128, 128, dtype=np.int8)
    scale = rng.random(n).astype(np.float32) * 1e-3
    err = rng.random(n).astype(np.float32) * 0.02
    have = rng.random(n) > 0.1
    ids = (
        np.sort(rng.choice(n, 200, replace=False)).astype(np.int32)
        if use_ids
        else np.arange(n, dtype=np.int32)
    )
    near = (codes.astype(np.int32) @ query.astype(np.int32)).astype(np.float32) * (scale * np.float32(1e-2))
    margin = np.float32(1.5) * err + np.float32(1e-3)
    mine = ids[have[ids]]
    lower = np.sort((near - margin)[mine])[::-1]
    wanted = set(mine[(near + margin)[mine] >= (lower[k - 1] if k <= len(lower) else -np.inf)].tolist())
    lowest, found, upper = (
        np.full(k, -np.inf, np.float32),
        np.empty(len(ids), np.int32),
        np.empty(len(ids), np.float32),
    )
    n_found = kernels.select(
        *(codes, scale, err, have, ids, use_ids, query, np.float32(1e-2), np.float32(1.5), np.float32(1e-3)),
        *(np.float32(-np.inf), vnni and kernels.HAS_VNNI, lowest, found, upper),
    )
    kept = found[:n_found]
    assert wanted <= set(kept.tolist()) <= set(mine.tolist())
    np.testing.assert_allclose(upper[:n_found], (near + margin)[kept], rtol=1e-6, atol=1e-7)
    if k <= len(lower):
        assert lowest.min() == pytest.approx(lower[k - 1], rel=1e-5, abs=1e-7)


def test_floor_leaves_out_what_scores_below_it() -> None:
    codes = np.ones((4, 64), np.int8) * np.arange(1, 5, dtype=np.int8)[:, None]
    one = np.ones(4, np.float32)
    found, upper = np.empty(4, np.int32), np.empty(4, np.float32)
    n_found = kernels.select(
        *(codes, one, 0 * one, one > 0, np.empty(0, np.int32), False, np.ones(64, np.int8)),
        *(np.float32(1), np.float32(1), np.float32(0), np.float32(150), kernels.HAS_VNNI),
        *(np.full(4, -np.inf, np.float32), found, upper),
    )
    assert found[:n_found].tolist() == [2, 3]
