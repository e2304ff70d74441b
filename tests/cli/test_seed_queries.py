"""The questions that treering was asked for first, as they stand, from the command line and from Python alike."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import treering as tr

JSON_FORM = (
    '{"filter":{"hallucination_rate":{">":0.3}},"sort":[{"attention_collapse_score":"desc"}],"limit":10}'
)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [
        {
            "id": i,
            "ts": f"2026-05-01T08:{i // 60:02d}:{i % 60:02d}Z",
            "hallucination_rate": rng.choice([None, 0.3, round(rng.random(), 2)]),
            "attention_collapse_score": rng.choice([None, round(rng.random(), 1)]),
        }
        for i in range(500)
    ]


@pytest.fixture(scope="module")
def ring(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seed") / "ring"
    with tr.open(path) as store:
        store.ingest(rows, embed=False)
    return path


def ask(ring: Path, *words: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "treering", "-s", str(ring), "query", *words], capture_output=True, check=True
    )
    return [json.loads(line) for line in done.stdout.decode().split("\n") if line]


def by_collapse(rows: list[dict[str, Any]]) -> list[int]:
    """Most collapsed first, the older first among equals; a missing value comes last."""
    order = sorted(
        rows,
        key=lambda r: (r["attention_collapse_score"] is None, -(r["attention_collapse_score"] or 0), r["id"]),
    )
    return [r["id"] for r in order]


def test_hallucination_over_a_bound(ring: Path, rows: list[dict[str, Any]]) -> None:
    want = [r["id"] for r in rows if (r["hallucination_rate"] or 0) > 0.3]
    assert [r["id"] for r in ask(ring, "hallucination > 0.3")] == want
    with tr.open(ring, "r") as store:
        assert [r["id"] for r in store.query("hallucination > 0.3")] == want
        assert [r["id"] for r in store.query(tr.where(tr.col("hallucination") > 0.3))] == want


def test_the_most_collapsed(ring: Path, rows: list[dict[str, Any]]) -> None:
    want = by_collapse([r for r in rows if r["attention_collapse_score"] is not None])[:10]
    assert [r["id"] for r in ask(ring, "top-k attention-collapse")] == want
    with tr.open(ring, "r") as store:
        assert [r["id"] for r in store.query("top-k attention-collapse")] == want


def test_the_json_form(ring: Path, rows: list[dict[str, Any]]) -> None:
    want = by_collapse([r for r in rows if (r["hallucination_rate"] or 0) > 0.3])[:10]
    assert [r["id"] for r in ask(ring, "--json-query", JSON_FORM)] == want
    with tr.open(ring, "r") as store:
        assert [r["id"] for r in store.query(json.loads(JSON_FORM))] == want
