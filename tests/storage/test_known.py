from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.records import vectors_of
from treering.storage.batch import KEY, Keys
from treering.storage.known import KnownVectors
from treering.storage.vectors import empty_table, make_table

# Few values in each half, so that keys share their high halves.
key_pairs = st.tuples(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 6))


def keys_of(pairs: list[tuple[int, int]]) -> Keys:
    return np.array(pairs, KEY)


@settings(max_examples=80, deadline=None)
@given(
    sources=st.lists(st.lists(key_pairs, max_size=6, unique=True), max_size=7),
    wanted=st.lists(key_pairs, max_size=12),
    dropped=st.sets(st.integers(0, 6)),
)
def test_lookup_gives_the_vectors_of_what_was_put(
    sources: list[list[tuple[int, int]]], wanted: list[tuple[int, int]], dropped: set[int]
) -> None:
    known = KnownVectors()
    for number, pairs in enumerate(sources):
        known.put(str(number), vectors_of(keys_of(pairs)))
    check(known, wanted, {pair for pairs in sources for pair in pairs})
    known.drop([str(number) for number in dropped])
    for number, pairs in enumerate(sources):
        if number not in dropped:
            known.put(str(number), vectors_of(keys_of(pairs)))
    check(known, wanted, {pair for n, pairs in enumerate(sources) if n not in dropped for pair in pairs})


def check(known: KnownVectors, wanted: list[tuple[int, int]], held: set[tuple[int, int]]) -> None:
    found, got = known.find(keys_of(wanted))
    assert found.tolist() == [pair in held for pair in wanted]
    want = vectors_of(keys_of(wanted)[found])
    if not len(want):
        assert len(got) == 0
        return
    for name in ("key", "exact", "heads", "n_tokens", "head", "second", "qls"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))


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
        np.testing.assert_array_equal(vectors.exact, vectors_of(keys[found]).exact)
    assert known.dim == 8


def test_many_sources_stay_few_runs() -> None:
    known = KnownVectors()
    for number in range(300):
        known.put(str(number), vectors_of(keys_of([(number, number)])))
    assert len(known._runs) < 12
    assert known.find(keys_of([(n, n) for n in range(300)]))[0].all()
