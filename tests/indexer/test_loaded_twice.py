"""The same bytes twice add nothing, and bytes that are new are never taken for known."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering as tr
from tests.indexer.test_ingest import Recorder
from treering.indexer import recognition
from treering.indexer.decode import Decoder
from treering.indexer.fingerprints import known_by
from treering.indexer.ingest import IngestOptions, IngestReport, ingest
from treering.indexer.lines import RawRows
from treering.indexer.utf8 import count_invalid
from treering.storage import ledger
from treering.storage.acknowledged import Acknowledged
from treering.storage.batch import Source
from treering.storage.errors import DamageError
from treering.storage.ring import Ring

_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    with Ring.open(tmp_path / "ring", decoder=Decoder()) as ring:
        yield ring


def _json(n: int, run: str = "a") -> bytes:
    return b'{"ts":%d,"run":"%s","n":%d,"text":"%s"}\n' % (
        1_777_593_600_000 + n,
        run.encode(),
        n,
        b"x" * (n % 50),
    )


def _text(n: int, run: str = "a") -> bytes:
    second = b"2026-05-01 %02d:%02d:%02d" % (n // 3600 % 24, n // 60 % 60, n % 60)
    return b"%s INFO %s request %d done%s\n" % (second, run.encode(), n, b"\n  more" * (n % 3))


def _untimed(n: int, run: str = "a") -> bytes:
    return b'{"run":"%s","n":%d}\n' % (run.encode(), n)


_KINDS = {"json": _json, "text": _text, "untimed": _untimed}
_TIMED = [_json, _text]


def _lines(make: Callable[..., bytes], stop: int, start: int = 0, run: str = "a") -> bytes:
    return b"".join(make(n, run) for n in range(start, stop))


def _records(ring: Ring) -> list[bytes]:
    return [one.record for one in ring.acknowledged(0, ring.next_seq)]


def _added(ring: Ring, data: bytes, name: str = "") -> list[bytes]:
    """Load bytes and give the records that came of it."""
    before, file = ring.next_seq, io.BytesIO(data)
    if name:
        file.name = name
    ingest(ring, file)
    return [one.record for one in ring.acknowledged(before, ring.next_seq)]


def _at(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _whole(data: bytes, make: Callable[..., bytes]) -> list[bytes]:
    """The records that a log is, by plain splitting."""
    if make is not _text:
        return data.splitlines()
    return data.rstrip(b"\n").replace(b"\n2026", b"\0" + b"2026").split(b"\0") if data else []


# -- names, packings, order ---------------------------------------------------------------------------------------


def test_a_renamed_file_adds_nothing_and_goes_on_under_its_new_name(tmp_path: Path, ring: Ring) -> None:
    path = _at(tmp_path / "app.log", _lines(_json, 300))
    assert ingest(ring, path).accepted == 300
    moved = path.rename(tmp_path / "app.log.1")
    assert ingest(ring, moved).accepted == 0
    with moved.open("ab") as file:
        file.write(_lines(_json, 310, 300))
    assert ingest(ring, moved).accepted == 10


@pytest.mark.parametrize("kind", _PACKERS)
@pytest.mark.parametrize("make", _KINDS.values(), ids=_KINDS)
def test_a_packed_copy_adds_only_what_the_file_had_grown_by(
    tmp_path: Path, ring: Ring, kind: str, make: Callable[..., bytes]
) -> None:
    pack, path = _PACKERS[kind], tmp_path / "app.log"
    assert len(_added(ring, _lines(make, 200))) == 200
    assert ingest(ring, _at(tmp_path / f"a.{kind}", pack(_lines(make, 200)))).accepted == 0
    assert ingest(ring, _at(tmp_path / f"b.{kind}", pack(_lines(make, 250)))).accepted == 50
    assert ingest(ring, _at(path, _lines(make, 250))).accepted == 0
    assert (
        ingest(ring, _at(path, _lines(make, 120))).accepted == 0
    )  # the plain file, shorter than its packed twin
    assert _records(ring) == _whole(_lines(make, 250), make)


@pytest.mark.parametrize(
    "banner", [b"start\n", b"server starts, no time\n" * 400], ids=["line", "9000 bytes"]
)
def test_a_new_log_that_begins_like_the_rotated_one_loses_nothing(
    tmp_path: Path, ring: Ring, banner: bytes
) -> None:
    first = banner + _lines(_text, 300, run="first")
    second = banner + _lines(_text, 500, 300, run="second")
    path = _at(tmp_path / "app.log", first)
    ingest(ring, path)
    path.rename(tmp_path / "app.log.1")
    _at(path, second)
    assert ingest(ring, [tmp_path / "app.log.1", path]).accepted == 200 + banner.count(b"\n")
    found = Counter(line for record in _records(ring) for line in record.split(b"\n"))
    assert found == Counter((first + second).rstrip(b"\n").split(b"\n"))
    assert ingest(ring, [path, tmp_path / "app.log.1"]).accepted == 0


def test_copytruncate_loses_nothing_and_adds_nothing_twice(tmp_path: Path, ring: Ring) -> None:
    path = _at(tmp_path / "app.log", _lines(_text, 100))
    ingest(ring, path)
    _at(tmp_path / "app.log.1", path.read_bytes())
    for stop in (0, 3, 40):
        _at(path, _lines(_text, 200 + stop, 200))
        ingest(ring, [path, tmp_path / "app.log.1"])
    assert _records(ring) == _whole(_lines(_text, 100) + _lines(_text, 240, 200), _text)


def test_standard_input_and_files_know_each_other(ring: Ring) -> None:
    data = _lines(_text, 500)
    assert len(_added(ring, data, "app.log")) == 500
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        with os.fdopen(write, "wb") as file:
            file.write(data[:20_000])
        assert ingest(ring, pipe).accepted == 0


def test_line_ends_and_marks_are_bytes_but_the_encoding_of_utf16_is_not(ring: Ring) -> None:
    data = _lines(_text, 50)
    assert len(_added(ring, data)) == 50
    assert _added(ring, ("\ufeff" + data.decode()).encode("utf-16-le")) == []
    for other in (data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data):
        assert len(_added(ring, other)) == 50
        assert _added(ring, other) == []
        assert _added(ring, other[: len(other) // 2]) == []


def test_of_two_files_in_one_the_second_is_added_again(ring: Ring) -> None:
    first, second = _lines(_text, 50), _lines(_text, 90, 50)
    assert len(_added(ring, first)) + len(_added(ring, second)) == 90
    assert _added(ring, first + second) == _whole(second, _text)
    assert _added(ring, first + second) == []
    assert _added(ring, first) == [] and _added(ring, second) == []


def test_again_adds_all_again_and_what_follows_is_known_all_the_same(ring: Ring) -> None:
    data = _lines(_json, 20)
    assert len(_added(ring, data)) == 20
    for _ in range(20):
        assert ingest(ring, io.BytesIO(data), options=IngestOptions(again=True)).accepted == 20
    assert _added(ring, data) == []
    assert _added(ring, data[:300]) == []


# -- beginnings and what goes on otherwise ------------------------------------------------------------------------


@pytest.mark.parametrize("make", _KINDS.values(), ids=_KINDS)
@pytest.mark.parametrize("n_lines", [12, 3000])
def test_a_file_cut_anywhere_adds_nothing(ring: Ring, make: Callable[..., bytes], n_lines: int) -> None:
    data = _lines(make, n_lines)
    _added(ring, data)
    rng = random.Random(n_lines)
    first_line = data.index(b"\n")
    for end in (first_line, first_line + 1, *(rng.randrange(first_line, len(data)) for _ in range(25))):
        assert _added(ring, data[:end]) == [], end
    assert _records(ring) == _whole(data, make)
    assert not list(ring.rejects())


@pytest.mark.parametrize("make", _TIMED)
@pytest.mark.parametrize("n_shared", [1, 7, 2500])
def test_a_file_that_goes_on_otherwise_adds_exactly_the_rest(
    ring: Ring, make: Callable[..., bytes], n_shared: int
) -> None:
    _added(ring, _lines(make, 3000))
    other = _lines(make, n_shared) + _lines(make, n_shared + 40, n_shared, run="b")
    assert _added(ring, other) == _whole(_lines(make, n_shared + 40, n_shared, run="b"), make)
    assert _added(ring, other) == []
    assert _added(ring, other[:-100]) == []
    more = other + _lines(make, n_shared + 45, n_shared + 40, run="b")
    assert _added(ring, more) == _whole(more[len(other) :], make)
    third = other + _lines(make, 5, run="c")
    assert _added(ring, third) == _whole(_lines(make, 5, run="c"), make)


def test_lines_keep_their_places_where_a_file_goes_on_otherwise(ring: Ring) -> None:
    _added(ring, _lines(_json, 30))
    before, other = ring.next_seq, _lines(_json, 10) + _lines(_json, 14, 10, run="b")
    _added(ring, other)
    found = [one.offset for one in ring.acknowledged(before, ring.next_seq)]
    assert found == [other.index(line) for line in _lines(_json, 14, 10, run="b").splitlines()]
    with ring.snapshot() as snapshot:
        lines = [
            line
            for part in snapshot.parts
            for line, seq in zip(part.column("source_line").to_pylist(), part.seq.tolist(), strict=True)
            if seq >= before
        ]
    assert lines == [11, 12, 13, 14]


def test_without_times_a_file_that_goes_on_otherwise_is_another_one(ring: Ring) -> None:
    _added(ring, _lines(_untimed, 100))
    other = _lines(_untimed, 50) + _lines(_untimed, 60, 50, run="b")
    assert _added(ring, other[:500]) == []  # so far it is a beginning
    assert _added(ring, other) == other.splitlines()
    assert _added(ring, other) == []


def test_a_list_in_one_document_that_was_written_anew_adds_its_new_members(ring: Ring) -> None:
    def document(n: int) -> bytes:
        return b"[\n" + b",\n".join(_json(i).strip() for i in range(n)) + b"\n]\n"

    assert len(_added(ring, document(10))) == 10
    assert _added(ring, document(13)) == [_json(i).strip() for i in range(10, 13)]
    assert _added(ring, document(13)) == [] and _added(ring, document(10)) == []
    assert not list(ring.rejects())


def test_records_that_were_rejected_are_part_of_a_beginning(ring: Ring) -> None:
    data = _lines(_json, 50) + b"not json\n" + _lines(_json, 100, 50)
    _added(ring, data)
    assert len(list(ring.rejects())) == 1
    assert _added(ring, data[: data.index(b"not") + 4]) == []
    assert _added(ring, data[:-200]) == []
    assert _added(ring, data.replace(b"not json", b"not JSON"))[:1] == [_json(50).strip()]
    assert [r.record for r in ring.rejects()] == [b"not json", b"not JSON"]


def test_an_equal_record_of_another_source_at_the_same_place_is_no_proof(tmp_path: Path, ring: Ring) -> None:
    # Lines of one length: each rotation of app.log has its records at the places of the others.
    runs = [
        b"".join(b"2026-05-01 00:00:%02d %s\n" % (i, kind) for i in range(40)) for kind in (b"GET", b"PUT")
    ]
    path = tmp_path / "app.log"
    for data in runs:
        assert ingest(ring, _at(path, data)).accepted == 40
    lines = [data.splitlines(keepends=True) for data in runs]
    mixed = lines[0][:10] + lines[1][10:20] + lines[0][20:30]
    assert ingest(ring, _at(path, b"".join(mixed))).accepted == 20


def test_what_was_deleted_from_the_store_is_no_proof_either(tmp_path: Path) -> None:
    data = _lines(_json, 50)
    with tr.open(tmp_path / "store") as store:
        store.ingest(io.BytesIO(data), embed=False)
        store.delete("n = 20")
        assert store.ingest(io.BytesIO(data), embed=False).accepted == 0
        store.ingest(io.BytesIO(data[: data.index(_json(30))]), embed=False)
        assert sorted(row["n"] for row in store.query("n >= 30")) == list(range(30, 50))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_history_of_a_log_keeps_each_line_once(data: st.DataObject) -> None:
    """Loads of beginnings, growth, packed copies and rotations in any order, beside a model: a set of lines."""
    from tempfile import TemporaryDirectory

    make = data.draw(st.sampled_from(_TIMED))
    with TemporaryDirectory() as folder, Ring.open(Path(folder) / "ring", decoder=Decoder()) as ring:
        expected: set[bytes] = set()
        for _ in range(data.draw(st.integers(1, 8))):
            run = data.draw(st.sampled_from("ab"))
            n = data.draw(st.integers(1, 60))
            shared = data.draw(st.integers(0, 3)) * 10
            log = _lines(make, min(n, shared)) + _lines(make, n, min(n, shared), run=f"{run}{shared}")
            pack = data.draw(st.sampled_from([bytes, *_PACKERS.values()]))
            _added(ring, pack(log), data.draw(st.sampled_from(["app.log", "other.log"])))
            expected |= set(_whole(log, make))
            if data.draw(st.booleans()):
                ring.flush()
        assert sorted(_records(ring)) == sorted(expected)


class _Damaged(Recorder):
    """A store whose records cannot be read."""

    def acknowledged(self, first_seq: int, end_seq: int) -> list[Acknowledged]:
        raise DamageError("text.arrow is damaged")


def test_what_cannot_be_compared_for_damage_is_added_and_told() -> None:
    ring, data = _Damaged(), _lines(_json, 50)
    ingest(ring, io.BytesIO(data))
    report = ingest(ring, io.BytesIO(data[:1000]))
    assert report.accepted > 0
    assert report.warnings == ["stream: not compared with what was taken of stream: text.arrow is damaged"]
    assert ingest(ring, io.BytesIO(data)).accepted == 0


# -- marks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_pipe", [True, False])
@pytest.mark.parametrize("make", _KINDS.values(), ids=_KINDS)
def test_marks_and_records_tell_a_beginning_of_a_large_source(
    tmp_path: Path, ring: Ring, make: Callable[..., bytes], as_pipe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MARK_BYTES", 10_000)
    monkeypatch.setattr(ledger, "MAX_MARKS", 8)
    monkeypatch.setattr(recognition, "KEPT_LEAST_BYTES", 10_000)
    monkeypatch.setattr("treering.indexer.sources.CHUNK_BYTES", 4096)
    data, path = _lines(make, 6000), tmp_path / "app.log"

    def load(part: bytes, name: str = "app.log") -> IngestReport:
        if not as_pipe:
            return ingest(ring, _at(path.with_name(name), part))
        pipe = io.BytesIO(part)
        pipe.name = name
        return ingest(ring, pipe)

    for stop in (1000, 2500, 6000):
        load(_lines(make, stop))
        load(b'{"n":"another source between"}\n' * stop, "other.log")
    (position,) = [p for p in ring.positions().values() if p.offset == len(data)]
    assert 2 <= len(position.marks) <= 8
    assert [mark.offset for mark in position.marks] == sorted({mark.offset for mark in position.marks})
    rng, before = random.Random(1), ring.next_seq
    for end in sorted(rng.sample(range(5000, len(data)), 12)):
        assert load(data[:end]).accepted == 0
    assert ring.next_seq == before
    for n in (20, 3000, 5900):
        other = _lines(make, n) + _lines(make, n + 9, n, run=f"{n}")
        accepted = load(other).accepted
        assert accepted == (n + 9 if make is _untimed else 9)
        assert load(other).accepted == load(data).accepted == 0


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=200), st.booleans())
@settings(max_examples=40, deadline=None)
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


# -- nothing is lost ----------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.text("01", min_size=1, max_size=25), st.booleans()), min_size=1, max_size=10),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
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


def test_a_name_that_becomes_another_file_while_it_is_read_loses_nothing(
    tmp_path: Path, ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _at(tmp_path / "app.log", _lines(_json, 3000))
    ingest(ring, path)
    new, compare = _lines(_json, 5000, run="new"), known_by

    def rotated(*args: Any) -> Any:
        path.rename(tmp_path / "app.log.1")
        _at(path, new)
        monkeypatch.setattr(recognition, "known_by", compare)
        return compare(*args)

    monkeypatch.setattr(recognition, "known_by", rotated)
    ingest(ring, path)  # it was opened under the name before the rotation
    ingest(ring, [path, tmp_path / "app.log.1"])
    assert _records(ring) == (_lines(_json, 3000) + new).splitlines()


@pytest.mark.parametrize("make", _KINDS.values(), ids=_KINDS)
def test_a_log_that_another_process_writes_in_torn_pieces_comes_in_whole(
    tmp_path: Path, ring: Ring, make: Callable[..., bytes]
) -> None:
    data, path = _lines(make, 4000), tmp_path / "app.log"
    source = _at(tmp_path / "source", data)
    writer = subprocess.Popen([sys.executable, "-c", _WRITE_TORN, str(source), str(path)])
    while writer.poll() is None:
        if path.exists():
            ingest(ring, path)
    ingest(ring, path)
    assert writer.returncode == 0 and path.read_bytes() == data
    lines = Counter(line for record in _records(ring) for line in record.split(b"\n"))
    whole = set(data.splitlines())
    assert {line for line in lines if line in whole} == whole
    assert all(n == 1 for line, n in lines.items() if line in whole and line != b"  more")
    torn = [line for line in lines if line not in whole]
    assert all(any(line.startswith(part) for line in whole) for part in torn)
    assert make is _text or not torn
    assert ingest(ring, path).accepted == 0


_WRITE_TORN = """
import os, random, sys
data, rng = open(sys.argv[1], "rb").read(), random.Random(3)
file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while data:
    n = rng.randrange(1, 6000)
    os.write(file, data[:n])
    data = data[n:]
    for _ in range(rng.randrange(3)):
        os.fsync(file)
