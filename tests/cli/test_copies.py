"""`backup`, `restore` and `--wait`, as people meet them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import treering as tr
from tests.kernel import REPOSITORY
from treering.cli.copies import report_object
from treering.cli.main import VERBS
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout
from treering.storage.locking import AT_ONCE, Patience, lock_for_writing

Call = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    with tr.open(tmp_path / "ring") as store:
        store.append([{"ts": 1_777_593_600_000 + n, "id": n, "tenant": "ab"[n % 2]} for n in range(20)])
        store.flush()
        store.append([{"ts": 1_777_593_700_000, "id": 20, "tenant": "a"}])
    return tmp_path / "ring"


def ids(path: Path) -> list[int]:
    with tr.open(path, "r") as store:
        return sorted(row["id"] for row in store.query("fields id"))


def test_a_backup_is_made_and_restored(call: Call, ring: Path, tmp_path: Path) -> None:
    done = call("-s", str(ring), "backup", "copy", "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["events"] == 21 and report["files_copied"] > 5 and report["bytes_present"] == 0
    assert report["path"] == str(tmp_path / "copy")
    assert b"21 events" in done.stderr
    again = json.loads(call("-s", "ring", "backup", "copy", "--verify", "--json").stdout)
    assert again["files_copied"] == again["files_mended"] == again["bytes_copied"] == 0
    assert again["bytes_present"] > 1000
    done = call("-q", "restore", "copy", "again")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert ids(tmp_path / "copy") == ids(tmp_path / "again") == list(range(21))


def test_the_report_of_the_library_is_that_of_the_command_line(ring: Path, tmp_path: Path) -> None:
    with tr.open(ring) as store:
        steps: list[tuple[str, int, int | None]] = []
        report = store.backup(
            tmp_path / "copy", progress=lambda step: steps.append((step.stage, step.done, step.total))
        )
    names = "path files_copied bytes_copied bytes_present files_mended events version seconds"
    assert list(report_object(report)) == names.split()
    assert {stage for stage, _, _ in steps} == {"copy"}
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert steps[-1][1] == steps[-1][2]
    restored = tr.restore(tmp_path / "copy", tmp_path / "again")
    assert (restored.events, restored.version) == (report.events, report.version)


def test_what_was_erased_goes_out_of_the_backup(ring: Path, tmp_path: Path) -> None:
    with tr.open(ring) as store:
        store.backup(tmp_path / "copy")
        store.delete('tenant = "a"')
        assert ids(tmp_path / "copy") == list(range(21))
        report = store.backup(tmp_path / "copy")
    left = [n for n in range(20) if n % 2]
    assert ids(tmp_path / "copy") == ids(ring) == left
    assert report.events == len(left)


@pytest.mark.parametrize("target", ["letters", "other", "ring", "ring/below"])
def test_a_wrong_place_is_refused_in_one_line(call: Call, ring: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear").touch()
    tr.open(tmp_path / "other").close()
    done = call("-s", str(ring), "backup", target)
    assert done.returncode in (2, 4)
    assert done.stderr.startswith(b"error: ") and done.stderr.count(b"\n") == 1
    assert b"directory" in done.stderr


def test_a_damaged_store_is_neither_backed_up_nor_restored(call: Call, ring: Path, tmp_path: Path) -> None:
    victim = next((ring / "seg").rglob("hot.arrow"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    for arguments in (("-s", "ring", "backup", "copy"), ("restore", "ring", "new")):
        done = call(*arguments)
        assert done.returncode == 4
        assert bytes(victim) in done.stderr and done.stderr.count(b"\n") == 1
    assert call("-s", "copy", "stats").returncode == 4
    assert b"was not finished; run it again" in call("-s", "new", "stats").stderr


def test_a_second_writer_is_told_who_writes_and_waits_if_asked(
    call: Call, ring: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"ts": 1777593600000, "id": 21}\n')
    command = ("-s", str(ring), "ingest", "--no-embed", "rows.jsonl")
    store = tr.open(ring)
    done = call(*command)
    assert done.returncode == 4
    assert b"process %d writes to it" % os.getpid() in done.stderr and b"--wait SECONDS" in done.stderr
    done = call(*command, "--wait", "0.02")
    assert done.returncode == 4 and b"also after 0.02 s" in done.stderr
    timer = threading.Timer(0.05, store.close)
    timer.start()
    done = call(*command, "--wait", "60")
    timer.join()
    assert done.returncode == 0
    assert ids(ring) == list(range(22))


WRITING = (
    ("ingest", "--no-embed", "-"),
    ("embed",),
    ("reembed", "--abort"),
    ("reembed", "--model", "some-model"),
    ("compact",),
    ("delete", "--yes", "id = 1"),
    ("expire", "--older-than", "1d"),
    ("expire", "--yes", "id = 1"),
    ("check", "--repair"),
    ("check", "--salvage", "--yes"),
)
COPYING = ("backup", "restore")
READING = {
    "query",
    "explain",
    "export",
    "sql",
    "fields",
    "stats",
    "rejects",
    "audit",
    "demo",
    "completion",
    "config",
}


def test_waiting_can_be_asked_of_every_verb_that_writes(call: Call, ring: Path) -> None:
    assert {verb[0] for verb in WRITING} | {*COPYING} == VERBS.keys() - READING
    with tr.open(ring):
        for verb in WRITING:
            done = call("-s", str(ring), *verb, "--wait", "0.01")
            assert done.returncode == 4 and b"also after 0.01 s" in done.stderr, verb
    for name in {*(verb[0] for verb in WRITING), *COPYING}:
        assert b"'--wait': -1.0 is not in the range x>=0" in call(name, "--wait", "-1").stderr, name
    for name in READING - {"config"}:
        assert b"No such option '--wait'" in call(name, "--wait", "1").stderr, name


def test_a_copy_waits_for_another_that_writes_to_the_same_place(call: Call, ring: Path) -> None:
    # A lock that a copy took and nothing else yet is how one begins.
    for verb in (("-s", "ring", "backup", "copy"), ("restore", "ring", "copy")):
        (ring.parent / "copy").mkdir()
        lock = lock_for_writing(OS_FILES, Layout(ring.parent / "copy"), AT_ONCE)
        done = call(*verb, "--wait", "0.01")
        assert done.returncode == 4 and b"also after 0.01 s" in done.stderr
        timer = threading.Timer(0.05, lock.release)
        timer.start()
        done = call(*verb, "--wait", "60")
        timer.join()
        assert done.returncode == 0, done.stderr
        assert ids(ring.parent / "copy") == ids(ring)
        shutil.rmtree(ring.parent / "copy")


def test_a_restore_that_waited_for_another_finds_a_store_there(
    ring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    lock = lock_for_writing(OS_FILES, Layout(tmp_path / "new"), AT_ONCE)

    def other_ends(pause_s: float) -> None:
        lock.release()
        tr.restore(ring, tmp_path / "new")

    monkeypatch.setattr("treering.query.opening.Patience", lambda wait_s: Patience(wait_s, sleep=other_ends))
    with pytest.raises(tr.StoreError, match="there is a store already"):
        tr.restore(ring, tmp_path / "new", wait_s=60)
    assert ids(tmp_path / "new") == ids(ring)


def test_a_compaction_in_another_process_is_told_who_writes(treering: Call, ring: Path) -> None:
    with tr.open(ring, compacts=False) as store:
        for n in range(21, 24):
            store.append([{"ts": 1777593600000 + n, "id": n}])
            store.flush()
        done = treering("-s", str(ring), "compact", "--wait", "0.01")
        assert done.returncode == 4 and b"also after 0.01 s" in done.stderr
    done = treering("-s", str(ring), "compact", "--wait", "60")
    assert done.returncode == 0 and done.stdout.startswith(b"segments 5 -> 2, ")
    assert ids(ring) == list(range(24))


def test_open_waits_as_long_as_it_is_told(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(wait_s: float) -> Patience:
        asked.append(wait_s)
        return Patience(wait_s, lambda: 0.0 if len(pauses) < 3 else 99.0, pauses.append)

    pauses: list[float] = []
    monkeypatch.setattr("treering.query.opening.Patience", note)
    with tr.open(ring) as store:
        with pytest.raises(tr.StoreError, match="also after 7 s"):
            tr.open(ring, wait_s=7.0)
        assert len(store.query("fields id")) == 21
    assert asked == [0.0, 7.0]
    assert len(pauses) == 3
    with pytest.raises(tr.ConfigError, match="give 0 or more"):
        Patience(-1.0)


def test_a_backup_beside_a_process_that_writes(ring: Path, tmp_path: Path) -> None:
    program = (
        "import sys, treering as tr\n"
        "with tr.open(sys.argv[1]) as store:\n"
        "    print('open', flush=True)\n"
        "    for n in range(21, 10**6):\n"
        "        store.append([{'ts': 1777593600000 + n, 'id': n, 'tenant': 'c'}])\n"
        "        if n % 40 == 0:\n"
        "            store.flush()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(ring)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = 21
        for _ in range(5):
            with tr.open(ring, "r") as store:
                report = store.backup(tmp_path / "copy")
            assert ids(tmp_path / "copy") == list(range(report.events))
            assert report.events >= seen
            seen = report.events
        process.kill()
