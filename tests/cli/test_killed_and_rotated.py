"""Loads of a rotating log that are killed: each line is stored once, whatever the files were called meanwhile."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import treering as tr

KILLS = 5
BANNER = '{"ts":1777593600000,"id":-1,"message":"server starts"}\n'


def lines(start: int, stop: int) -> Iterator[str]:
    for n in range(start, stop):
        yield json.dumps({"ts": 1_777_593_600_000 + n, "id": n, "message": f"request {n} done"}) + "\n"


def log_bytes(ring: Path) -> int:
    n_bytes = 0
    for file in (ring / "wal").glob("*.wal"):
        with suppress(FileNotFoundError):  # a flush took it away
            n_bytes += file.stat().st_size
    return n_bytes


def kill_at(size: int, command: list[str], ring: Path) -> None:
    """Start a load and kill it once its log has this many bytes, or when it has ended by itself."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and log_bytes(ring) < size:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()


def rotate(folder: Path) -> None:
    for n in (2, 1):
        if (folder / f"app.log.{n}").exists():
            (folder / f"app.log.{n}").rename(folder / f"app.log.{n + 1}")
    (folder / "app.log").rename(folder / "app.log.1")


def ids(ring: Path) -> list[int]:
    if not (ring / "_manifest").is_dir():
        return []
    with tr.open(ring, "r") as store:
        return sorted(row["id"] for row in store.query("id >= 0 fields id"))


@pytest.mark.parametrize("seed", [5])
def test_killed_loads_of_a_rotating_log_keep_each_line_once(tmp_path: Path, seed: int) -> None:
    rng, folder, ring = random.Random(seed), tmp_path / "logs", tmp_path / "ring"
    folder.mkdir()
    command = [sys.executable, "-m", "treering", "-s", str(ring), "ingest", "--no-embed", str(folder)]
    written, seen = 0, 0
    for turn in range(KILLS):
        if turn in (2, 3):
            rotate(folder)
        stop = written + rng.randrange(3000, 9000)
        with (folder / "app.log").open("a", encoding="utf-8") as file:
            file.writelines([BANNER] if file.tell() == 0 else [])
            file.writelines(lines(written, stop))
        written = stop
        kill_at(log_bytes(ring) + rng.randrange(1, 1_500_000), command, ring)
        found = ids(ring)
        assert len(found) == len(set(found)) >= seen
        seen = len(found)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert ids(ring) == list(range(written))
    done = subprocess.run([*command, "--json"], check=True, capture_output=True)
    assert json.loads(done.stdout)["accepted"] == 0
