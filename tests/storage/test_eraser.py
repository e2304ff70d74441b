"""Erasure: what is taken is out of sight at once and out of every file in the end, and nothing else is touched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.words import (
    ACT,
    Having,
    choosing,
    counts,
    embed,
    files_with,
    having,
    open_words,
    reject,
    rows_in,
    stored,
    vector_events,
    without,
    words,
)
from treering.storage.audit import check_chain
from treering.storage.cleaner import Cleaner
from treering.storage.cut import cut_older, cut_to_size
from treering.storage.errors import DamageError, StaleError, StoreError
from treering.storage.meta import SegmentMeta
from treering.storage.part import Part
from treering.storage.ring import Ring

EVENTS = [
    (10, "login zqalice"),
    (20, "login bob"),
    (30, "paid zqalice"),
    (15, "paid carol"),
    (40, "logout bob"),
]


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    """A store with the events in one segment, one more in the log, and two rejects."""
    ring = open_words(tmp_path / "ring")
    ring.append(words(EVENTS), rejects=[reject("{broken zqalice"), reject("{broken bob")])
    ring.flush()
    ring.append(words([(50, "login zqalice"), (60, "login dave")]), rejects=[reject("{late zqalice")])
    return ring


def halt_rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let erasures end after their commit, as in a crash."""
    monkeypatch.setattr(Cleaner, "clean", lambda self: ({}, ()))


def test_what_is_taken_is_gone_from_answers_and_files_and_the_rest_stays(ring: Ring) -> None:
    before = stored(ring)
    erased = ring.erase(having("zqalice"), ACT)
    assert stored(ring) == without(before, "zqalice")
    assert (erased.cut.n_events, erased.cut.n_rejects, erased.is_erased) == (3, 2, True)
    assert [one.record for one in ring.rejects()] == [b"{broken bob"]
    assert files_with(ring.path, "zqalice") == set()
    assert files_with(ring.path, "bob") != set()
    with Ring.open(ring.path, "r", decoder=lambda *_: pytest.fail("nothing is in the log")) as reader:
        assert stored(reader) == without(before, "zqalice")
        assert [one.record for one in reader.rejects()] == [b"{broken bob"]


