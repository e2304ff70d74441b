"""`treering compact`, and what `stats` says of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treering.storage.fold import FAN_IN

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def write_log(path: Path, start: int, n: int = 30) -> str:
    lines = [
        json.dumps({"timestamp": f"2026-03-17T10:{i // 60:02d}:{i % 60:02d}Z", "message": f"hello {i % 5}"})
        for i in range(start, start + n)
    ]
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return str(path)


@pytest.fixture
def stats(call: Run) -> Callable[[], dict[str, Any]]:
    def ask() -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(call("stats", "--json").stdout)
        return facts

    return ask


def test_it_says_what_it_did_and_what_waits(
    call: Run, tmp_path: Path, stats: Callable[[], dict[str, Any]]
) -> None:
    for k in range(3):
        assert call("ingest", "--no-embed", write_log(tmp_path / f"{k}.jsonl", 30 * k)).returncode == 0
    done = call("compact")
    assert done.returncode == 0
    said = done.stdout.decode()
    assert said.startswith("segments 3 -> 1, bytes ")
    assert "90 rows in" in said
    assert "segments that wait for vectors: 1" in done.stderr.decode()
    assert "treering embed" in done.stderr.decode()
    after = stats()
    assert (after["segments"], after["segments_pending"], after["rows"]) == (1, 1, 90)
    assert after["written"]["compact"] > 0
    assert after["write_amplification"] > 1


def test_its_json_has_all_the_figures(call: Run, tmp_path: Path) -> None:
    for k in range(2):
        call("ingest", "--no-embed", write_log(tmp_path / f"{k}.jsonl", 30 * k))
    report = json.loads(call("compact", "--json", "-q").stdout)
    names = ("segments_before", "segments_after", "bytes_before", "bytes_after", "rows", "made", "waiting")
    assert set(report) == {*names, "held", "seconds"}
    assert [report[name] for name in ("segments_before", "segments_after", "rows")] == [2, 1, 60]
    assert json.loads(call("compact", "--json", "-q").stdout)["made"] == 0


def test_loads_without_vectors_do_not_pile_up(
    call: Run, tmp_path: Path, stats: Callable[[], dict[str, Any]]
) -> None:
    for k in range(2 * FAN_IN + 1):
        assert call("ingest", "--no-embed", write_log(tmp_path / f"{k}.jsonl", 30 * k)).returncode == 0
    assert stats()["segments"] < FAN_IN
    assert stats()["rows"] == 30 * (2 * FAN_IN + 1)


def test_a_damaged_segment_is_named_and_the_rest_is_joined(
    call: Run, tmp_path: Path, stats: Callable[[], dict[str, Any]]
) -> None:
    for k in range(3):
        call("ingest", "--no-embed", write_log(tmp_path / f"{k}.jsonl", 30 * k))
    file = sorted((tmp_path / ".treering" / "seg").iterdir())[1] / "text.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    done = call("compact")
    assert done.returncode == 4
    assert file.parent.name in done.stderr.decode()
    assert stats()["segments"] == 2
