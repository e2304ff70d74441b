"""A beginning of a source that is known adds nothing, and what goes on otherwise adds exactly the rest."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering as tr
from tests.effort import examples
from tests.indexer.made_logs import (
    LINE_KINDS,
    TIMED_KINDS,
    json_line,
    loaded,
    log_of,
    records_of,
    split_log,
    untimed_line,
    written,
)
from tests.indexer.recorder import Recorder
from treering.indexer import recognition
from treering.indexer.ingest import IngestReport, ingest
from treering.storage import ledger
from treering.storage.acknowledged import Acknowledged
from treering.storage.errors import DamageError
from treering.storage.ring import Ring


@pytest.mark.parametrize("make", LINE_KINDS.values(), ids=LINE_KINDS)
@pytest.mark.parametrize("n_lines", [12, 3000])
def test_a_file_cut_anywhere_adds_nothing(ring: Ring, make: Callable[..., bytes], n_lines: int) -> None:
    data = log_of(make, n_lines)
    loaded(ring, data)
    rng = random.Random(n_lines)
    first_line = data.index(b"\n")
    for end in (first_line, first_line + 1, *(rng.randrange(first_line, len(data)) for _ in range(12))):
        assert loaded(ring, data[:end]) == [], end
    assert records_of(ring) == split_log(data, make)
    assert not list(ring.rejects())


@pytest.mark.parametrize("make", TIMED_KINDS)
@pytest.mark.parametrize("n_shared", [1, 7, 2500])
def test_a_file_that_goes_on_otherwise_adds_exactly_the_rest(
    ring: Ring, make: Callable[..., bytes], n_shared: int
) -> None:
    loaded(ring, log_of(make, 3000))
    other = log_of(make, n_shared) + log_of(make, n_shared + 40, n_shared, run="b")
    assert loaded(ring, other) == split_log(log_of(make, n_shared + 40, n_shared, run="b"), make)
    assert loaded(ring, other) == []
    assert loaded(ring, other[:-100]) == []
    more = other + log_of(make, n_shared + 45, n_shared + 40, run="b")
    assert loaded(ring, more) == split_log(more[len(other) :], make)
    third = other + log_of(make, 5, run="c")
    assert loaded(ring, third) == split_log(log_of(make, 5, run="c"), make)


def test_lines_keep_their_places_where_a_file_goes_on_otherwise(ring: Ring) -> None:
    loaded(ring, log_of(json_line, 30))
    before, other = ring.next_seq, log_of(json_line, 10) + log_of(json_line, 14, 10, run="b")
    loaded(ring, other)
    found = [one.offset for one in ring.acknowledged(before, ring.next_seq)]
    assert found == [other.index(line) for line in log_of(json_line, 14, 10, run="b").splitlines()]
    with ring.snapshot() as snapshot:
        lines = [
            line
            for part in snapshot.parts
            for line, seq in zip(part.column("source_line").to_pylist(), part.seq.tolist(), strict=True)
            if seq >= before
        ]
    assert lines == [11, 12, 13, 14]


def test_without_times_a_file_that_goes_on_otherwise_is_another_one(ring: Ring) -> None:
    loaded(ring, log_of(untimed_line, 100))
    other = log_of(untimed_line, 50) + log_of(untimed_line, 60, 50, run="b")
    assert loaded(ring, other[:500]) == []  # so far it is a beginning
    assert loaded(ring, other) == other.splitlines()
    assert loaded(ring, other) == []


def test_a_list_in_one_document_that_was_written_anew_adds_its_new_members(ring: Ring) -> None:
    def document(n: int) -> bytes:
        return b"[\n" + b",\n".join(json_line(i).strip() for i in range(n)) + b"\n]\n"

    assert len(loaded(ring, document(10))) == 10
    assert loaded(ring, document(13)) == [json_line(i).strip() for i in range(10, 13)]
    assert loaded(ring, document(13)) == [] and loaded(ring, document(10)) == []
    assert not list(ring.rejects())


def test_records_that_were_rejected_are_part_of_a_beginning(ring: Ring) -> None:
    data = log_of(json_line, 50) + b"not json\n" + log_of(json_line, 100, 50)
    loaded(ring, data)
    assert len(list(ring.rejects())) == 1
    assert loaded(ring, data[: data.index(b"not") + 4]) == []
    assert loaded(ring, data[:-200]) == []
    assert loaded(ring, data.replace(b"not json", b"not JSON"))[:1] == [json_line(50).strip()]
    assert [r.record for r in ring.rejects()] == [b"not json", b"not JSON"]


def test_an_equal_record_of_another_source_at_the_same_place_is_no_proof(tmp_path: Path, ring: Ring) -> None:
    # Lines of one length: each rotation of app.log has its records at the places of the others.
    runs = [
        b"".join(b"2026-05-01 00:00:%02d %s\n" % (i, kind) for i in range(40)) for kind in (b"GET", b"PUT")
    ]
    path = tmp_path / "app.log"
    for data in runs:
        assert ingest(ring, written(path, data)).accepted == 40
    lines = [data.splitlines(keepends=True) for data in runs]
    mixed = lines[0][:10] + lines[1][10:20] + lines[0][20:30]
    assert ingest(ring, written(path, b"".join(mixed))).accepted == 20


def test_what_was_deleted_from_the_store_is_no_proof_either(tmp_path: Path) -> None:
    data = log_of(json_line, 50)
    with tr.open(tmp_path / "store") as store:
        store.ingest(io.BytesIO(data), embed=False)
        store.delete("n = 20")
        assert store.ingest(io.BytesIO(data), embed=False).accepted == 0
        store.ingest(io.BytesIO(data[: data.index(json_line(30))]), embed=False)
        assert sorted(row["n"] for row in store.query("n >= 30")) == list(range(30, 50))


class _Damaged(Recorder):
    """A store whose records cannot be read."""

    def acknowledged(self, first_seq: int, end_seq: int) -> list[Acknowledged]:
        raise DamageError("text.arrow is damaged")


def test_what_cannot_be_compared_for_damage_is_added_and_told() -> None:
    ring, data = _Damaged(), log_of(json_line, 50)
    ingest(ring, io.BytesIO(data))
    report = ingest(ring, io.BytesIO(data[:1000]))
    assert report.accepted > 0
    assert report.warnings == ["stream: not compared with what was taken of stream: text.arrow is damaged"]
    assert ingest(ring, io.BytesIO(data)).accepted == 0


@pytest.mark.parametrize("as_pipe", [True, False])
@pytest.mark.parametrize("make", LINE_KINDS.values(), ids=LINE_KINDS)
def test_marks_and_records_tell_a_beginning_of_a_large_source(
    tmp_path: Path, ring: Ring, make: Callable[..., bytes], as_pipe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MARK_BYTES", 10_000)
    monkeypatch.setattr(ledger, "MAX_MARKS", 8)
    monkeypatch.setattr(recognition, "KEPT_LEAST_BYTES", 10_000)
    monkeypatch.setattr("treering.indexer.sources.CHUNK_BYTES", 4096)
    data, path = log_of(make, 6000), tmp_path / "app.log"

    def load(part: bytes, name: str = "app.log") -> IngestReport:
        if not as_pipe:
            return ingest(ring, written(path.with_name(name), part))
        pipe = io.BytesIO(part)
        pipe.name = name
        return ingest(ring, pipe)

    for stop in (1000, 2500, 6000):
        load(log_of(make, stop))
        load(b'{"n":"another source between"}\n' * stop, "other.log")
    (position,) = [p for p in ring.positions().values() if p.offset == len(data)]
    assert 2 <= len(position.marks) <= 8
    assert [mark.offset for mark in position.marks] == sorted({mark.offset for mark in position.marks})
    rng, before = random.Random(1), ring.next_seq
    for end in sorted(rng.sample(range(5000, len(data)), 12)):
        assert load(data[:end]).accepted == 0
    assert ring.next_seq == before
    for n in (20, 3000, 5900):
        other = log_of(make, n) + log_of(make, n + 9, n, run=f"{n}")
        accepted = load(other).accepted
        assert accepted == (n + 9 if make is untimed_line else 9)
        assert load(other).accepted == load(data).accepted == 0


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=200), st.booleans())
@examples(40)
def test_marks_are_few_spread_and_account_for_each_event(steps: list[int], is_shared: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "MARK_BYTES", 1000)
        patch.setattr(ledger, "MAX_MARKS", 8)
        position, offset, seq = ledger.Position("f", "a", 0, 0, ""), 0, 0
        for n, step in enumerate(steps):
            offset += step
            seq += is_shared
            position = position.taken_on("a", offset, n, f"{n:064d}", ledger.Run(seq, seq + 3, 3))
            seq += 3
        ends = [0, *(mark.offset for mark in position.marks), offset]
        assert len(position.marks) <= 8 and ends == sorted(set(ends))
        widest = ledger.spacing_bytes(offset) + max(steps)
        assert all(b - a <= 4 * widest for a, b in pairwise(ends))
        assert sum(m.run.n_rows for m in position.marks) + position.run.n_rows == 3 * len(steps)
        assert ledger.Position.from_json(position.to_json()) == position


@given(
    st.lists(st.tuples(st.text("01", min_size=1, max_size=25), st.booleans()), min_size=1, max_size=10),
    st.booleans(),
)
@examples(60)
def test_a_record_is_known_only_by_all_that_stands_before_it(
    loads: list[tuple[str, bool]], has_times: bool
) -> None:
    """Records that are alike, of one length, in sources of one name, beside a model: the set of known beginnings."""
    time = b'"ts":1777593600000,' if has_times else b""
    ring, known = Recorder(), set[str]()
    for bits, is_packed in loads:
        log = b"".join(b'{%s"bit":%s}\n' % (time, bit.encode()) for bit in bits)
        beginnings = {bits[:n] for n in range(1, len(bits) + 1)}
        accepted = ingest(ring, io.BytesIO(gzip.compress(log) if is_packed else log)).accepted
        if has_times or bits in known:
            assert accepted == len(beginnings - known)
        else:
            # Without times a log that goes on otherwise is another one: all of it is new, or behind a whole one.
            assert accepted >= len(beginnings - known)
        known |= beginnings
