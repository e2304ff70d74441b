"""A move to another model beside appends, folds, deletions, readers and backups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.move_away import OTHER, SECRET, begun, build_small, embed_anew, holding, move, renew
from tests.storage.records import MODEL
from tests.storage.words import ACT, files_with, having, open_words, stored, without, words
from treering.storage.cut import cut_older
from treering.storage.errors import StoreError
from treering.storage.ring import Ring


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    build_small(tmp_path / "ring")
    return open_words(tmp_path / "ring")


def test_what_was_embedded_before_a_stop_is_not_embedded_again(ring: Ring) -> None:
    begun(ring).close()
    ring.close()
    with open_words(ring.path) as again:
        assert move(again) == 0 and again.model == OTHER


def test_events_that_came_since_keep_the_swap_from_being_made(ring: Ring) -> None:
    mover = begun(ring)
    ring.append(words([(60, "login dave")]))
    assert not mover.swap() and ring.model == MODEL
    assert mover.catch_up() and not mover.swap()  # their signals are still to come
    embed_anew(ring.shadow(mover))
    assert mover.swap() and len(stored(ring)) == 6
    mover.close()


def test_events_that_came_since_may_be_taken_over_as_they_are(ring: Ring) -> None:
    mover = begun(ring)
    ring.append(words([(60, "new dave")]))
    assert mover.swap(waits=True) and ring.model == OTHER
    assert [segment.pending for segment in ring.unfinished()] == [1]
    assert embed_anew(ring) == 1 and ring.unfinished() == []
    mover.close()


def test_folds_of_the_store_meanwhile_change_nothing_that_was_done(ring: Ring) -> None:
    mover = begun(ring)
    ring.compact()
    assert mover.swap(waits=True) and ring.unfinished() == [] and len(stored(ring)) == 5
    mover.close()


def test_a_deletion_reaches_into_the_shadow_before_it_says_erased(ring: Ring) -> None:
    before, mover = stored(ring), begun(ring)
    assert any(name.startswith("reembed/") for name in files_with(ring.path, SECRET))
    erased = ring.erase(having(SECRET), ACT)
    assert erased.is_erased and not erased.is_shadow_dropped and not mover.is_gone
    assert files_with(ring.path, SECRET) == set()
    state = ring.move_state()
    assert state is not None and state.n_rows == 3
    # A vector that was made of a text that is gone was forgotten there, too.
    assert mover.catch_up() and not mover.swap()
    assert embed_anew(ring.shadow(mover)) == 1 and mover.swap()
    mover.close()
    assert stored(ring) == without(before, SECRET) and ring.model == OTHER
    assert files_with(ring.path, SECRET) == set()


def test_a_deletion_reaches_into_the_shadow_of_a_move_that_stopped(ring: Ring) -> None:
    before = stored(ring)
    begun(ring).close()
    assert ring.erase(having(SECRET), ACT).is_erased
    assert files_with(ring.path, SECRET) == set() and ring.move_state() is not None
    move(ring)
    assert stored(ring) == without(before, SECRET)


def test_by_age_vectors_of_the_shadow_stay_as_those_of_the_store_do(ring: Ring) -> None:
    begun(ring).close()
    erased = ring.erase(lambda state: cut_older(state, 25 * 10**9), ACT)
    assert erased.cut.n_events == 2 and not erased.is_shadow_dropped
    assert move(ring) == 0 and len(stored(ring)) == 3


def test_a_shadow_that_somebody_holds_on_to_is_removed_by_a_deletion(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.storage.eraser.SHADOW_WAIT_S", 0.0)
    before, mover = stored(ring), begun(ring)
    with open_words(ring.path / "reembed", mode="r") as looker, looker.snapshot():
        erased = ring.erase(having(SECRET), ACT)
    assert erased.is_erased and erased.is_shadow_dropped and mover.is_gone
    assert files_with(ring.path, SECRET) == set() and not (ring.path / "reembed").exists()
    with pytest.raises(StoreError, match="closed"):
        mover.catch_up()
    mover.close()
    move(ring)
    assert stored(ring) == without(before, SECRET)


def test_a_deletion_of_what_the_shadow_has_not_yet_keeps_it(ring: Ring) -> None:
    begun(ring).close()
    ring.append(words([(70, "last zqdave")]))
    assert ring.erase(having("zqdave"), ACT).cut.n_events == 1
    assert ring.move_state() is not None and move(ring) == 0


def test_events_that_are_deleted_while_they_are_copied_are_not_copied(ring: Ring) -> None:
    mover = ring.mover(OTHER, renew)

    def meanwhile(done: int, total: int) -> None:
        if ring.audit()[0] == []:
            # The copy is a reader of the version before.
            assert ring.erase(having(SECRET), ACT).n_waiting

    assert mover.catch_up(copied=meanwhile)
    assert not any(name.startswith("reembed/") for name in files_with(ring.path, SECRET))
    embed_anew(ring.shadow(mover))
    assert mover.swap() and len(stored(ring)) == 3
    assert files_with(ring.path, SECRET) == set()
    mover.close()


def test_a_shadow_of_a_store_that_something_was_deleted_from_does_not_count(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(ring).close()
    with monkeypatch.context() as patch:
        # As in a crash after the store's own version was made.
        patch.setattr("treering.storage.eraser.erase_in_shadow", lambda *_, **__: False)
        ring.erase(having(SECRET), ACT)
    assert files_with(ring.path, SECRET) != set() and ring.move_state() is None
    ring.close()
    with open_words(ring.path) as again:
        assert files_with(again.path, SECRET) == set()
        assert not (again.path / "reembed").exists()


def test_only_one_moves_a_store_at_a_time(ring: Ring) -> None:
    mover = ring.mover(OTHER, renew)
    with pytest.raises(StoreError, match="being moved"):
        ring.mover(OTHER, renew)
    mover.close()
    ring.mover(OTHER, renew).close()


def test_closing_the_store_lets_go_of_its_shadow(ring: Ring) -> None:
    mover = begun(ring)
    ring.close()
    with pytest.raises(StoreError, match="closed"):
        mover.swap()
    assert not mover.is_gone
    mover.close()
    with open_words(ring.path) as again:
        assert move(again) == 0


def test_how_far_a_move_is_can_be_seen_by_any_reader(ring: Ring) -> None:
    with open_words(ring.path, mode="r") as reader:
        assert reader.move_state() is None
        mover = ring.mover(OTHER, renew)
        mover.catch_up()
        state = reader.move_state()
        assert state is not None and (state.model, state.n_rows) == (OTHER, 5) and state.pending >= 3
        embed_anew(ring.shadow(mover))
        state = reader.move_state()
        assert state is not None and state.pending == 0
        mover.swap()
        assert reader.move_state() is None
        mover.close()


def test_a_backup_has_no_shadow(ring: Ring, tmp_path: Path) -> None:
    before, mover = holding(ring), begun(ring)
    ring.backup(tmp_path / "copy")
    mover.close()
    assert not (tmp_path / "copy" / "reembed").exists()
    with open_words(tmp_path / "copy", mode="r") as copy:
        assert holding(copy) == before
    ring.backup(tmp_path / "copy")
    move(ring)
    ring.backup(tmp_path / "copy")
    with open_words(tmp_path / "copy", mode="r") as copy:
        assert holding(copy) == holding(ring) != before


def test_an_abort_is_no_failure_where_nothing_was_begun(ring: Ring) -> None:
    assert not ring.abort_move()
    begun(ring).close()
    assert ring.abort_move() and not (ring.path / "reembed").exists()
