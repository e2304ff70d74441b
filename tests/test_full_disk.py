"""The kernel says no: full disks, limits, too many open files. One line says why, and nothing acknowledged is lost.

The limits are real ones of a process or of a mount that only it sees; `tests/storage/test_faults.py` fails every
call one by one.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from tests.kernel import REPOSITORY, run
from tests.storage.faults import Fault, FaultyFiles
from tests.storage.records import decode, raw_batch, stored_numbers
from treering.storage.advice import explained
from treering.storage.ring import Ring

LIFE = """
import json, os, resource, subprocess, sys
import treering as tr

ROWS = 50

class Life:
    \"\"\"Appends numbered rows and flushes now and then, until the kernel says no; keeps what was acknowledged.\"\"\"

    def __init__(self, path):
        self.path, self.acknowledged, self.attempted, self.said = path, 0, 0, []
        self.store = tr.open(path)

    def warm(self, path):
        with tr.open(path) as store:
            store.append(self.rows(0))
            store.flush()
            assert len(store.query("fields id")) == ROWS
            store.stats()

    def rows(self, first):
        numbers = range(first, first + ROWS)
        return [{"ts": 1_777_593_600_000 + n, "id": n, "text": f"row {n} " + "x" * 200} for n in numbers]

    def go_on(self, n_steps):
        for step in range(n_steps):
            first = self.acknowledged
            self.attempted = first + ROWS
            self.store.append(self.rows(first))
            self.acknowledged = first + ROWS
            if step % 3 == 2:
                self.store.flush()

    def try_to_flush(self):
        return self.try_to(self.store.flush)

    def try_to_go_on(self, n_steps):
        return self.try_to(lambda: self.go_on(n_steps))

    def try_to(self, act):
        try:
            act()
        except tr.StoreError as error:
            self.said.append(str(error))
            return False
        return True

    def reopen(self):
        \"\"\"Open it again as a process would that was started anew, and look whether all is there.\"\"\"
        try:
            self.store.close()
        except tr.StoreError as error:
            self.said.append(str(error))
        self.store = tr.open(self.path)
        self.check()

    def check(self):
        ids = sorted(row["id"] for row in self.store.query("fields id"))
        assert ids == list(range(len(ids))), ids
        assert self.acknowledged <= len(ids) <= self.attempted, (self.acknowledged, len(ids), self.attempted)
        self.acknowledged = self.attempted = len(ids)
"""


def told_by(program: str, *arguments: Path, mounts: str | None = None) -> Any:
    """Run a program that lives a life, and give the JSON that it printed."""
    return json.loads(run(LIFE + program, *arguments, mounts=mounts).stdout)


def rows_in(path: Path) -> list[int]:
    with tr.open(path, "r") as store:
        return sorted(row["id"] for row in store.query("fields id"))


def check_said(lines: list[str], *words: str) -> None:
    assert lines
    for line in lines:
        assert "\n" not in line
        assert all(word in line for word in words), line


def test_too_many_open_files(tmp_path: Path) -> None:
    program = """
life = Life(sys.argv[1])
life.warm(sys.argv[2])
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
n_refused = 0
for spare in range(6):
    free = [fd for fd in range(200) if not os.path.exists(f"/proc/self/fd/{fd}")]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], hard))
    n_refused += not life.try_to_go_on(4)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    life.reopen()
print(json.dumps({"said": life.said, "refused": n_refused, "rows": life.acknowledged}))
life.store.close()
"""
    told = told_by(program, tmp_path / "ring", tmp_path / "other")
    check_said(told["said"], "Too many open files", "ulimit -n")
    assert 0 < told["refused"] < 6
    assert rows_in(tmp_path / "ring") == list(range(told["rows"]))


def test_a_limit_on_the_size_of_files_at_any_size(tmp_path: Path) -> None:
    program = """
