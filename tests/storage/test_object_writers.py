"""Two writers of a store in a bucket, and one that stops between any two requests."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from obstore.store import MemoryStore

from tests.effort import scaled, some
from tests.storage.bucket_ring import numbers_in_bucket, open_in_bucket
from treering.storage.errors import StoreError
from treering.storage.objects import ObjectFiles
from treering.storage.ring import Ring

from .buckets import ROOT, HookedBucket, Stopped, StoppingBucket, TurnBucket, Turns, keys, object_files
from .records import MODEL, decode, fill, position, raw_batch, reject, stored_numbers

TOOK_OVER = r"another writer took over \(epoch {}\); open the store again"


def _is_seal(kind: str, key: str) -> bool:
    return kind == "put" and key.startswith("wal/") and not key.endswith("/" + "0" * 20)


def _is_commit(kind: str, key: str) -> bool:
    return kind == "put" and key.startswith("_manifest/") and key.endswith(".json")


def test_whoever_was_overtaken_can_acknowledge_and_commit_nothing() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    old.append(raw_batch(range(3)))
    new = open_in_bucket(object_files(store))
    new.append(raw_batch(range(3, 5)))
    with pytest.raises(StoreError, match=TOOK_OVER.format(2)):
        old.append(raw_batch(range(90, 92)))
    with pytest.raises(StoreError, match=TOOK_OVER.format(2)):
        old.flush()
    old.close()
    new.flush()
    assert stored_numbers(new) == numbers_in_bucket(store) == list(range(5))


def test_a_commit_of_whoever_was_overtaken_fails_and_changes_nothing() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    old.append(raw_batch(range(3)))
    new = open_in_bucket(object_files(store))
    with pytest.raises(StoreError, match=TOOK_OVER.format(2)):
        old.flush()
    old.close()
    new.append(raw_batch(range(3, 5)))
    new.flush()
    new.flush()
    assert stored_numbers(new) == numbers_in_bucket(store) == list(range(5))


def test_an_append_before_the_seal_is_what_the_new_writer_finds() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    old.append(raw_batch(range(2)))

    def append() -> None:
        old.append(raw_batch(range(2, 4)))

    new = open_in_bucket(object_files(HookedBucket(store, _is_seal, append)))
    assert stored_numbers(new) == [0, 1, 2, 3]
    with pytest.raises(StoreError, match=TOOK_OVER.format(2)):
        old.append(raw_batch(range(4, 6)))
    new.append(raw_batch(range(4, 6)))
    assert numbers_in_bucket(store) == list(range(6))


def test_an_append_between_the_seal_and_the_commit_is_refused() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    old.append(raw_batch(range(2)))

    def append() -> None:
        with pytest.raises(StoreError, match="another writer took over; open the store again"):
            old.append(raw_batch(range(2, 4)))

    new = open_in_bucket(object_files(HookedBucket(store, _is_commit, append)))
    new.append(raw_batch(range(2, 4)))
    assert stored_numbers(new) == numbers_in_bucket(store) == [0, 1, 2, 3]


def test_a_flush_before_the_take_over_s_commit_wins_and_the_take_over_begins_again() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    old.append(raw_batch(range(2)))

    new = open_in_bucket(object_files(HookedBucket(store, _is_seal, old.flush)))
    with pytest.raises(StoreError, match=TOOK_OVER.format(2)):
        old.append(raw_batch(range(2, 4)))
    new.append(raw_batch(range(2, 4)))
    assert stored_numbers(new) == numbers_in_bucket(store) == [0, 1, 2, 3]


def test_one_who_slept_until_his_log_was_gone_acknowledges_nothing() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    old.append(raw_batch(range(2)))
    before = set(keys(store))
    with open_in_bucket(object_files(store, grace_s=0)) as new:
        new.append(raw_batch(range(2, 4)))
        new.flush()
        new.append(raw_batch(range(4, 6)))
        new.flush()
    with open_in_bucket(object_files(store, grace_s=0)):
        pass
    # Neither the seal nor the manifests that would have stopped him are there any more.
    assert before & set(keys(store)) == set()
    with pytest.raises(StoreError, match=TOOK_OVER.format(3)):
        old.append(raw_batch(range(90, 92)))
    old.close()
    assert numbers_in_bucket(store) == list(range(6))


def test_one_who_slept_until_the_manifests_were_gone_commits_nothing() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    old.append(raw_batch(range(2)))
    with open_in_bucket(object_files(store, grace_s=0)) as new:
        new.append(raw_batch(range(2, 4)))
        new.flush()
        new.set_model(MODEL)
        fill(new)
    with open_in_bucket(object_files(store, grace_s=0)) as new:
        with pytest.raises(StoreError, match=TOOK_OVER.format(3)):
            old.flush()
        old.close()
        new.append(raw_batch(range(4, 6)))
        new.flush()
        assert stored_numbers(new) == list(range(6))
    with open_in_bucket(object_files(store, grace_s=0)) as new:
        assert stored_numbers(new) == numbers_in_bucket(store) == list(range(6))


def test_one_who_slept_until_the_next_manifest_s_name_was_free_again_commits_nothing() -> None:
    store = MemoryStore()
    old = open_in_bucket(object_files(store))
    taken = max(key for key in keys(store) if key.startswith("_manifest/"))
    for n in range(2):
        with open_in_bucket(object_files(store, grace_s=0)) as new:
            new.append(raw_batch(range(2 * n, 2 * n + 2)))
            new.flush()
    left = [key for key in keys(store) if key.startswith("_manifest/")]
    assert int(left[0][-25:-5]) > int(taken[-25:-5]) + 1
    with pytest.raises(StoreError, match=TOOK_OVER.format(3)):
        old.set_model(MODEL)
    old.close()
    with open_in_bucket(object_files(store), "r") as reader:
        assert reader.model is None
        assert stored_numbers(reader) == list(range(4))


def test_one_who_was_overtaken_removes_nothing() -> None:
    store = MemoryStore()
    files = object_files(store, grace_s=0)
    with open_in_bucket(files), open_in_bucket(object_files(store, grace_s=0)) as new:
        new.append(raw_batch(range(2)))
        new.flush()
        held = keys(store)
        files.fence.collided = lambda: None  # type: ignore[method-assign]
        for path in ("wal/000003.wal", "seg", "meta"):
            files.fence._looked_s = None
            with pytest.raises(StoreError, match=TOOK_OVER.format(2)):
                files.unlink(ROOT / path)
            with pytest.raises(StoreError, match=TOOK_OVER.format(2)):
                files.rmtree(ROOT / path)
        assert keys(store) == held


def test_two_who_make_the_same_store_at_once_get_one() -> None:
    for at in some(range(60), 2):
        store = MemoryStore()
        other: list[Ring] = []
        count = itertools.count()
        hooked = HookedBucket(
            store,
            lambda kind, key: next(count) == at,  # noqa: B023
            lambda: other.append(open_in_bucket(object_files(store))),  # noqa: B023
        )
        with suppress(StoreError):
            open_in_bucket(object_files(hooked)).append(raw_batch(range(2)))
        for ring in other:
            with suppress(StoreError):
                ring.append(raw_batch(range(2)))
        assert numbers_in_bucket(store) in ([0, 1], [0, 1, 0, 1]), at


@dataclass
class _Writer:
    """Opens a store once and again, appends and flushes, and knows what was acknowledged."""

    files: Callable[[], ObjectFiles]
    first: int
    told: list[int] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        try:
            for _ in range(2):
                with suppress(StoreError):
                    self._write()
        except BaseException as error:
            self.errors.append(error)

    def _write(self) -> None:
        ring = open_in_bucket(self.files())
        try:
            for _ in range(3):
                numbers = range(self.first, self.first + 2)
                self.first += 2
                ring.append(raw_batch(numbers))
                self.told += numbers
                if self.first % 4 == 0:
                    ring.flush()
            fill(ring)
        finally:
            ring.close()


@pytest.mark.parametrize("seed", range(scaled(16)))
def test_whatever_the_order_of_two_writers_requests_all_that_was_acknowledged_is_there_once(
    seed: int,
) -> None:
    rng = random.Random(seed)
    # Runs of requests of one party, long and short, so that it sometimes finishes what it does.
    order = (party for party in itertools.cycle((0, 1)) for _ in range(rng.choice((1, 2, 7, 30))))
    store, turns = MemoryStore(), Turns(order)
    grace_s = rng.choice((0.0, 900.0))
    writers = [
        _Writer(
            lambda party=party: object_files(TurnBucket(store, turns, party), grace_s=grace_s),  # type: ignore[misc]
            1000 * (party + 1),
        )
        for party in (0, 1)
    ]

    def run(party: int) -> None:
        try:
            writers[party].run()
        finally:
            turns.leave(party)

    threads = [threading.Thread(target=run, args=(party,)) for party in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error for writer in writers for error in writer.errors] == []
    found = numbers_in_bucket(store)
    told = [n for writer in writers for n in writer.told]
    assert set(told) <= set(found)
    assert len(set(found)) == len(found)
    with open_in_bucket(object_files(store)) as ring:
        ring.append(raw_batch([1]))
        ring.flush()
        assert stored_numbers(ring) == [*found, 1]


@dataclass
class _Life:
    """All that a writer does, and what it was told was done."""

    told: int = 0

    def run(self, files: ObjectFiles) -> None:
        with open_in_bucket(files) as ring:
            ring.set_model(MODEL)
            for n in (0, 2):
                ring.append(raw_batch(range(n, n + 2)), positions=[position(n + 2)], rejects=[reject(n)])
                self.told = n + 2
                ring.flush()
            fill(ring)
            ring.append(raw_batch(range(4, 6)), positions=[position(6)])
            self.told = 6


def _n_requests() -> int:
    bucket = StoppingBucket(MemoryStore())
    _Life().run(object_files(bucket, grace_s=0))
    return bucket.n_asked


def test_a_stop_between_any_two_requests_loses_nothing_that_was_acknowledged() -> None:
    for at in some(range(_n_requests()), 2):
        store, life = MemoryStore(), _Life()
        with suppress(Stopped):
            life.run(object_files(StoppingBucket(store, at), grace_s=0))
        if not _has_store(store):
            assert life.told == 0
        with open_in_bucket(object_files(store, grace_s=0)) as ring:
            found = stored_numbers(ring)
            assert found == list(range(len(found))), at
            assert life.told <= len(found) <= life.told + 2, at
            held = ring.position("source")
            assert (0 if held is None else held.offset) == len(found), at
            ring.append(raw_batch(range(100, 102)))
            ring.flush()
            assert stored_numbers(ring) == [*found, 100, 101], at
        assert numbers_in_bucket(store) == [*found, 100, 101], at


def _has_store(store: MemoryStore) -> bool:
    return any(key.startswith("_manifest/") for key in keys(store))


def test_a_log_of_many_small_parts_is_flushed_though_it_is_short() -> None:
    store = MemoryStore()
    with Ring.open(ROOT, decoder=decode, files=object_files(store)) as ring:
        for n in range(1030):
            ring.append(raw_batch([n]))
        assert any(key.startswith("seg/") for key in keys(store))
        assert stored_numbers(ring) == list(range(1030))
