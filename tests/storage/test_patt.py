"""A tree is the one that plain loops over its rows make, and its file gives it back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.effort import examples
from tests.naive import signature as naive_signature
from tests.naive import tree as naive
from tests.storage.vector_table import make_vectors
from treering.storage import patt
from treering.storage.cells import ROOT_LEVEL, time_node
from treering.storage.part import NO_SHARD, Slice
from treering.storage.signature import compose
from treering.storage.tree import LEAF_ROWS, Tree

relaxed = examples(40)


NOW_NS = 1_777_000_000 * 10**9


def bursty_times(rng: np.random.Generator, n_rows: int, spread: str) -> npt.NDArray[np.int64]:
    if spread == "burst":
        return np.sort(NOW_NS + (rng.pareto(0.6, n_rows) * 10**6).astype(np.int64))
    if spread == "equal":
        return np.full(n_rows, NOW_NS)
    if spread == "epoch":
        return np.sort(rng.integers(-(2**30), 2**30, n_rows))
    return np.sort(NOW_NS + rng.integers(0, 10**12, n_rows))


def make_part(seed: int, n_rows: int, n_slices: int, spread: str) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    times = bursty_times(rng, n_rows, spread)
    shard = np.sort(rng.integers(0, n_slices, n_rows))
    ts, seq = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    slices = []
    # Arrival is time order here, dealt out to the slices at random.
    dealt = rng.permutation(shard)
    for piece in np.unique(shard):
        rows, mine = np.flatnonzero(shard == piece), np.flatnonzero(dealt == piece)
        ts[rows], seq[rows] = times[mine], mine
        slices.append(Slice(int(piece), int(rows[0]), int(rows[-1]) + 1))
    floats = rng.choice([np.nan, np.inf, -2.5, 0.0, 1.0, 3.0], n_rows, p=[0.1, 0.05, 0.2, 0.25, 0.2, 0.2])
    numbers: dict[str, Any] = {
        "f": (floats, rng.random(n_rows) < 0.8),
        "i": (rng.integers(-(2**62), 2**62, n_rows), None),
        "gone": (rng.random(n_rows), np.zeros(n_rows, np.bool_)),
    }
    level = (rng.integers(1, 7, n_rows).astype(np.uint8), rng.random(n_rows) < 0.7)
    return {"ts": ts, "seq": seq, "slices": slices, "numbers": numbers, "level": level}


def cells(number: tuple[Any, Any], rows: npt.NDArray[Any]) -> list[Any]:
    values, mask = number
    return [v if m else None for v, m in zip(values[rows].tolist(), _all(mask, values)[rows], strict=True)]


def _all(mask: Any, values: Any) -> Any:
    return np.ones(len(values), np.bool_) if mask is None else mask


def rows_of(tree: Tree, node: int) -> npt.NDArray[np.int64]:
    return np.concatenate([np.arange(lo, hi) for lo, hi in zip(tree.lo[node], tree.hi[node], strict=True)])


@relaxed
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5000),
    st.integers(1, 4),
    st.sampled_from(["even", "burst", "equal", "epoch"]),
)
@example(1, 5000, 3, "even")
@example(2, 4000, 1, "burst")
@example(3, 3000, 2, "epoch")
def test_nodes_say_what_their_rows_say(seed: int, n_rows: int, n_slices: int, spread: str) -> None:
    part = make_part(seed, n_rows, n_slices, spread)
    tree, ts = patt.build_tree(**part), part["ts"]
    assert sorted(rows_of(tree, 0).tolist()) == list(range(n_rows))
    for node in range(len(tree.count)):
        rows = rows_of(tree, node)
        assert len(rows) == tree.count[node] > 0
        assert (tree.t_min[node], tree.t_max[node]) == (ts[rows].min(), ts[rows].max())
        level = int(tree.level[node])
        assert {time_node(int(t), level) for t in ts[rows]} == {int(tree.cell[node])} or level == ROOT_LEVEL
        assert tree.shards[node].tolist() == (tree.hi[node] - tree.lo[node]).tolist()
        assert tree.levels[node].tolist() == naive.level_counts(cells(part["level"], rows))
        for k, name in enumerate(tree.signals):
            low, high, total, n = naive.number_summary(cells(part["numbers"][name], rows))
            assert tree.n[node, k] == n
            np.testing.assert_allclose(tree.total[node, k], total, rtol=1e-9, atol=2.0**20)
            if name == "i":
                assert tree.minimum[node, k] <= low
                assert tree.maximum[node, k] >= high
            np.testing.assert_allclose(tree.minimum[node, k], low, rtol=1e-15)
            np.testing.assert_allclose(tree.maximum[node, k], high, rtol=1e-15)
        if tree.left[node] < 0:
            assert tree.right[node] < 0
            assert len(rows) <= LEAF_ROWS or level == 0
        else:
            assert len(rows) > LEAF_ROWS
            children = [rows_of(tree, int(c)) for c in (tree.left[node], tree.right[node])]
            assert sorted(np.concatenate(children).tolist()) == sorted(rows.tolist())
            assert tree.t_max[tree.left[node]] < tree.t_min[tree.right[node]]
            assert tree.left[node] == node + 1


@relaxed
@given(st.integers(0, 2**32 - 1), st.integers(1, 6000), st.integers(1, 3), st.data())
def test_the_nodes_that_cover_a_range_have_its_rows(
    seed: int, n_rows: int, n_slices: int, data: st.DataObject
) -> None:
    part = make_part(seed, n_rows, n_slices, data.draw(st.sampled_from(["even", "burst", "equal", "epoch"])))
    tree, ts = patt.build_tree(**part), part["ts"]
    ends = st.one_of(
        st.sampled_from([*ts[:: max(1, n_rows // 7)].tolist(), -(2**70), 2**70]), st.integers(-9, 9)
    )
    start, end = data.draw(ends), data.draw(ends)
    expected = naive.rows_between(ts, start, end).tolist()
    whole, boundary = patt.cover(tree, start, end)
    inside = [row for node in whole for row in rows_of(tree, node)]
    cut = [row for node in boundary for row in rows_of(tree, node)]
    assert len(set(inside) | set(cut)) == len(inside) + len(cut)
    assert set(inside) <= set(expected) <= set(inside) | set(cut)
    assert (tree.left[boundary] < 0).all()
    assert len(boundary) <= 2
    depth = int(tree.level[0]) + 1
    assert len(whole) <= 2 * depth


@pytest.mark.parametrize("n_slices", [1, 3])
def test_nodes_compose_the_signatures_of_their_events_in_order(n_slices: int) -> None:
    part = make_part(7, 6000, n_slices, "even")
    table, vec = make_vectors(6000)
    scale = np.random.default_rng(1).uniform(0.01, 0.02, 136)
    tree = patt.build_tree(**part, table=table, vec_of_row=vec, qls_scale=scale.tolist())
    kept = np.flatnonzero(~np.isnan(tree.signature[:, 0]))
    assert {int(n) for n in np.flatnonzero(tree.count >= 256)} | {0} == set(kept.tolist())
    smallest = sorted(kept.tolist(), key=lambda node: int(tree.count[node]))[:3]
    for node in {*smallest, 0}:
        rows = rows_of(tree, node)
        rows = rows[np.lexsort((part["seq"][rows], part["ts"][rows]))]
        events = [table.qls[v] * scale for v in vec[rows] if v >= 0]
        composed = events[0]
        for event in events[1:]:
            composed = compose(composed, event)
        np.testing.assert_allclose(tree.signature[node], composed, rtol=1e-4, atol=1e-2)


def test_signature_of_single_steps_is_that_of_the_path() -> None:
    # Events whose own areas are 0 are plain steps, so the root is the log-signature of the path of events.
    part = make_part(3, 300, 1, "even")
    table, vec = make_vectors(300)
    table.qls[:, 16:] = 0
    tree = patt.build_tree(**part, table=table, vec_of_row=vec, qls_scale=[0.5] * 136)
    steps = np.array([table.qls[v, :16] * 0.5 for v in vec if v >= 0])
    np.testing.assert_allclose(tree.signature[0], naive_signature.log_signature(steps), rtol=1e-5, atol=0.5)


def test_nodes_with_vectors_to_come_have_no_signature() -> None:
    part = make_part(7, 6000, 1, "even")
    table, vec = make_vectors(6000)
    table.have[5] = False
    vec[:] = np.where(vec == 5, 4, vec)
    vec[4321] = 5
    tree = patt.build_tree(**part, table=table, vec_of_row=vec, qls_scale=[1.0] * 136)
    signed = np.flatnonzero((tree.count >= 256) | (np.arange(len(tree.count)) == 0)).tolist()
    waits = [4321 in rows_of(tree, node) for node in signed]
    assert [bool(np.isnan(tree.signature[node]).all()) for node in signed] == waits
    assert set(waits) == {True, False}


def test_small_root_keeps_its_signature_and_no_vectors_give_the_identity() -> None:
    part = make_part(7, 20, 1, "even")
    table, vec = make_vectors(20)
    tree = patt.build_tree(**part, table=table, vec_of_row=np.full_like(vec, -1), qls_scale=[1.0] * 136)
    assert tree.signature.tolist() == [[0.0] * 136]


def test_no_rows_make_no_nodes() -> None:
    empty = np.empty(0, np.int64)
    tree = patt.build_tree(empty, empty, [], numbers={"a": (np.empty(0), None)})
    assert len(tree.count) == 0
    assert [len(nodes) for nodes in patt.cover(tree, 0, 10)] == [0, 0]


def test_idle_time_costs_no_nodes() -> None:
    # Two busy seconds, a century apart.
    ts = np.sort(np.concatenate([np.arange(2000) * 500_000, 3 * 10**18 + np.arange(2000) * 500_000]))
    tree = patt.build_tree(ts, np.arange(4000), [Slice(NO_SHARD, 0, 4000)], numbers={})
    assert len(tree.count) <= 2 * 8


@pytest.mark.parametrize("n_rows", [1, 1024, 1025, 50_000])
def test_even_streams_have_few_nodes(n_rows: int) -> None:
    ts = NOW_NS + np.arange(n_rows) * 10**7
    tree = patt.build_tree(ts, np.arange(n_rows), [Slice(NO_SHARD, 0, n_rows)], numbers={})
    assert len(tree.count) <= 4 * -(-n_rows // LEAF_ROWS)
