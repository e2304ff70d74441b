"""Loads that are killed: the store opens, and the next load adds just what is missing, also of a rotating log."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import treering as tr

BANNER = '{"ts":1777593600000,"id":-1,"message":"server starts"}\n'


def lines(start: int, stop: int) -> Iterator[str]:
    for n in range(start, stop):
        yield json.dumps({"ts": 1_777_593_600_000 + n, "id": n, "message": f"request {n} done"}) + "\n"


class Load:
    """`treering ingest` of one file or folder into one store, in processes of their own."""

    def __init__(self, source: Path, ring: Path) -> None:
        self.ring = ring
        self._command = [
            *(sys.executable, "-m", "treering", "-s", str(ring)),
            *("ingest", "--no-embed", "--json", "-q", str(source)),
        ]

    def finish(self) -> int:
        """Run it to its end and give how many events it accepted."""
        done = subprocess.run(self._command, check=True, capture_output=True)
        return int(json.loads(done.stdout)["accepted"])

    def kill(self, after_bytes: int) -> None:
        """Run it and kill it once its log grew by this much, or when it has ended by itself."""
        size = self._log_bytes() + after_bytes
        process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and self._log_bytes() < size:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()

    def ids(self, mode: Literal["r", "rw"]) -> list[int]:
        """Open the store and give the numbers of its events, sorted."""
        if not (self.ring / "_manifest").is_dir():
            return []
        with tr.open(self.ring, mode) as store:
            return sorted(row["id"] for row in store.query("id >= 0 fields id"))

    def _log_bytes(self) -> int:
        n_bytes = 0
        for file in (self.ring / "wal").glob("*.wal"):
            with suppress(FileNotFoundError):  # a flush took it away
                n_bytes += file.stat().st_size
        return n_bytes


def test_a_killed_load_goes_on_where_it_stopped(tmp_path: Path) -> None:
    rng, n_rows, n_kills = random.Random(7), 20_000, 4
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(lines(0, n_rows)).removesuffix("\n"), encoding="utf-8")
    load, seen = Load(file, tmp_path / "ring"), 0
    for _ in range(n_kills):
        load.kill(rng.randrange(1, file.stat().st_size))
        found = load.ids("rw")
        assert found == list(range(len(found))) and len(found) >= seen
        seen = len(found)
    assert load.finish() == n_rows - seen
    assert load.ids("rw") == list(range(n_rows))


def rotate(folder: Path) -> None:
    for n in (2, 1):
        if (folder / f"app.log.{n}").exists():
            (folder / f"app.log.{n}").rename(folder / f"app.log.{n + 1}")
    (folder / "app.log").rename(folder / "app.log.1")


def test_killed_loads_of_a_rotating_log_keep_each_line_once(tmp_path: Path) -> None:
    rng, n_kills, folder = random.Random(5), 5, tmp_path / "logs"
    folder.mkdir()
    load, written, seen = Load(folder, tmp_path / "ring"), 0, 0
    for turn in range(n_kills):
        if turn in (2, 3):
            rotate(folder)
        stop = written + rng.randrange(3000, 9000)
        with (folder / "app.log").open("a", encoding="utf-8") as file:
            file.writelines([BANNER] if file.tell() == 0 else [])
            file.writelines(lines(written, stop))
        written = stop
        load.kill(rng.randrange(1, 1_500_000))
        found = load.ids("r")
        assert len(found) == len(set(found)) >= seen
        seen = len(found)
    load.finish()
    assert load.ids("r") == list(range(written))
    assert load.finish() == 0
