"""A move to another model beside readers, appends, folds and deletions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.indexer.letters import INFO, Letters
from tests.indexer.moves import DAY_NS, HOURS_NS, OTHER, RECORDS, Make, Others, content, embedded, fresh
from treering.indexer import fill as fill_module
from treering.indexer.decode import Decoder
from treering.indexer.fill import fill
from treering.indexer.reembed import reembed
from treering.storage.batch import Keys, Vectors
from treering.storage.cut import Cut, State, cut_older
from treering.storage.eraser import Act, Erased
from treering.storage.errors import ModelError
from treering.storage.ring import Ring


def test_readers_see_the_old_store_until_they_see_the_new_one(make: Make) -> None:
    load = embedded(make)
    old, seen = content(load.ring), []
    with Ring.open(load.ring.path, "r", decoder=Decoder()) as reader:

        def look() -> None:
            seen.append((content(reader) == old, reader.model))

        others = Others()
        others.before = look
        held = reader.snapshot()
        reembed(load.ring, others)
        assert set(seen) == {(True, INFO)}
        assert content(reader) == content(load.ring) != old and reader.model == OTHER
        # One who looked before goes on to see what was there.
        assert held.model == INFO and {part.vectors().dim for part in held.parts} == {INFO.dim}
        held.close()


def test_events_and_folds_that_come_meanwhile_are_taken_along(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_module, "CHECKPOINT_TEXTS", 8)
    load = make("moved")
    batches = [RECORDS[at:] for at in range(3)]
    for batch in batches:
        load(batch)
    fill(load.ring, Letters())
    others = Others()

    def meanwhile() -> None:
        if load.n_calls < 8:
            batch = [{"message": f"number {'abcdefgh'[load.n_calls]} came meanwhile"}, *RECORDS[:2]]
            batches.append(batch)
            load(batch, flushes=load.n_calls % 2 == 0)
            load.ring.compact()

    others.before = meanwhile
    assert reembed(load.ring, others).finished
    assert len(batches) > 4 and load.ring.unfinished() == []
    assert content(load.ring) == content(fresh(make, batches))


def test_events_that_never_cease_to_come_do_not_keep_it_from_its_end(make: Make) -> None:
    load = embedded(make)
    others = Others()

    def meanwhile() -> None:
        if load.ring.model == INFO:
            load([{"message": "abcdefgh"[load.n_calls] * 20}])

    others.before = meanwhile
    report = reembed(load.ring, others)
    assert report.finished and load.ring.unfinished() == [] and load.ring.model == OTHER
    assert len(content(load.ring)) == len(RECORDS) + load.n_calls - 1


def older(hours: int) -> Callable[[State], Cut]:
    """A plan to take what is older than so many hours of that day."""
    return lambda state: cut_older(state, DAY_NS + hours * HOURS_NS)


def holding(path: Path, word: bytes) -> list[str]:
    """Files that hold these bytes; young texts are too short to be packed."""
    return [str(file) for file in path.rglob("*") if file.is_file() and word in file.read_bytes()]


def test_a_deletion_meanwhile_takes_what_was_made_of_its_events_along(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_module, "CHECKPOINT_TEXTS", 4)
    load = make("moved")
    load([{"message": f"zqalice was here as number {word}"} for word in "abcdefghij"])
    load(RECORDS)
    fill(load.ring, Letters())
    others, erased = Others(), list[Erased]()

    def meanwhile() -> None:
        if len(others.seen) >= 8 and not erased:
            assert [name for name in holding(load.ring.path, b"zqalice") if "/reembed/" in name]
            erased.append(load.ring.erase(older(1), Act("expire", {})))
            assert holding(load.ring.path, b"zqalice") == []

    others.before = meanwhile
    report = reembed(load.ring, others)
    assert erased[0].is_erased and not erased[0].is_shadow_dropped
    assert report.finished and not report.was_restarted
    assert sorted(content(load.ring)) == list(range(10, 10 + len(RECORDS)))
    assert holding(load.ring.path, b"zqalice") == [] and load.ring.unfinished() == []


def test_a_deletion_between_two_runs_lets_the_second_go_on(make: Make) -> None:
    load = make("moved")
    load([{"message": "zqalice was here"}])
    load(RECORDS)
    fill(load.ring, Letters())
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, Others(fails_after=0))
    assert not load.ring.erase(older(1), Act("expire", {})).is_shadow_dropped
    assert load.ring.move_state() is not None
    report = reembed(load.ring, Others())
    assert report.finished and not report.was_restarted
    assert len(content(load.ring)) == len(RECORDS)


def test_a_shadow_that_was_dropped_meanwhile_is_begun_anew(make: Make) -> None:
    load = embedded(make)
    others, dropped = Others(), list[bool]()

    def meanwhile() -> None:
        if not dropped:
            dropped.append(load.ring.abort_move())

    others.before = meanwhile
    report = reembed(load.ring, others)
    assert dropped == [True] and report.finished and report.was_restarted and load.ring.model == OTHER


def test_a_deletion_that_finds_nothing_leaves_what_was_done(make: Make) -> None:
    load = embedded(make)
    with pytest.raises(KeyboardInterrupt):
        reembed(load.ring, Others(fails_after=0))
    assert not load.ring.erase(older(0), Act("expire", {})).is_shadow_dropped
    assert load.ring.move_state() is not None


def test_fill_with_the_old_model_stops_when_the_store_was_moved_under_it(make: Make) -> None:
    load = embedded(make)
    load([{"message": "a text of its own"}])
    same_size = Letters(replace(INFO, model_id="letters@of-the-same-size"))

    class Slow(Letters):
        def encode(self, texts: list[str], keys: Keys) -> Vectors:
            reembed(load.ring, same_size)
            return super().encode(texts, keys)

    with pytest.raises(ModelError, match="of-the-same-size"):
        fill(load.ring, Slow())
    assert load.ring.model == same_size.info and load.ring.unfinished() == []
