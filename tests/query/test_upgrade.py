"""A store that an earlier version wrote is read, answered and carried on as if this one had written it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from treering.query.opening import open_store
from treering.query.store import Store

KEPT = Path(__file__).parents[1] / "storage" / "data"
NOW = "2026-04-01T00:00:00Z"

TOLD: dict[str, Any] = json.loads((KEPT / "format-1.json").read_text(encoding="utf-8"))
"""What the version that wrote the store answered."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(KEPT / "format-1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def records(store: Store) -> list[list[Any]]:
    found = []
    with store._ring.snapshot() as snapshot:
        for part in snapshot.parts:
            texts = part.column("record").to_pylist()
            found += [[n, text.decode()] for n, text in zip(part.seq.tolist(), texts, strict=True)]
    return sorted(found)


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON has them, scores to the precision of a vector."""
    return [
        {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
        for row in json.loads(json.dumps(rows, default=str))
    ]


def check(store: Store) -> None:
    assert records(store) == TOLD["records"]
    rejects = [[r.source, r.line, r.offset, r.reason, r.record.decode()] for r in store.rejects()]
    assert rejects == TOLD["rejects"]
    for query, rows in TOLD["answers"].items():
        assert plain(store.query(query, now=NOW).to_list()) == plain(rows), query


@pytest.mark.model
def test_a_store_of_format_1_answers_as_it_did(folder: Path) -> None:
    with open_store(folder / "store", "r") as store:
        check(store)


@pytest.mark.model
def test_a_store_of_format_1_goes_on_in_the_current_format(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(folder / "store") as store:
        monkeypatch.chdir(folder / "sources")
        summary = store.ingest("a.jsonl", "b.jsonl", "c.jsonl", "vllm.log", year=2026, embed=False)
        assert (summary.accepted, summary.rejected) == (0, 0)
        store.append([{"message": "one more", "timestamp": "2020-01-01T00:00:00Z"}])
        store.flush()
        assert store.query("ts < '2021-01-01'", now=NOW).to_list()[0]["message"] == "one more"
    newest = max((folder / "store" / "_manifest").glob("*.json")).read_text()
    assert '"format":2' in newest
    with open_store(folder / "store") as store:
        check_old(store)
        store.embed()
        check_old(store)
        assert store.stats()["pending"] == 0


def check_old(store: Store) -> None:
    assert records(store)[: len(TOLD["records"])] == TOLD["records"]
    for query in ("level >= error", 'tenant_id = "t1" latency_ms > 200', '"连接重置"'):
        assert plain(store.query(query, now=NOW).to_list()) == plain(TOLD["answers"][query]), query
