"""Vectors and signals made of an erased text are forgotten everywhere and made again; others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.users import embedded_ring, halt_rewriting, parts_of, ring_of_users
from tests.storage.words import ACT, Having, choosing, embed, open_words, vector_events, words
from treering.storage.errors import StaleError
from treering.storage.ring import Ring


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return ring_of_users(tmp_path / "ring")


@pytest.fixture
def embedded(tmp_path: Path) -> Ring:
    return embedded_ring(tmp_path / "ring")


def test_a_vector_of_a_deleted_text_is_forgotten_everywhere_and_made_again(embedded: Ring) -> None:
    assert vector_events(embedded) == {"login": 0, "paid": 2, "logout": 4}
    erased = embedded.erase(choosing(Having(lambda text: text == "login zqalice")), ACT)
    assert erased.n_vectors == 1
    assert vector_events(embedded) == {"login": None, "paid": 2, "logout": 4}
    assert embed(embedded) == {"login": 1}
    assert vector_events(embedded) == {"login": 1, "paid": 2, "logout": 4}


def test_a_vector_is_forgotten_where_no_event_went(embedded: Ring) -> None:
    embedded.erase(choosing(Having(lambda text: text in ("login zqalice", "login bob"))), ACT)
    with embedded.snapshot() as snapshot:
        assert sum(part.pending for part in snapshot.parts) == 1
    assert embed(embedded) == {"login": 6}
    assert vector_events(embedded) == {"login": 6, "paid": 2, "logout": 4}


def test_a_forgotten_vector_is_not_handed_on(embedded: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    halt_rewriting(monkeypatch)
    keys = next(iter(parts_of(embedded))).vectors().key
    assert embedded.lookup(keys)[0].all()
    embedded.erase(choosing(Having(lambda text: "zqalice" in text)), ACT)
    found, vectors = embedded.lookup(keys)
    assert vectors.n_tokens.tolist() == [4] and found.sum() == 1
    embedded.append(words([(70, "login erin")]))
    assert vector_events(embedded)["login"] is None
    embedded.flush()
    assert vector_events(embedded)["login"] is None
    with open_words(embedded.path, mode="r") as reader:
        assert vector_events(reader) == {"login": None, "paid": None, "logout": 4}


def test_a_vector_stays_while_its_event_does(embedded: Ring) -> None:
    erased = embedded.erase(choosing(Having(lambda text: text in ("login bob", "login dave"))), ACT)
    assert erased.n_vectors == 0
    assert vector_events(embedded) == {"login": 0, "paid": 2, "logout": 4}
    assert not embedded.unfinished()


def test_signals_made_of_a_forgotten_vector_are_made_again(embedded: Ring) -> None:
    embedded.erase(choosing(Having(lambda text: text == "login zqalice")), ACT)
    assert len(parts_of(embedded)) == 2
    for part in parts_of(embedded):
        assert part.signals_pending
        assert "attention_collapse" not in part.fields and "attention_source" not in part.fields
    embed(embedded)
    for part in parts_of(embedded):
        assert not part.signals_pending
        assert set(part.column("attention_collapse").to_pylist()) == {0.25}


def test_signals_stay_where_their_vectors_do(embedded: Ring) -> None:
    embedded.erase(choosing(Having(lambda text: "bob" in text)), ACT)
    assert len(parts_of(embedded)) == 2
    for part in parts_of(embedded):
        assert set(part.column("attention_collapse").to_pylist()) == {0.25}


def test_what_was_embedded_of_a_text_before_it_was_deleted_is_refused_after(ring: Ring) -> None:
    ring.flush()
    waiting = ring.unfinished()
    vectors = [segment.vectors() for segment in waiting]
    embed(ring)
    known = [ring.lookup(table.key)[1] for table in vectors]
    ring.erase(choosing(Having(lambda text: text == "login zqalice")), ACT)
    for segment, late in zip(waiting, known, strict=True):
        with pytest.raises(StaleError):
            ring.add_late(segment.id, vectors=late)
    for segment in ring.unfinished():
        for late in known:
            with pytest.raises(StaleError):
                ring.add_late(segment.id, vectors=late)
    assert vector_events(ring)["login"] is None
