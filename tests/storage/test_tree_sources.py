"""A merged tree that takes over what the trees of its parts know equals one that is built from the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.same_trees import assert_alike
from tests.storage.vector_table import make_vectors
from treering.storage import patt
from treering.storage.part import NO_SHARD, FieldStats, Slice, VectorTable
from treering.storage.summaries import Leaves
from treering.storage.tree import Tree
from treering.storage.tree_sources import Source

relaxed = examples(40)


NOW_NS = 1_777_000_000 * 10**9


SPAN_NS = 10**12


NAMES = ("f", "gone", "i", "rare")


SCALE = np.random.default_rng(1).uniform(0.01, 0.02, 136).tolist()


Rows = npt.NDArray[np.int64]


@dataclass
class Events:
    """Columns of events, in no order."""

    ts: Rows
    seq: Rows
    numbers: dict[str, tuple[Any, npt.NDArray[np.bool_]]]
    level: tuple[Any, npt.NDArray[np.bool_]]
    vec: npt.NDArray[np.int32]
    shard: Rows

    def take(self, rows: Rows) -> Events:
        def pair(column: tuple[Any, Any]) -> tuple[Any, Any]:
            return column[0][rows], column[1][rows]

        numbers = {name: pair(column) for name, column in self.numbers.items()}
        return Events(
            self.ts[rows], self.seq[rows], numbers, pair(self.level), self.vec[rows], self.shard[rows]
        )

    def tree(
        self, table: VectorTable, *, n_shards: int, names: Any = NAMES, sources: Any = (), scale: Any = SCALE
    ) -> Tree:
        """The tree of these events, ordered by (shard, ts, seq) with a slice for each of `n_shards` shards."""
        shard = self.shard % n_shards
        mine = self.take(np.lexsort((self.seq, self.ts, shard)))
        shard = np.sort(shard)
        edges = [int(np.searchsorted(shard, k)) for k in range(n_shards + 1)]
        slices = [Slice(k if n_shards > 1 else NO_SHARD, edges[k], edges[k + 1]) for k in range(n_shards)]
        return patt.build_tree(
            mine.ts,
            mine.seq,
            [piece for piece in slices if piece.hi > piece.lo],
            numbers={name: mine.numbers[name] for name in names},
            level=mine.level,
            vec_of_row=mine.vec,
            table=table,
            qls_scale=scale,
            sources=sources,
        )

    def fields(self) -> dict[str, FieldStats]:
        stats = {name: FieldStats(int(mask.sum())) for name, (_, mask) in self.numbers.items() if mask.any()}
        return stats | ({"level": FieldStats(int(self.level[1].sum()))} if self.level[1].any() else {})


def make_events(rng: np.random.Generator, n_rows: int, times: Rows) -> Events:
    kinds: dict[str, Any] = {
        "f": rng.choice([np.nan, -2.5, 0.0, 1.0, 3.0, 1e300], n_rows),
        "i": rng.integers(-(2**62), 2**62, n_rows),
        "gone": rng.random(n_rows),
        "rare": rng.random(n_rows),
    }
    shares = {"f": 0.8, "i": 1.0, "gone": 0.0, "rare": 0.01}
    numbers = {name: (values, rng.random(n_rows) < shares[name]) for name, values in kinds.items()}
    level = (rng.integers(1, 7, n_rows).astype(np.uint8), rng.random(n_rows) < 0.7)
    _, vec = make_vectors(n_rows)
    return Events(times, rng.permutation(n_rows), numbers, level, vec, rng.integers(0, 3, n_rows))


def part_of_row(rng: np.random.Generator, times: Rows, n_parts: int, layout: str) -> Rows:
    """Which part each event is in: one behind the other, beside each other, or partly so."""
    n_rows = len(times)
    by_time = np.argsort(np.argsort(times, kind="stable"), kind="stable") * n_parts // max(n_rows, 1)
    anywhere = rng.integers(0, n_parts, n_rows)
    if layout == "apart":
        return by_time
    if layout == "together":
        return anywhere
    return np.where(rng.random(n_rows) < 0.02, anywhere, by_time)


def make_times(rng: np.random.Generator, n_rows: int, spread: str) -> Rows:
    if spread == "burst":
        return NOW_NS + (rng.pareto(0.6, n_rows) * 10**6).astype(np.int64).clip(0, SPAN_NS)
    if spread == "equal":
        return np.full(n_rows, NOW_NS) + rng.integers(0, 2, n_rows) * 2**22
    if spread == "epoch":
        return rng.integers(-(2**30), 2**30, n_rows)
    return NOW_NS + rng.integers(0, SPAN_NS, n_rows)


@relaxed
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 9000),
    st.integers(1, 5),
    st.sampled_from(["apart", "together", "partly"]),
    st.sampled_from(["even", "burst", "equal", "epoch"]),
    st.data(),
)
def test_a_merged_tree_equals_one_built_from_the_rows(
    seed: int, n_rows: int, n_parts: int, layout: str, spread: str, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    events = make_events(rng, n_rows, make_times(rng, n_rows, spread))
    table, _ = make_vectors(1)
    early = make_vectors(1)[0]
    early.have[:5] = False
    part = part_of_row(rng, events.ts, n_parts, layout)
    sources = []
    for k in range(n_parts):
        mine = events.take(np.flatnonzero(part == k))
        manner = data.draw(
            st.sampled_from(["whole", "no tree", "early", "no model", "stale", "fewer", "blind"])
        )
        sources.append(make_source(mine, manner, table, early, n_shards=data.draw(st.integers(1, 3))))
    n_shards = data.draw(st.integers(1, 3))
    assert_alike(
        events.tree(table, n_shards=n_shards, sources=sources), events.tree(table, n_shards=n_shards)
    )


def make_source(
    mine: Events, manner: str, table: VectorTable, early: VectorTable, *, n_shards: int
) -> Source:
    """A part of a merge; its tree knows all, or not all, or says what is not so any more."""
    in_time = np.sort(mine.ts)
    if manner == "no tree":
        return Source(in_time, mine.fields())
    names = ("f", "gone") if manner == "fewer" else NAMES
    shown, stale = mine, tuple[str, ...]()
    if manner == "stale":
        lie = (np.full(len(mine.ts), 77.0), np.ones(len(mine.ts), np.bool_))
        wrong = {**mine.numbers, "f": lie}
        shown, stale = Events(mine.ts, mine.seq, wrong, mine.level, mine.vec, mine.shard), ("f",)
    if manner == "blind":
        none = (mine.level[0], np.zeros(len(mine.ts), np.bool_))
        shown = Events(mine.ts, mine.seq, mine.numbers, none, mine.vec, mine.shard)
    tree = shown.tree(
        early if manner == "early" else table,
        n_shards=n_shards,
        names=names,
        scale=None if manner == "no model" else SCALE,
    )
    return Source(in_time, mine.fields(), tree, stale)


@pytest.mark.parametrize("layout", ["apart", "partly", "together"])
def test_rows_are_read_only_where_parts_lie_beside_each_other(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    events = make_events(rng, 40_000, make_times(rng, 40_000, "even"))
    table, _ = make_vectors(1)
    part = part_of_row(rng, events.ts, 4, layout)
    sources = [
        make_source(events.take(np.flatnonzero(part == k)), "whole", table, table, n_shards=2)
        for k in range(4)
    ]
    read = []
    of = Leaves.of.__func__  # type: ignore[attr-defined]

    def spy(cls: type[Leaves], lo: Any, hi: Any, wanted: Any = None) -> Leaves:
        leaves: Leaves = of(cls, lo, hi, wanted)
        read.append(len(leaves.leaf_of_row(40_000)))
        return leaves

    monkeypatch.setattr(Leaves, "of", classmethod(spy))
    events.tree(table, n_shards=3, sources=sources)
    most = {"apart": 4 * 1024, "partly": 40_000, "together": 40_000}[layout]
    assert sum(read) <= most
    assert layout == "apart" or sum(read) > 20_000


@relaxed
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
@example(0, 1)
def test_merging_again_and_again_does_not_lose_precision(seed: int, n_shards: int) -> None:
    rng = np.random.default_rng(seed)
    events = make_events(rng, 16_000, np.sort(make_times(rng, 16_000, "even")))
    table, _ = make_vectors(1)
    pieces = [events.take(rows) for rows in np.array_split(np.arange(16_000), 16)]
    trees = [piece.tree(table, n_shards=1) for piece in pieces]
    while len(pieces) > 1:
        sources = [Source(np.sort(p.ts), p.fields(), t) for p, t in zip(pieces, trees, strict=True)]
        rows = np.array_split(np.arange(16_000), len(pieces) // 4)
        joined = [events.take(one) for one in rows]
        trees = [
            piece.tree(table, n_shards=n_shards, sources=sources[4 * k : 4 * k + 4])
            for k, piece in enumerate(joined)
        ]
        pieces = joined
    assert_alike(trees[0], events.tree(table, n_shards=n_shards))