def test_what_is_taken_is_out_of_sight_before_any_file_is_rewritten(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(ring)
    halt_rewriting(monkeypatch)
    erased = ring.erase(having("zqalice"), ACT)
    assert erased.version == ring.snapshot().version
    assert stored(ring) == without(before, "zqalice")
    with open_words(ring.path, mode="r") as reader:
        assert stored(reader) == without(before, "zqalice")
    assert any(name.endswith("hot.arrow") for name in files_with(ring.path, "zqalice"))


def test_opening_the_store_to_write_goes_on_with_a_rewrite_that_was_cut_short(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(ring)
    with monkeypatch.context() as patch:
        halt_rewriting(patch)
        ring.erase(having("zqalice"), ACT)
        ring.close()
    with open_words(ring.path) as again:
        assert stored(again) == without(before, "zqalice")
        assert files_with(ring.path, "zqalice") == set()
        assert len(again.audit()[0]) == 1


def test_a_fold_keeps_deleted_events_deleted(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    embed(ring)
    before = stored(ring)
    halt_rewriting(monkeypatch)
    ring.erase(having("zqalice"), ACT)
    ring.fold()
    assert stored(ring) == without(before, "zqalice")
    assert files_with(ring.path, "zqalice") == set()


def test_folded_segments_stay_in_the_order_of_their_shards(ring: Ring) -> None:
    embed(ring)
    ring.flush()
    embed(ring)
    ring.fold()
    before = stored(ring)
    ring.erase(having("carol"), ACT)
    embed(ring)
    with ring.snapshot() as snapshot:
        assert rows_in(snapshot) == without(before, "carol")
        for part in snapshot.parts:
            for piece in part.slices:
                times = list(zip(part.ts[piece.lo : piece.hi], part.seq[piece.lo : piece.hi], strict=True))
                assert times == sorted(times)
    assert {meta.generation for meta in metas(ring)} == {1}


def test_a_segment_that_goes_whole_is_unlinked_and_others_stay_as_they_are(ring: Ring) -> None:
    ring.flush()
    old, young = (
        path.name for path in sorted((ring.path / "seg").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    )
    ring.erase(choosing(Having(lambda text: "dave" in text or "login zqalice" in text)), ACT)
    names = {path.name for path in (ring.path / "seg").iterdir()}
    assert young not in names and old not in names and len(names) == 1
    (kept,) = names
    ring.erase(having("nobody"), ACT)
    assert {path.name for path in (ring.path / "seg").iterdir()} == {kept}


def test_taking_nothing_changes_nothing(ring: Ring) -> None:
    ring.flush()
    version = ring.snapshot().version
    erased = ring.erase(having("nobody"), ACT)
    assert (erased.record, erased.version, erased.is_erased) == (None, version, True)
    assert ring.audit() == ([], "")


def test_everything_can_go(ring: Ring) -> None:
    ring.erase(having(""), ACT)
    assert stored(ring) == [] and list(ring.rejects()) == []
    assert list((ring.path / "seg").iterdir()) == []
    assert files_with(ring.path, "login") == set()
    assert ring.append(words([(1, "login eve")])) == 7
    assert stored(ring) == [(7, 1, "login eve")]


def test_deletions_add_up(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    before = stored(ring)
    with monkeypatch.context() as patch:
        halt_rewriting(patch)
        for gone in ("carol", "dave", "logout"):
            ring.erase(having(gone), ACT)
            before = without(before, gone)
            assert stored(ring) == before
        files = [path.name for path in ring.path.rglob("del-*")]
        assert len(files) == len(set(files)) == sum(meta.deleted is not None for meta in metas(ring))
    ring.erase(having("bob"), ACT)
    assert stored(ring) == without(before, "bob")
    assert list(ring.path.rglob("del-*")) == []
    for token in ("carol", "dave", "logout", "bob"):
        assert files_with(ring.path, token) == set()


# -- vectors --------------------------------------------------------------------------------------------------


@pytest.fixture
def embedded(ring: Ring) -> Ring:
    """The same with vectors: those of `login` are of event 0 and of `paid` of event 2, which are Alice's."""
    assert embed(ring) == {"login": 0, "paid": 2, "logout": 4}
    ring.flush()
    assert embed(ring) == {}
    return ring


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
    for part in parts_of(embedded):
        assert part.signals_pending
        assert "attention_collapse" not in part.fields and "attention_source" not in part.fields
    embed(embedded)
    for part in parts_of(embedded):
        assert not part.signals_pending
        assert set(part.column("attention_collapse").to_pylist()) == {0.25}


def test_signals_stay_where_their_vectors_do(embedded: Ring) -> None:
    embedded.erase(choosing(Having(lambda text: "bob" in text)), ACT)
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


# -- readers ----------------------------------------------------------------------------------------------------


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


# -- others at work -------------------------------------------------------------------------------------------


def void(_: object) -> None:
    """Give nothing."""


def racing(ring: Ring, once: Callable[[], None], *, times: int = 1) -> list[tuple[int, int, str]]:
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
    assert racing(ring, lambda: void(embed(ring))) == stored(ring) == before
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


# -- age and size -----------------------------------------------------------------------------------------------


def test_by_age_everything_older_goes_and_nothing_else(ring: Ring) -> None:
    before = stored(ring)
    for second in (9, 15, 16, 40, 55, 1000):
        ring.erase(lambda state, t=second: cut_older(state, t * 10**9), ACT)  # type: ignore[misc]
        assert stored(ring) == [row for row in before if row[1] >= second]
    assert list((ring.path / "seg").iterdir()) == []


def test_by_age_old_segments_go_without_a_look_at_their_events(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring.flush()
    (old,) = (meta for meta in metas(ring) if meta.t_max <= 40 * 10**9)
    hot = ring.path / "seg" / old.id / "hot.arrow"
    hot.write_bytes(b"x")
    with pytest.raises(DamageError):
        ring.erase(lambda state: cut_older(state, 40 * 10**9), ACT)
    erased = ring.erase(lambda state: cut_older(state, 41 * 10**9), ACT)
    assert (erased.n_dropped, erased.cut.n_events, dict(erased.rewritten)) == (1, 5, {})
    assert [row[2] for row in stored(ring)] == ["login zqalice", "login dave"]


def test_by_age_vectors_of_expired_events_stay_while_others_use_them(embedded: Ring) -> None:
    embedded.erase(lambda state: cut_older(state, 41 * 10**9), ACT)
    assert vector_events(embedded) == {"login": 0}
    assert not embedded.unfinished()


def test_by_age_reject_files_written_before_go(ring: Ring) -> None:
    ring.flush()
    files = ring._view.catalog.rejects.entries.values()
    first, second = sorted(file.written_ns or 0 for file in files)
    ring.erase(lambda state: cut_older(state, first + 1), ACT)
    assert [one.record for one in ring.rejects()] == [b"{late zqalice"]
    ring.erase(lambda state: cut_older(state, second), ACT)
    assert [one.record for one in ring.rejects()] == [b"{late zqalice"]


def test_by_size_the_oldest_segments_go_until_the_rest_fits(ring: Ring) -> None:
    for n in range(4):
        ring.append(words([(1000 * (n + 1), f"login user{n}")]))
        ring.flush()
    sizes = {meta.id: (meta.t_max, meta.n_bytes) for meta in metas(ring)}
    order = [n_bytes for _, n_bytes in sorted(sizes.values())]
    left = sum(order)
    for n_bytes in order:
        ring.erase(lambda state, most=left: cut_to_size(state, most), ACT)  # type: ignore[misc]
        assert sum(meta.n_bytes for meta in metas(ring)) == left
        ring.erase(lambda state, most=left - 1: cut_to_size(state, most), ACT)  # type: ignore[misc]
        left -= n_bytes
        assert sum(meta.n_bytes for meta in metas(ring)) == left
    assert stored(ring) == []


# -- the account ------------------------------------------------------------------------------------------------


def test_each_act_is_one_record_of_an_unbroken_chain(ring: Ring) -> None:
    first = ring.erase(having("zqalice"), ACT)
    second = ring.erase(having("dave"), ACT)
    records, head = ring.audit()
    check_chain(records, head)
    assert [first.record, second.record] == records
    assert counts(records[0].details, ("query", "events", "rejects", "version")) == ("q", 3, 2, first.version)
    with open_words(ring.path, mode="r") as reader:
        assert reader.audit() == (records, head)


# -- damage -----------------------------------------------------------------------------------------------------


def test_a_damaged_segment_is_named_and_stays_out_of_sight(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(ring)
    with monkeypatch.context() as patch:
        halt_rewriting(patch)
        ring.erase(having("zqalice"), ACT)
    damaged = next(iter(meta for meta in metas(ring) if meta.deleted is not None and meta.n_rows == 5))
    text = ring.path / "seg" / damaged.id / "text.arrow"
    data = text.read_bytes()
    text.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    erased = ring.erase(lambda state: cut_older(state, 0), ACT)
    assert len(erased.damaged) == 1 and "text.arrow" in str(erased.damaged[0]) and not erased.is_erased
    with pytest.raises(DamageError, match=r"text\.arrow"):
        ring.erase(having("dave"), ACT)
    text.write_bytes(data)
    ring.close()
    with open_words(ring.path) as again:
        assert stored(again) == without(before, "zqalice")
        assert files_with(ring.path, "zqalice") == set()


def test_a_deletion_file_that_is_gone_hides_no_damage(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    halt_rewriting(monkeypatch)
    ring.erase(having("zqalice"), ACT)
    for path in ring.path.rglob("del-*.arrow"):
        path.unlink()
    with open_words(ring.path, mode="r") as reader, pytest.raises(DamageError, match=r"del-0000\.arrow"):
        reader.snapshot()


def test_a_disk_that_is_full_while_files_are_rewritten_is_told_as_that(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(ring)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("treering.storage.cleaner.write", full)
        with pytest.raises(StoreError, match="3 events are deleted and nobody sees them any more"):
            ring.erase(having("zqalice"), ACT)
        assert stored(ring) == without(before, "zqalice")
    assert ring.erase(having("nobody"), ACT).is_erased
    assert files_with(ring.path, "zqalice") == set()


def metas(ring: Ring) -> list[SegmentMeta]:
    return list(ring._view.catalog.segments.entries.values())


def parts_of(ring: Ring) -> list[Part]:
    with ring.snapshot() as snapshot:
        return list(snapshot.parts)
