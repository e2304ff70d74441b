"""The same bytes twice add nothing, under any name, in any packing and order."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.indexer.made_logs import (
    LINE_KINDS,
    PACKERS,
    TIMED_KINDS,
    json_line,
    loaded,
    log_of,
    records_of,
    split_log,
    text_line,
    written,
)
from treering.indexer.decode import Decoder
from treering.indexer.ingest import IngestOptions, ingest
from treering.storage.ring import Ring


def test_a_renamed_file_adds_nothing_and_goes_on_under_its_new_name(tmp_path: Path, ring: Ring) -> None:
    path = written(tmp_path / "app.log", log_of(json_line, 300))
    assert ingest(ring, path).accepted == 300
    moved = path.rename(tmp_path / "app.log.1")
    assert ingest(ring, moved).accepted == 0
    with moved.open("ab") as file:
        file.write(log_of(json_line, 310, 300))
    assert ingest(ring, moved).accepted == 10


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("make", LINE_KINDS.values(), ids=LINE_KINDS)
def test_a_packed_copy_adds_only_what_the_file_had_grown_by(
    tmp_path: Path, ring: Ring, kind: str, make: Callable[..., bytes]
) -> None:
    pack, path = PACKERS[kind], tmp_path / "app.log"
    assert len(loaded(ring, log_of(make, 200))) == 200
    assert ingest(ring, written(tmp_path / f"a.{kind}", pack(log_of(make, 200)))).accepted == 0
    assert ingest(ring, written(tmp_path / f"b.{kind}", pack(log_of(make, 250)))).accepted == 50
    assert ingest(ring, written(path, log_of(make, 250))).accepted == 0
    assert (
        ingest(ring, written(path, log_of(make, 120))).accepted == 0
    )  # the plain file, shorter than its packed twin
    assert records_of(ring) == split_log(log_of(make, 250), make)


@pytest.mark.parametrize(
    "banner", [b"start\n", b"server starts, no time\n" * 400], ids=["line", "9000 bytes"]
)
def test_a_new_log_that_begins_like_the_rotated_one_loses_nothing(
    tmp_path: Path, ring: Ring, banner: bytes
) -> None:
    first = banner + log_of(text_line, 300, run="first")
    second = banner + log_of(text_line, 500, 300, run="second")
    path = written(tmp_path / "app.log", first)
    ingest(ring, path)
    path.rename(tmp_path / "app.log.1")
    written(path, second)
    assert ingest(ring, [tmp_path / "app.log.1", path]).accepted == 200 + banner.count(b"\n")
    found = Counter(line for record in records_of(ring) for line in record.split(b"\n"))
    assert found == Counter((first + second).rstrip(b"\n").split(b"\n"))
    assert ingest(ring, [path, tmp_path / "app.log.1"]).accepted == 0


def test_copytruncate_loses_nothing_and_adds_nothing_twice(tmp_path: Path, ring: Ring) -> None:
    path = written(tmp_path / "app.log", log_of(text_line, 100))
    ingest(ring, path)
    written(tmp_path / "app.log.1", path.read_bytes())
    for stop in (0, 3, 40):
        written(path, log_of(text_line, 200 + stop, 200))
        ingest(ring, [path, tmp_path / "app.log.1"])
    assert records_of(ring) == split_log(log_of(text_line, 100) + log_of(text_line, 240, 200), text_line)


def test_standard_input_and_files_know_each_other(ring: Ring) -> None:
    data = log_of(text_line, 500)
    assert len(loaded(ring, data, "app.log")) == 500
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        with os.fdopen(write, "wb") as file:
            file.write(data[:20_000])
        assert ingest(ring, pipe).accepted == 0


def test_line_ends_and_marks_are_bytes_but_the_encoding_of_utf16_is_not(ring: Ring) -> None:
    data = log_of(text_line, 50)
    assert len(loaded(ring, data)) == 50
    assert loaded(ring, ("\ufeff" + data.decode()).encode("utf-16-le")) == []
    for other in (data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data):
        assert len(loaded(ring, other)) == 50
        assert loaded(ring, other) == []
        assert loaded(ring, other[: len(other) // 2]) == []


def test_of_two_files_in_one_the_second_is_added_again(ring: Ring) -> None:
    first, second = log_of(text_line, 50), log_of(text_line, 90, 50)
    assert len(loaded(ring, first)) + len(loaded(ring, second)) == 90
    assert loaded(ring, first + second) == split_log(second, text_line)
    assert loaded(ring, first + second) == []
    assert loaded(ring, first) == [] and loaded(ring, second) == []


def test_again_adds_all_again_and_what_follows_is_known_all_the_same(ring: Ring) -> None:
    data = log_of(json_line, 20)
    assert len(loaded(ring, data)) == 20
    for _ in range(20):
        assert ingest(ring, io.BytesIO(data), options=IngestOptions(again=True)).accepted == 20
    assert loaded(ring, data) == []
    assert loaded(ring, data[:300]) == []


@given(st.data())
@examples(25)
def test_any_history_of_a_log_keeps_each_line_once(data: st.DataObject) -> None:
    """Loads of beginnings, growth, packed copies and rotations in any order, beside a model: a set of lines."""
    from tempfile import TemporaryDirectory

    make = data.draw(st.sampled_from(TIMED_KINDS))
    with TemporaryDirectory() as folder, Ring.open(Path(folder) / "ring", decoder=Decoder()) as ring:
        expected: set[bytes] = set()
        for _ in range(data.draw(st.integers(1, 8))):
            run = data.draw(st.sampled_from("ab"))
            n = data.draw(st.integers(1, 60))
            shared = data.draw(st.integers(0, 3)) * 10
            log = log_of(make, min(n, shared)) + log_of(make, n, min(n, shared), run=f"{run}{shared}")
            pack = data.draw(st.sampled_from([bytes, *PACKERS.values()]))
            loaded(ring, pack(log), data.draw(st.sampled_from(["app.log", "other.log"])))
            expected |= set(split_log(log, make))
            if data.draw(st.booleans()):
                ring.flush()
        assert sorted(records_of(ring)) == sorted(expected)
