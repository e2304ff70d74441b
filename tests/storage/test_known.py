from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.records import MODEL, decode, fill, raw_batch, vectors_of
from treering.storage.batch import KEY, Keys, Vectors
from treering.storage.errors import ModelError
from treering.storage.known import KnownVectors
from treering.storage.part import VectorTable
from treering.storage.ring import Ring
from treering.storage.segment import Segment
from treering.storage.vectors import empty_table, make_table

# Few values in each half, so that keys share their high halves.
key_pairs = st.tuples(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 6))


def keys_of(pairs: list[tuple[int, int]]) -> Keys:
    return np.array(pairs, KEY)


@examples(150)
@given(
    sources=st.lists(st.lists(key_pairs, max_size=6, unique=True), max_size=7),
    wanted=st.lists(key_pairs, max_size=12),
    drops=st.lists(st.sets(st.integers(0, 6)), max_size=3),
    again=st.sets(st.integers(0, 6)),
)
def test_lookup_gives_the_vectors_of_what_is_held(
    sources: list[list[tuple[int, int]]],
    wanted: list[tuple[int, int]],
    drops: list[set[int]],
    again: set[int],
) -> None:
    known, held = KnownVectors(), dict(enumerate(sources))
    for number, pairs in held.items():
        known.put(str(number), source_of(pairs, as_table=number % 2 == 0))
    check(known, wanted, {pair for pairs in sources for pair in pairs})
    for dropped in drops:
        known.drop([str(number) for number in dropped])
        held = {number: pairs for number, pairs in held.items() if number not in dropped}
        check(known, wanted, {pair for pairs in held.values() for pair in pairs})
    for number in again & set(range(len(sources))):
        held[number] = sources[number]
        known.put(str(number), source_of(sources[number], as_table=number % 2 == 0))
    check(known, wanted, {pair for pairs in held.values() for pair in pairs})


def source_of(pairs: list[tuple[int, int]], *, as_table: bool) -> Vectors | VectorTable:
    vectors = vectors_of(keys_of(pairs))
    if not as_table:
        return vectors
    keys = keys_of(sorted(pairs))
    return make_table(keys, np.ones(len(keys), np.bool_), vectors_of(keys))


def check(known: KnownVectors, wanted: list[tuple[int, int]], held: set[tuple[int, int]]) -> None:
    found, got = known.find(keys_of(wanted))
    assert found.tolist() == [pair in held for pair in wanted]
    want = vectors_of(keys_of(wanted)[found])
    if not len(want):
        assert len(got) == 0
        return
    for name in ("key", "values", "step", "heads", "n_tokens", "head", "second", "qls"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))


def test_a_key_stays_findable_until_its_last_holder_is_dropped() -> None:
    keys = keys_of([(1, 1), (1, 2)])
    known = KnownVectors()
    for name in ("a", "b", "c"):
        known.put(name, source_of([(1, 1), (1, 2)], as_table=name != "b"))
    for name, left in (("a", True), ("b", True), ("a", True), ("c", False)):
        known.drop([name])
        assert known.find(keys)[0].tolist() == [left, left]


def test_a_table_gives_what_it_has_and_the_rest_when_it_comes() -> None:
    keys = keys_of([(1, 1), (1, 2), (2, 0)])
    known = KnownVectors()
    known.put("segment", empty_table(keys, 0, 0, 0))
    assert known.dim is None
    assert known.find(keys)[0].tolist() == [False] * 3
    for have in ([False, True, False], [True, True, True]):
        found = np.array(have)
        known.put("segment", make_table(keys, found, vectors_of(keys[found])))
        got, vectors = known.find(keys)
        assert got.tolist() == have
        np.testing.assert_array_equal(vectors.exact(), vectors_of(keys[found]).exact())
    assert known.dim == 8


def test_many_sources_stay_few_runs() -> None:
    known = KnownVectors()
    for number in range(300):
        known.put(str(number), vectors_of(keys_of([(number, number)])))
    assert len(known._runs) < 12
    assert known.find(keys_of([(n, n) for n in range(300)]))[0].all()


def test_nothing_is_kept_of_sources_that_were_dropped() -> None:
    """A writer for years makes and drops as many as it has flushes and folds."""
    known = KnownVectors()
    known.put("stays", source_of([(0, 0)], as_table=False))
    for number in range(1, 50):
        known.put(str(number), source_of([(0, 0), (number, number)], as_table=number % 2 == 0))
        known.put(str(number), source_of([(0, 0), (number, number)], as_table=False))
        known.drop([str(number)])
        check(known, [(0, 0), (number, number)], {(0, 0)})
    sizes = {name: len(value) for name, value in vars(known).items() if hasattr(value, "__len__")}
    assert max(sizes.values()) == 1, sizes


def test_no_vectors_are_read_for_what_the_manifest_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ring.open(tmp_path / "ring", decoder=decode) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(7)))
        ring.flush()
        fill(ring)

    def refuse(self: Segment) -> VectorTable:
        raise AssertionError("vectors were read")

    monkeypatch.setattr(Segment, "vectors", refuse)
    modes: tuple[Literal["r", "w"], ...] = ("r", "w")
    for mode in modes:
        with Ring.open(tmp_path / "ring", mode, decoder=decode) as ring:
            assert ring._view.dim == MODEL.dim
            with ring.snapshot() as snapshot:
                assert snapshot.n_rows == 7
    with Ring.open(tmp_path / "ring", decoder=decode) as ring:
        with ring.snapshot() as snapshot:
            name = snapshot.parts[0].id
        with pytest.raises(ModelError, match="8 dimensions, these 3"):
            ring.add_late(name, vectors=Vectors.of(keys_of([(1, 1)]), np.ones((1, 3))))
