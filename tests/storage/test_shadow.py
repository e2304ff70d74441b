"""A move to another model fails, tears or loses its power at each change: the old store is there or the new one."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.faults import CHANGES, Fault, FaultyFiles, PowerLoss
from tests.storage.records import MODEL, vectors_of
from tests.storage.words import (
    ACT,
    Row,
    embed,
    files_with,
    having,
    open_words,
    stored,
    without,
    words,
)
from treering.storage.audit import check_chain
from treering.storage.batch import Keys, Vectors
from treering.storage.cut import cut_older
from treering.storage.errors import StoreError
from treering.storage.moving import Anew, Mover
from treering.storage.part import Part
from treering.storage.ring import Ring

OTHER = replace(MODEL, model_id="other", dim=16, basis_id="basis 2")
SECRET = "zqalice"
EARLY_STEP = 6
"""Of the changes before the swap every so manieth is tried in one run of these tests, of those of the swap each."""

Holding = tuple[list[Row], str | None, dict[str, bytes | None], set[float]]
"""Events, model, the codes of the vector of each first word, values of a signal made of vectors."""


def renew(part: Part) -> Anew:
    """Nothing of these signals was there before vectors were."""
    return Anew({"attention_collapse": None, "attention_source": None})


def other_vectors(keys: Keys) -> Vectors:
    """Vectors of the other model."""
    old = vectors_of(keys)
    return replace(
        Vectors.of(keys, np.hstack([0 * old.exact(), -old.exact()])),
        heads=old.heads,
        n_tokens=old.n_tokens,
        head=old.head,
        second=old.second,
        qls=old.qls,
    )


def embed_anew(ring: Ring) -> int:
    """Do what `fill` does, with the other model; give how many texts were embedded."""
    n_texts = 0
    for segment in ring.unfinished():
        keys = segment.vectors().key[~segment.vectors().have]
        found, known = ring.lookup(keys)
        ring.add_late(segment.id, vectors=known)
        n_texts += int(np.count_nonzero(~found))
        signals = {"attention_collapse": pa.array(np.full(segment.n_rows, 0.75))}
        ring.add_late(segment.id, vectors=other_vectors(keys[~found]), signals=signals, signals_done=True)
    ring.fold()
    return n_texts


def move(ring: Ring, before_swap: Callable[[], None] = lambda: None) -> int:
    """Move a store; give how many texts were embedded."""
    mover = ring.mover(OTHER, renew)
    try:
        assert mover.catch_up()
        n_texts = embed_anew(ring.shadow(mover))
        before_swap()
        assert mover.swap()
    finally:
        mover.close()
    return n_texts


def holding(ring: Ring) -> Holding:
    """What is in a store; its audit record is whole."""
    check_chain(*ring.audit())
    vectors: dict[str, bytes | None] = {}
    signals: set[float] = set()
    with ring.snapshot() as snapshot:
        for part in snapshot.parts:
            table = part.vectors()
            for body, vec in zip(part.column("body").to_pylist(), part.vec_of_row().tolist(), strict=True):
                code = table.codes[vec, : table.dim].tobytes() if table.have[vec] else None
                assert vectors.setdefault(body.split()[0], code) == code
            if "attention_collapse" in part.fields:
                signals |= set(part.column("attention_collapse").to_pylist())
        model = snapshot.model
    return stored(ring), None if model is None else model.model_id, vectors, signals


@dataclass(frozen=True)
class Outcomes:
    """before, after: the whole move. calls: its changes of the disk, the first n_early of them before the swap."""

    before: Holding
    after: Holding
    calls: list[str]
    n_early: int

    def points(self, first: int) -> Iterator[tuple[int, str]]:
        """Changes at which something happens."""
        for at, call in enumerate(self.calls):
            if at >= self.n_early or at % EARLY_STEP == first:
                yield at, call


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a folded segment, a young one, and an event that only the log has."""
    root = tmp_path_factory.mktemp("base") / "root"
    root.mkdir()
    ring = open_words(root / "ring")
    ring.append(words([(10, "login zqalice"), (20, "login bob"), (30, "paid bob")]))
    ring.flush()
    embed(ring)
    ring.fold()
    ring.append(words([(45, "paid zqalice")]))
    ring.flush()
    embed(ring)
    ring.append(words([(50, "last carol")]))
    ring.close()
    return root


