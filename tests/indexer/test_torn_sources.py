"""Sources that are rotated, torn or grow while they are read lose nothing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.indexer.made_logs import LINE_KINDS, json_line, log_of, records_of, split_log, text_line, written
from treering.indexer import recognition
from treering.indexer.fingerprints import known_by
from treering.indexer.ingest import ingest
from treering.indexer.lines import RawRows
from treering.indexer.utf8 import count_invalid
from treering.storage.batch import Source
from treering.storage.ring import Ring


def test_a_name_that_becomes_another_file_while_it_is_read_loses_nothing(
    tmp_path: Path, ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "app.log", log_of(json_line, 3000))
    ingest(ring, path)
    new, compare = log_of(json_line, 5000, run="new"), known_by

    def rotated(*args: Any) -> Any:
        path.rename(tmp_path / "app.log.1")
        written(path, new)
        monkeypatch.setattr(recognition, "known_by", compare)
        return compare(*args)

    monkeypatch.setattr(recognition, "known_by", rotated)
    ingest(ring, path)  # it was opened under the name before the rotation
    ingest(ring, [path, tmp_path / "app.log.1"])
    assert records_of(ring) == (log_of(json_line, 3000) + new).splitlines()


@pytest.mark.parametrize("make", LINE_KINDS.values(), ids=LINE_KINDS)
def test_a_log_that_another_process_writes_in_torn_pieces_comes_in_whole(
    tmp_path: Path, ring: Ring, make: Callable[..., bytes]
) -> None:
    data, path = log_of(make, 4000), tmp_path / "app.log"
    source = written(tmp_path / "source", data)
    writer = subprocess.Popen([sys.executable, "-c", _WRITE_TORN, str(source), str(path)])
    while writer.poll() is None:
        if path.exists():
            ingest(ring, path)
    ingest(ring, path)
    assert writer.returncode == 0 and path.read_bytes() == data
    lines = Counter(line for record in records_of(ring) for line in record.split(b"\n"))
    whole = set(data.splitlines())
    assert {line for line in lines if line in whole} == whole
    assert all(n == 1 for line, n in lines.items() if line in whole and line != b"  more")
    torn = [line for line in lines if line not in whole]
    assert all(any(line.startswith(part) for line in whole) for part in torn)
    assert make is text_line or not torn
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
    path = written(tmp_path / "app.log", whole[:-10])
    assert ingest(ring, path).accepted == 2
    assert ingest(ring, path).accepted == 0
    for _ in range(2):
        ingest(ring, written(path, whole))
    written(path, whole + log_of(text_line, 3))
    for _ in range(2):
        ingest(ring, path)
    assert records_of(ring) == [
        b"2026-05-01 00:00:00 INFO one",
        b"2026-05-01 00:00:01 INFO two",
        b"2026-05-01 00:00:01 INFO two and more",
        *split_log(log_of(text_line, 3), text_line),
    ]
    assert ingest(ring, written(path, whole)).accepted == 0


def test_a_last_line_that_only_gets_its_line_feed_adds_nothing(tmp_path: Path, ring: Ring) -> None:
    for end in (b"\n", b"\r\n"):
        path = written(tmp_path / "app.log", end.join(log_of(text_line, 3).splitlines()))
        assert ingest(ring, path).accepted == 3
        with path.open("ab") as file:
            file.write(end)
        assert ingest(ring, path).accepted == 0


def test_a_traceback_that_goes_on_in_the_next_load_is_there_line_by_line(tmp_path: Path, ring: Ring) -> None:
    head = log_of(text_line, 1) + b"2026-05-01 00:00:09 ERROR failed\nTraceback (most recent call last):\n"
    rest = b'  File "a.py", line 1, in f\nValueError: x\n'
    path = written(tmp_path / "app.log", head)
    ingest(ring, path)
    ingest(ring, written(path, head + rest))
    lines = [line for record in records_of(ring) for line in record.split(b"\n")]
    assert lines == (head + rest).splitlines()


def test_a_file_of_utf16_that_was_cut_within_a_character_goes_on(tmp_path: Path, ring: Ring) -> None:
    packed = ("\ufeff" + log_of(text_line, 9).decode()).encode("utf-16-le")
    report = ingest(ring, written(tmp_path / "app.log", packed[:-31]))
    assert any("UTF-16" in warning for warning in report.warnings)
    ingest(ring, written(tmp_path / "app.log", packed))
    whole = split_log(log_of(text_line, 9), text_line)
    assert [record for record in records_of(ring) if record in whole] == whole


def test_records_that_are_no_utf8_are_counted_and_keep_their_bytes(tmp_path: Path, ring: Ring) -> None:
    bad = [b'{"a":"\xff"}', b'{"a":"\xe4\xbd"}', b'{"\x80":1}']
    report = ingest(
        ring, written(tmp_path / "x.jsonl", b"\n".join([b'{"a":"\xe4\xbd\xa0"}', *bad, b'{"a":1}']))
    )
    assert [w.partition(": ")[2] for w in report.warnings if "UTF-8" in w] == [
        "3 records with invalid UTF-8: shown as U+FFFD, the bytes are kept"
    ]
    assert records_of(ring)[1:4] == bad


def test_halves_of_a_character_in_two_records_are_no_whole_one() -> None:
    rows = RawRows()
    for record in (b"a\xe4\xbd", b"\xa0b", b""):
        rows.add(record, 0, 0, 0, 1)
    assert count_invalid(rows.to_raw(Source("a", "text", {}))) == 2
