"""Damaged stores on the command line, in a bucket and in directories: every message leads somewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Done
from tests.storage.small_s3 import SmallS3, small_s3

Call = Callable[..., Done]

STORE = "s3://bucket/store"


@pytest.fixture(autouse=True)
def lines(tmp_path: Path) -> None:
    """Forty events of two times that lie so far apart that each is a segment of its own."""
    rows = [
        {"ts": f"20{26 + 40 * (n % 2)}-05-01T00:00:{n:02}Z", "msg": f"line {n} of some", "n": n}
        for n in range(40)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: Call) -> Iterator[SmallS3]:
    """A store in a bucket."""
    with small_s3() as server:
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TREERING_S3_ENDPOINT", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("TREERING_CACHE", str(tmp_path / "cache"))
        assert call("-s", STORE, "ingest", "--no-embed", "-q", "a.jsonl").returncode == 0
        yield server


def harm(server: SmallS3, ending: str) -> str:
    """Flip a bit of the first object with such a key."""
    key = min(key for key in server.objects if key.endswith(ending))
    data = bytearray(server.objects[key])
    data[len(data) // 2] ^= 1
    server.objects[key] = bytes(data)
    return key


def numbers(done: Done) -> list[int]:
    return sorted(json.loads(line)["n"] for line in done.stdout.splitlines())


def test_what_a_damaged_object_does_not_reach_is_answered(server: SmallS3, call: Call) -> None:
    key = harm(server, "text.arrow")
    done = call("-s", STORE, "query", "fields n, record")
    assert done.returncode == 4
    assert key.encode() in done.stderr and b"20 events of segment" in done.stderr
    done = call("-s", STORE, "query", "--skip-damaged", "fields n, record")
    assert numbers(done) in (list(range(0, 40, 2)), list(range(1, 40, 2)))
    assert b"20 events from 20" in done.stderr and b"are out of reach" in done.stderr


def test_a_damaged_store_in_a_bucket_is_salvaged_in_a_directory(server: SmallS3, call: Call) -> None:
    harm(server, "text.arrow")
    assert call("restore", STORE, "ring").returncode == 4
    done = call("-s", STORE, "check", "--salvage", "--yes")
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert (
        b"`treering restore --damaged s3://bucket/store DIR`, then `treering -s DIR check --salvage`"
        in done.stderr
    )
    shutil.rmtree("ring", ignore_errors=True)
    done = call("restore", "--damaged", STORE, "ring", "--json")
    assert done.returncode == 0 and b"keep what is left of it: treering -s " in done.stderr
    report = json.loads(done.stdout)
    assert list(report) == ["path", "files_copied", "bytes_copied", "bytes_lost", "left_out", "seconds"]
    assert (report["bytes_lost"], report["left_out"]) == (0, [])
    assert call("-s", "ring", "check").returncode in (0, 4)
    done = call("-s", "ring", "check", "--salvage", "--yes")
    assert done.returncode == 0 and b"lost  seg/" in done.stdout
    assert numbers(call("-s", "ring", "query", "fields n")) == list(range(40))


def test_a_copy_that_was_not_finished_is_finished_and_not_salvaged(call: Call, tmp_path: Path) -> None:
    call("ingest", "--no-embed", "-q", "a.jsonl")
    call("backup", "copy")
    shutil.rmtree(tmp_path / "copy" / "_manifest")
    told = b"a backup or restore that was not finished; run it again\n"
    for args in (("check",), ("check", "--repair"), ("check", "--salvage", "--yes"), ("stats",)):
        done = call("-s", "copy", *args)
        assert done.returncode == 4 and done.stderr.endswith(told) and done.stderr.count(b"\n") == 1
    assert call("backup", "copy").returncode == 0
    assert numbers(call("-s", "copy", "query", "fields n")) == list(range(40))


def test_a_damaged_backup_says_how_it_is_mended(call: Call, tmp_path: Path) -> None:
    call("ingest", "--no-embed", "-q", "a.jsonl")
    call("backup", "copy")
    victim = next((tmp_path / "copy" / "_manifest").iterdir())
    victim.write_bytes(victim.read_bytes()[:-9])
    done = call("backup", "copy")
    assert done.returncode == 4 and done.stderr.count(b"\n") == 1
    assert bytes(victim) in done.stderr and b"`treering backup --verify` brings that anew" in done.stderr
    done = call("backup", "--verify", "copy")
    assert done.returncode == 0 and b", 1 of them anew" in done.stderr
    assert call("-s", "copy", "check", "--deep").returncode == 0
    (tmp_path / "copy" / "backup.json").unlink()
    victim.write_bytes(victim.read_bytes()[:-9])
    done = call("backup", "--verify", "copy")
    assert done.returncode == 4 and done.stderr.endswith(b"give an empty or a new directory\n")
    assert done.stderr.count(b"\n") == 1


def test_an_erasure_that_is_not_finished_is_told_in_the_last_lines(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("ingest", "--no-embed", "-q", "a.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("treering.storage.cleaner.Cleaner.clean", lambda self: ({}, ()))
        call("delete", "--yes", "--no-embed", "n = 7")
    done = call("check")
    told = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert told[0].startswith("unfinished  seg/") and "del-0000.arrow: an erasure is not finished" in told[0]
    assert told[-2].endswith("all is right, an erasure is not finished in 1 segment")
    assert call("check", "--repair").returncode == 0
    assert call("check").stdout.decode().splitlines()[0].endswith("all is right")