life = Life(sys.argv[1])
life.warm(sys.argv[2])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
n_refused = 0
for limit in (0, 1, 23, 24, 100, 600, 1000, 3000, 5000, 8000, 12000, 20000, 30000, 60000, 100000):
    life.go_on(2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    n_refused += not life.try_to_flush()
    if not life.store._ring.is_stopped:
        life.try_to_go_on(4)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    life.check() if not life.store._ring.is_stopped else life.reopen()
    life.reopen()
print(json.dumps({"said": life.said, "refused": n_refused, "rows": life.acknowledged}))
life.store.close()
"""
    told = told_by(program, tmp_path / "ring", tmp_path / "other")
    check_said(told["said"], "File too large", "ulimit -f")
    assert any("append failed" in line for line in told["said"])
    assert any("flush failed" in line for line in told["said"])
    assert 5 < told["refused"] < 15
    assert rows_in(tmp_path / "ring") == list(range(told["rows"]))


def test_a_full_disk(tmp_path: Path) -> None:
    program = """
life = Life(sys.argv[1] + "/ring")
life.warm(sys.argv[2])
rounds = 0
for n_kib in (200, 300, 450, 700, 1000):
    subprocess.run(["mount", "-o", f"remount,size={n_kib}k", sys.argv[1]], check=True)
    while life.try_to_go_on(4):
        pass
    life.check()                    # a full disk is readable
    if not life.store._ring.is_stopped:
        assert not life.try_to_go_on(400)
        life.check()
    n_said = len(life.said)
    try:
        life.store.close()
    except tr.StoreError as error:
        life.said.append(str(error))
    life.store = tr.open(life.path)  # and can be opened while it is full
    life.check()
    rounds += 1
subprocess.run(["mount", "-o", "remount,size=64m", sys.argv[1]], check=True)
life.reopen()
life.go_on(4)
life.check()
print(json.dumps({"said": life.said, "rows": life.acknowledged, "rounds": rounds}))
life.store.close()
with tr.open(life.path, "r") as store:
    assert sorted(row["id"] for row in store.query("fields id")) == list(range(life.acknowledged))
"""
    place = tmp_path / "small"
    place.mkdir()
    told = told_by(program, place, tmp_path / "other", mounts='mount -t tmpfs -o size=150k tmpfs "$1"')
    check_said(told["said"], "No space left on device", "free some space", str(place))
    assert told["rounds"] == 5 and told["rows"] > 500


def test_a_backup_to_a_full_disk_stays_as_it_was_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    program = """
target = sys.argv[1] + "/copy"
life = Life(sys.argv[2])
life.go_on(3)
before = life.store.backup(target)
life.go_on(61)
said = []
for n_kib in (200, 240, 280, 320):
    subprocess.run(["mount", "-o", f"remount,size={n_kib}k", sys.argv[1]], check=True)
    try:
        life.store.backup(target)
        raise SystemExit("the disk is too large for this test")
    except tr.StoreError as error:
        said.append(str(error))
    with tr.open(target, "r") as copy:
        assert len(copy.query("fields id")) == before.events
subprocess.run(["mount", "-o", "remount,size=64m", sys.argv[1]], check=True)
after = life.store.backup(target)
with tr.open(target, "r") as copy:
    assert len(copy.query("fields id")) == after.events == life.acknowledged
print(json.dumps(said))
life.store.close()
"""
    place = tmp_path / "small"
    place.mkdir()
    said = told_by(program, place, tmp_path / "ring", mounts='mount -t tmpfs -o size=200k tmpfs "$1"')
    assert len(said) == 4
    check_said(said, "cannot back up to it", "No space left on device", "free some space")


# -- the command line -------------------------------------------------------------------------------------------------


def log_file(path: Path, n: int) -> Path:
    lines = [
        json.dumps({"ts": 1_777_593_600_000 + i, "id": i, "message": f"request {i} {os.urandom(30).hex()}"})
        for i in range(n)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def ingest(
    ring: Path, log: Path, limit: int | None, value: int, *flags: str
) -> subprocess.CompletedProcess[str]:
    def set_limit() -> None:
        if limit is not None:
            resource.setrlimit(limit, (value, resource.getrlimit(limit)[1]))

    environment = {k: v for k, v in os.environ.items() if not k.startswith("TREERING_")}
    return subprocess.run(
        [sys.executable, "-m", "treering", "-s", str(ring), "ingest", "--no-embed", *flags, str(log)],
        env=environment
        | {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        preexec_fn=set_limit,
        check=False,
    )


@pytest.mark.parametrize(
    ("limit", "values", "words"),
    [
        (resource.RLIMIT_FSIZE, (0, 5_000, 250_000), ("File too large", "ulimit -f")),
        (resource.RLIMIT_NOFILE, (6, 8), ("Too many open files", "ulimit -n")),
    ],
)
def test_the_command_line_ends_with_one_line_and_code_4_and_goes_on_later(
    tmp_path: Path, limit: int, values: tuple[int, ...], words: tuple[str, ...]
) -> None:
    log, ring, n_refused, n_stored = log_file(tmp_path / "app.jsonl", 4_000), tmp_path / "ring", 0, 0
    for value in values:
        done = ingest(ring, log, limit, value)
        assert done.returncode in (0, 4), done.stderr
        if done.returncode == 4:
            n_refused += 1
            told = done.stderr.splitlines()
            check_said(told[-1:], "error: ", *words)
            taken = [line for line in told[:-1] if line.startswith("accepted ")]
            if any((ring / "_manifest").glob("*.json")):
                assert sum(accepted_in(line) for line in taken) == len(rows_in(ring)) - n_stored
                n_stored = len(rows_in(ring))
        if any((ring / "_manifest").glob("*.json")):
            ids = rows_in(ring)
            assert ids == list(range(len(ids)))
    assert n_refused
    assert ingest(ring, log, None, 0).returncode == 0
    assert rows_in(ring) == list(range(4_000))


def accepted_in(line: str) -> int:
    return int(line.removeprefix("accepted ").partition(", rejected ")[0].replace(",", ""))


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_ingest_whose_flush_fails_says_what_is_in_the_store(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    log, ring = log_file(tmp_path / "app.jsonl", 5), tmp_path / "ring"
    done = ingest(ring, log, resource.RLIMIT_FSIZE, 2000, *flags)
    assert done.returncode == 4
    told, error = done.stderr.splitlines()
    assert told == "accepted 5, rejected 0 before it failed; these are in the store"
    check_said(
        [error], "error: ", "flush failed", "events up to number 4 are acknowledged and kept", "ulimit -f"
    )
    assert "nothing was changed" not in error
    if flags:
        summary = json.loads(done.stdout)
        assert (summary["accepted"], summary["rejected"], summary["pending"]) == (5, 0, None)
        assert summary["failed"] in error
    assert rows_in(ring) == list(range(5))
    assert ingest(ring, log, None, 0).returncode == 0
    assert rows_in(ring) == list(range(5))


# -- every error that has advice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "open the store to read"),
        (errno.EACCES, "give yours the rights"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "fs.file-max"),
        (errno.EIO, "the disk fails"),
        (errno.ENODEV, "the device is gone"),
        (errno.ENXIO, "the device is gone"),
        (errno.ESTALE, "mount it again"),
    ],
)
@pytest.mark.parametrize("call", ["write", "sync", "create"])
def test_each_error_of_the_system_says_what_to_do(tmp_path: Path, number: int, words: str, call: str) -> None:
    files = FaultyFiles(tmp_path)
    ring = Ring.open(tmp_path / "ring", decoder=decode, files=files)
    ring.append(raw_batch(range(5)))
    files.fault, files.n_calls = Fault(0, number, is_torn=True, among=(call,)), 0
    with pytest.raises(tr.StoreError) as caught:
        ring.append(raw_batch(range(5, 9)))
        ring.flush()
    said = str(caught.value)
    assert str(tmp_path / "ring") in said and words in said and "\n" not in said
    files.fault = None
    n_known = ring.next_seq
    assert stored_numbers(ring) == list(range(n_known))
    ring.close()
    with Ring.open(tmp_path / "ring", decoder=decode, files=files) as again:
        assert stored_numbers(again)[:n_known] == list(range(n_known))


def test_an_error_without_advice_is_told_as_it_is() -> None:
    assert (
        explained(OSError(errno.EXDEV, "Invalid cross-device link", "/a")) == "Invalid cross-device link (/a)"
    )
    assert explained(OSError("only words")) == "only words"
    assert explained(OSError()) == "OSError"