"""


def test_a_last_line_that_grows_becomes_an_event_of_its_own_once(tmp_path: Path, ring: Ring) -> None:
    whole = b"2026-05-01 00:00:00 INFO one\n2026-05-01 00:00:01 INFO two and more\n"
    path = _at(tmp_path / "app.log", whole[:-10])
    assert ingest(ring, path).accepted == 2
    assert ingest(ring, path).accepted == 0
    for _ in range(2):
        ingest(ring, _at(path, whole))
    _at(path, whole + _lines(_text, 3))
    for _ in range(2):
        ingest(ring, path)
    assert _records(ring) == [
        b"2026-05-01 00:00:00 INFO one",
        b"2026-05-01 00:00:01 INFO two",
        b"2026-05-01 00:00:01 INFO two and more",
        *_whole(_lines(_text, 3), _text),
    ]
    assert ingest(ring, _at(path, whole)).accepted == 0


def test_a_last_line_that_only_gets_its_line_feed_adds_nothing(tmp_path: Path, ring: Ring) -> None:
    for end in (b"\n", b"\r\n"):
        path = _at(tmp_path / "app.log", end.join(_lines(_text, 3).splitlines()))
        assert ingest(ring, path).accepted == 3
        with path.open("ab") as file:
            file.write(end)
        assert ingest(ring, path).accepted == 0


def test_a_traceback_that_goes_on_in_the_next_load_is_there_line_by_line(tmp_path: Path, ring: Ring) -> None:
    head = _lines(_text, 1) + b"2026-05-01 00:00:09 ERROR failed\nTraceback (most recent call last):\n"
    rest = b'  File "a.py", line 1, in f\nValueError: x\n'
    path = _at(tmp_path / "app.log", head)
    ingest(ring, path)
    ingest(ring, _at(path, head + rest))
    lines = [line for record in _records(ring) for line in record.split(b"\n")]
    assert lines == (head + rest).splitlines()


def test_a_file_of_utf16_that_was_cut_within_a_character_goes_on(tmp_path: Path, ring: Ring) -> None:
    packed = ("\ufeff" + _lines(_text, 9).decode()).encode("utf-16-le")
    report = ingest(ring, _at(tmp_path / "app.log", packed[:-31]))
    assert any("UTF-16" in warning for warning in report.warnings)
    ingest(ring, _at(tmp_path / "app.log", packed))
    whole = _whole(_lines(_text, 9), _text)
    assert [record for record in _records(ring) if record in whole] == whole


def test_records_that_are_no_utf8_are_counted_and_keep_their_bytes(tmp_path: Path, ring: Ring) -> None:
    bad = [b'{"a":"\xff"}', b'{"a":"\xe4\xbd"}', b'{"\x80":1}']
    report = ingest(ring, _at(tmp_path / "x.jsonl", b"\n".join([b'{"a":"\xe4\xbd\xa0"}', *bad, b'{"a":1}'])))
    assert [w.partition(": ")[2] for w in report.warnings if "UTF-8" in w] == [
        "3 records with invalid UTF-8: shown as U+FFFD, the bytes are kept"
    ]
    assert _records(ring)[1:4] == bad


def test_halves_of_a_character_in_two_records_are_no_whole_one() -> None:
    rows = RawRows()
    for record in (b"a\xe4\xbd", b"\xa0b", b""):
        rows.add(record, 0, 0, 0, 1)
    assert count_invalid(rows.to_raw(Source("a", "text", {}))) == 2


# -- odd times ----------------------------------------------------------------------------------------------------

_AHEAD, _UNUSABLE = "1 time more than a day ahead of now", "1 record without a usable time, dated at the load"
_ODD = {
    "2190-01-01T00:00:00Z": [_AHEAD],
    "2999-01-01T00:00:00Z": [_UNUSABLE],  # beyond what 64 bits of nanoseconds hold
    "9999-12-31T23:59:59Z": [_UNUSABLE],
    "0001-01-01T00:00:00Z": [_UNUSABLE],
    "1970-01-01T00:00:01Z": [],
}


def _with_odd_time(odd: str) -> bytes:
    lines = _lines(_json, 2000).splitlines()
    lines.insert(1000, b'{"ts":"%s","n":-1}' % odd.encode())
    return b"\n".join(lines)


@pytest.mark.parametrize("odd", _ODD)
def test_one_odd_time_is_told_and_leaves_the_cells_of_the_others_narrow(ring: Ring, odd: str) -> None:
    report = ingest(ring, io.BytesIO(_with_odd_time(odd)))
    assert report.accepted == 2001
    assert [w.partition(": ")[2] for w in report.warnings] == _ODD[odd]
    ring.flush()
    with ring.snapshot() as snapshot:
        assert sum(part.n_rows for part in snapshot.parts) == 2001
        assert max(part.t_max - part.t_min for part in snapshot.parts) < 2 * 10**9
        assert sum(part.n_rows for part in snapshot.parts if part.t_min // 10**15 == 1777) == 2000


@pytest.mark.parametrize("odd", ["2190-01-01T00:00:00Z", "1970-01-01T00:00:01Z"])
def test_last_hour_and_age_count_from_now_whatever_one_event_says(tmp_path: Path, odd: str) -> None:
    now, later = "2026-05-01T00:30:00Z", "2026-05-31T00:30:00Z"
    with tr.open(tmp_path / "store") as store:
        store.ingest(io.BytesIO(_with_odd_time(odd)), embed=False)
        assert [row["n"] for row in store.query("last 1h sort by n fields n", now=now)] == list(range(2000))
        store.expire(older_than="29d", now=now)
        assert len(store.query("n >= 0")) == 2000
        store.expire(older_than="29d", now=later)
        assert [row["n"] for row in store.query("fields n")] == ([-1] if odd.startswith("2190") else [])
