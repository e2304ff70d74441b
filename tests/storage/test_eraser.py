"""Erasure: what is taken is out of sight at once and out of every file in the end, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.users import halt_rewriting, metas, ring_of_users
from tests.storage.words import (
    ACT,
    Having,
    choosing,
    counts,
    embed,
    files_with,
    having,
    open_words,
    rows_in,
    stored,
    without,
    words,
)
from treering.storage.audit import check_chain
from treering.storage.cut import cut_older
from treering.storage.errors import DamageError, StoreError
from treering.storage.ring import Ring
from treering.storage.survivors import Survivors


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return ring_of_users(tmp_path / "ring")


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


def test_each_act_is_one_record_of_an_unbroken_chain(ring: Ring) -> None:
    first = ring.erase(having("zqalice"), ACT)
    second = ring.erase(having("dave"), ACT)
    records, head = ring.audit()
    check_chain(records, head)
    assert [first.record, second.record] == records
    assert counts(records[0].details, ("query", "events", "rejects", "version")) == ("q", 3, 2, first.version)
    with open_words(ring.path, mode="r") as reader:
        assert reader.audit() == (records, head)


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
    with open_words(ring.path, mode="r") as reader, reader.snapshot() as snapshot:
        hidden = [part for part in snapshot.parts if isinstance(part, Survivors)]
        assert hidden
        for part in hidden:
            for look in (lambda part=part: part.seq, lambda part=part: part.column("body"), part.parts_table):
                with pytest.raises(DamageError, match=r"del-0000\.arrow") as caught:
                    look()
                assert caught.value.segment_id == part.id


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
