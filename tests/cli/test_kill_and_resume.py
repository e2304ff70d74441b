"""An ingest that is killed: the store opens, and loading the file again adds just what is missing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import treering as tr

ROWS = 20_000
KILLS = 4


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


def test_a_killed_load_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file, ring = tmp_path / "rows.jsonl", tmp_path / "ring"
    rows = ({"id": i, "ts": 1_777_593_600_000 + i, "message": f"request {i} done"} for i in range(ROWS))
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    command = [sys.executable, "-m", "treering", "-s", str(ring), "ingest", "--no-embed", str(file)]
    rng = random.Random(7)
    seen = 0
    for _ in range(KILLS):
        kill_at(log_bytes(ring) + rng.randrange(1, file.stat().st_size), command, ring)
        if (ring / "_manifest").is_dir():
            with tr.open(ring) as store:
                ids = [row["id"] for row in store.query("fields id")]
            assert sorted(ids) == list(range(len(ids)))
            assert len(ids) >= seen
            seen = len(ids)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with tr.open(ring, "r") as store:
        assert sorted(row["id"] for row in store.query("fields id")) == list(range(ROWS))