@pytest.fixture(scope="module")
def outcomes(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What is in the store before and after a move, and the changes of the disk that it takes."""
    place = copied(base, tmp_path_factory.mktemp("whole") / "root")
    files = FaultyFiles(place)
    with open_words(place / "ring", files=files) as ring:
        before, starts = holding(ring), [len(files.calls)]
        move(ring, lambda: starts.append(len(files.calls)))
        early, late = files.calls[starts[0] : starts[1]], files.calls[starts[1] :]
        after = holding(ring)
    calls = [call for call in [*early, *late] if call in CHANGES]
    n_early = sum(call in CHANGES for call in early)
    assert before[0] == after[0] and after[1] == "other" and after[3] == {0.75} and before[3] == {0.25}
    assert calls.count("link") > 8 and "rmtree" in calls
    return Outcomes(before, after, calls, n_early)


def copied(base: Path, place: Path) -> Path:
    shutil.copytree(base, place)
    return place


def go_on(root: Path, before: Holding, after: Holding) -> bool:
    """See that what is left is one of the two, and do the rest; give whether it was moved already."""
    with open_words(root / "ring", mode="r") as reader:
        left = holding(reader)
        assert left in (before, after)
    with open_words(root / "ring", files=FaultyFiles(root)) as ring:
        assert holding(ring) == left
        if left == after:
            assert not (ring.path / "reembed").exists()
        else:
            move(ring)
        assert holding(ring) == after and len(ring.audit()[0]) == 1
    with open_words(root / "ring") as ring:
        assert holding(ring) == after
        named = {meta.id for meta in segments_of(ring)}
        assert {path.name for path in (ring.path / "seg").iterdir()} == named
        assert not (ring.path / "reembed").exists()
    return left == after


def segments_of(ring: Ring) -> list[Part]:
    with ring.snapshot() as snapshot:
        return [part for part in snapshot.parts if part.is_stored]


def test_after_a_power_loss_the_old_store_is_there_or_the_new_one(
    base: Path, outcomes: Outcomes, tmp_path: Path
) -> None:
    before, after = outcomes.before, outcomes.after
    seen = []
    for at, call in outcomes.points(0):
        live = copied(base, tmp_path / f"live-{at}")
        files = FaultyFiles(live)
        ring = open_words(live / "ring", files=files)
        files.n_calls, files.fault = 0, Fault(at, is_torn=call == "write", among=CHANGES)
        with suppress(PowerLoss):
            move(ring)
        assert files.is_off
        place = tmp_path / f"left-{at}"
        place.mkdir()
        # What was synced, or that and any of what was not.
        seen.append(
            go_on(files.after_power_loss(place, random.Random(at) if at % 2 else None), before, after)
        )
        shutil.rmtree(place)
        shutil.rmtree(live)
    assert {True, False} == set(seen)


def test_after_a_failed_call_the_old_store_is_there_or_the_new_one(
    base: Path, outcomes: Outcomes, tmp_path: Path
) -> None:
    before, after = outcomes.before, outcomes.after
    for at, call in outcomes.points(EARLY_STEP // 2):
        live = copied(base, tmp_path / f"live-{at}")
        files = FaultyFiles(live)
        ring = open_words(live / "ring", files=files)
        number = errno.ENOSPC if call in ("create", "write", "link", "mkdir") else errno.EIO
        files.n_calls, files.fault = 0, Fault(at, number, is_torn=call == "write", among=CHANGES)
        with suppress(StoreError):
            move(ring)
        if not ring.is_stopped:
            left = holding(ring)
            assert left in (before, after)
            if left == before:
                with suppress(StoreError):
                    move(ring)
        ring.close()
        go_on(live, before, after)
        shutil.rmtree(live)


@pytest.fixture
def ring(base: Path, tmp_path: Path) -> Ring:
    return open_words(copied(base, tmp_path / "own") / "ring")


def begun(ring: Ring) -> Mover:
    """A move that has caught up and embedded all."""
    mover = ring.mover(OTHER, renew)
    assert mover.catch_up()
    embed_anew(ring.shadow(mover))
    return mover


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


@pytest.mark.parametrize("is_power_loss", [True, False])
def test_an_erasure_that_is_cut_short_leaves_nothing_in_the_shadow(
    base: Path, tmp_path: Path, is_power_loss: bool
) -> None:
    place = copied(base, tmp_path / "begun")
    with open_words(place / "ring") as ring:
        before = stored(ring)
        begun(ring).close()
    files = FaultyFiles(copied(place, tmp_path / "whole"))
    with open_words(tmp_path / "whole" / "ring", files=files) as ring:
        n = len(files.calls)
        ring.erase(having(SECRET), ACT)
        calls = [call for call in files.calls[n:] if call in CHANGES]
    for at in range(int(is_power_loss), len(calls), 3):
        live = copied(place, tmp_path / f"live-{at}")
        files = FaultyFiles(live)
        ring = open_words(live / "ring", files=files)
        files.n_calls = 0
        files.fault = Fault(at, 0 if is_power_loss else errno.EIO, among=CHANGES)
        with suppress(PowerLoss, StoreError):
            assert ring.erase(having(SECRET), ACT).record is not None
        root = live
        if is_power_loss:
            root = tmp_path / f"left-{at}"
            root.mkdir()
            files.after_power_loss(root, None)
        else:
            ring.close()
        with open_words(root / "ring") as ring:
            assert stored(ring) in (before, without(before, SECRET))
            if stored(ring) != before:
                assert files_with(ring.path, SECRET) == set()
            assert ring.erase(having(SECRET), ACT).is_erased
            assert files_with(ring.path, SECRET) == set()
            move(ring)
            assert stored(ring) == without(before, SECRET) and ring.unfinished() == []
        shutil.rmtree(live)


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
