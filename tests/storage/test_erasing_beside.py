"""An erasure beside readers and beside others who change the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.users import embedded_ring, ring_of_users
from tests.storage.words import (
    ACT,
    Having,
    choosing,
    embed,
    files_with,
    having,
    open_words,
    rows_in,
    stored,
    vector_events,
    without,
    words,
)
from treering.storage.errors import StaleError
from treering.storage.ring import Ring


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return ring_of_users(tmp_path / "ring")


@pytest.fixture
def embedded(tmp_path: Path) -> Ring:
    return embedded_ring(tmp_path / "ring")


def test_a_reader_keeps_its_state_and_the_receipt_says_so(ring: Ring) -> None:
    with open_words(ring.path, mode="r") as reader:
        before = stored(reader)
        snapshot = reader.snapshot()
        erased = ring.erase(having("zqalice"), ACT)
        assert erased.n_waiting > 0 and not erased.is_erased
        assert rows_in(snapshot) == before
        assert files_with(ring.path, "zqalice") != set()
        snapshot.close()
    assert ring.erase(having("nobody"), ACT).is_erased
    assert files_with(ring.path, "zqalice") == set()


def test_an_erasure_waits_for_readers_as_long_as_it_is_told_to(ring: Ring) -> None:
    with open_words(ring.path, mode="r") as reader:
        snapshot = reader.snapshot()
        assert not ring.erase(having("zqalice"), ACT, wait_s=0.02).is_erased
        timer = threading.Timer(0.05, snapshot.close)
        timer.start()
        assert ring.erase(having("nobody"), ACT, wait_s=60).is_erased
        timer.join()
    assert files_with(ring.path, "zqalice") == set()


def racing(ring: Ring, once: Callable[[], object], *, times: int = 1) -> list[tuple[int, int, str]]:
    """Erase Alice while somebody else changes the store between plan and commit; give what should be left."""
    chooser, left = Having(lambda text: "zqalice" in text), [times]

    def interrupt() -> None:
        if left[0]:
            left[0] -= 1
            thread = threading.Thread(target=once)
            thread.start()
            thread.join(0.2)

    chooser.before = interrupt
    erased = ring.erase(choosing(chooser), ACT)
    assert erased.cut.n_events == 3
    return without(stored(ring), "zqalice")


def test_events_that_come_meanwhile_stay(ring: Ring) -> None:
    before = without(stored(ring), "zqalice")

    def append() -> None:
        ring.append(words([(70, "login frank"), (5, "paid frank")]))
        ring.flush()

    expected = [*before, (7, 70, "login frank"), (8, 5, "paid frank")]
    assert racing(ring, append) == stored(ring) == expected
    assert files_with(ring.path, "zqalice") == set()


def test_vectors_that_come_meanwhile_are_those_of_other_events(ring: Ring) -> None:
    before = without(stored(ring), "zqalice")
    assert racing(ring, lambda: embed(ring)) == stored(ring) == before
    assert vector_events(ring) == {"login": None, "paid": None, "logout": 4}
    assert embed(ring) == {"login": 1, "paid": 3}
    assert files_with(ring.path, "zqalice") == set()


def test_a_vector_that_a_flush_hands_on_meanwhile_is_forgotten_too(embedded: Ring) -> None:
    def flush() -> None:
        embedded.append(words([(70, "login grace")]))
        embedded.flush()

    racing(embedded, flush)
    assert vector_events(embedded) == {"login": None, "paid": None, "logout": 4}
    assert embed(embedded) == {"login": 1, "paid": 3}


def test_an_erasure_comes_to_its_end_however_often_segments_change(ring: Ring) -> None:
    changes = threading.Event()

    def churn() -> None:
        changes.set()
        with ring._mutex:
            for segment in ring.unfinished():
                meta = ring._view.catalog.segments.entries[segment.id]
                ring.add_late(segment.id, signals_done=not meta.signals_pending)

    assert racing(ring, churn, times=9) == stored(ring)
    assert changes.is_set()


def test_many_at_once_each_see_whole_states_and_lose_nothing(ring: Ring) -> None:
    wrong: list[object] = []
    n_rounds, is_done = 12, threading.Event()

    def write() -> None:
        for n in range(n_rounds):
            ring.append(words([(100 + n, f"login keep{n}"), (n, f"login zqgone{n}"), (100, f"paid keep{n}")]))
            if n % 3 == 0:
                embed_once(ring)

    def look() -> None:
        while not is_done.is_set():
            bodies = [row[2].split()[1] for row in stored(ring)]
            kept = [body for body in bodies if body.startswith("keep")]
            # An append is there as a whole, and in its order.
            if kept != [f"keep{i // 2}" for i in range(len(kept))] or len(kept) % 2:
                wrong.append(kept)

    writer, reader = threading.Thread(target=write), threading.Thread(target=look)
    writer.start()
    reader.start()
    while writer.is_alive():
        ring.erase(having("zqgone"), ACT)
    writer.join()
    is_done.set()
    reader.join()
    ring.erase(having("zqgone"), ACT)
    embed(ring)
    assert not wrong
    assert stored(ring)[7:] == sorted(
        row
        for n in range(n_rounds)
        for row in ((7 + 3 * n, 100 + n, f"login keep{n}"), (9 + 3 * n, 100, f"paid keep{n}"))
    )
    assert all("zqgone" not in row[2] for row in stored(ring))
    assert files_with(ring.path, "zqgone") == set()


def embed_once(ring: Ring) -> None:
    """Embed what waits; what an erasure overtakes waits on."""
    ring.flush()
    with suppress(StaleError):
        embed(ring)
