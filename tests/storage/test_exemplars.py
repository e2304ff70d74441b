"""Which event a vector is made of is always known: an erasure of that event finds the vector by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.indexer.letters import Letters
from tests.storage.records import text_keys, vectors_of
from tests.storage.words import bodies_of, decode, words
from treering.indexer.fill import fill
from treering.storage.batch import Vectors
from treering.storage.memory import build, merge, select
from treering.storage.part import VectorTable
from treering.storage.vectors import make_table, merge_tables

KEYS = np.sort(text_keys([f"key {n}" for n in range(6)]), order=["hi", "lo"])
TABLE = st.lists(st.integers(-1, 99), min_size=6, max_size=6)
"""For each key: -1 where the table has no vector, else the event that its vector is made of."""


def table_of(events: list[int]) -> VectorTable:
    found = np.array(events) >= 0
    vectors = vectors_of(KEYS[found])
    vectors.n_tokens[:] = vectors.exemplar[:] = np.array(events)[found]
    return make_table(KEYS, found, vectors, np.arange(100, 106))


@given(st.lists(TABLE, min_size=1, max_size=4))
def test_a_merged_table_names_the_event_of_the_very_vector_that_it_took(tables: list[list[int]]) -> None:
    merged = merge_tables(KEYS, [table_of(events) for events in tables])
    for i in range(len(KEYS)):
        known = {events[i] for events in tables} - {-1}
        assert merged.have[i] == bool(known)
        assert merged.exemplar[i] == (merged.n_tokens[i] if known else 100 + i)
        assert not known or merged.exemplar[i] in known


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["a x", "b y", "c z"])), min_size=1, max_size=12),
    st.data(),
)
def test_texts_that_wait_are_embedded_from_an_event_of_their_own_part(
    rows: list[tuple[int, str]], data: st.DataObject
) -> None:
    whole = build([decode(words(rows), 0)], None, dim=None, part_id="whole")
    chosen = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    parts = [select(whole, chosen, "some"), select(whole, np.setdiff1d(np.arange(len(rows)), chosen), "rest")]
    for part in [whole, *parts, merge([part for part in parts if part.n_rows], "both")]:
        first: dict[str, int] = {}
        for seq, body in zip(part.seq.tolist(), bodies_of(part), strict=True):
            first[body.split()[0]] = min(seq, first.get(body.split()[0], seq))
        keys = text_keys(list(first))
        found = dict(zip(part.vector_keys().tolist(), part.vectors().exemplar.tolist(), strict=True))
        assert found == dict(zip(keys.tolist(), first.values(), strict=True))


def test_a_text_is_embedded_from_the_event_that_arrived_first_and_that_is_remembered(tmp_path: Path) -> None:
    from treering.query.opening import open_store

    with open_store(tmp_path / "ring") as store:
        for second, n in ((50, 1), (10, 22), (30, 333)):
            store.append([{"ts": f"2026-05-01T00:00:{second}Z", "msg": f"took {n} ms"}])
        store.flush()
        fill(store._ring, Letters())
        with store._ring.snapshot() as snapshot:
            (part,) = snapshot.parts
            table = part.vectors()
            assert table.exemplar.tolist() == [0]
            assert np.allclose(table.exact(np.arange(1)), Letters().encode_vectors(["took 1 ms"]), atol=1e-3)


def test_an_embedding_that_an_erasure_overtakes_goes_on_with_what_is_left(tmp_path: Path) -> None:
    from treering.query.opening import open_store

    class Slow(Letters):
        """Something is deleted while the first texts are embedded."""

        def encode(self, texts: list[str], keys: Any) -> Vectors:
            if not self.seen:
                store.delete('msg has "took 1 ms"')
            return super().encode(texts, keys)

    with open_store(tmp_path / "ring") as store:
        store.append([{"ts": f"2026-05-01T00:00:0{n}Z", "msg": f"took {n} ms"} for n in (1, 2, 3)])
        store.flush()
        report = fill(store._ring, Slow())
        assert report.finished and store.stats()["pending"] == 0
        with store._ring.snapshot() as snapshot:
            (part,) = snapshot.parts
            made = Letters().encode_vectors(["took 2 ms"])
            assert part.vectors().exemplar.tolist() == [1]
            assert np.allclose(part.vectors().exact(np.arange(1)), made, atol=1e-3)
