"""Compaction through the public store: answers stay, stats say what it cost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from treering.query.opening import open_store
from treering.query.store import Store
from treering.storage.errors import StoreError
from treering.storage.fold import FAN_IN

LEFT = 2 * (FAN_IN - 1)
"""Segments that may be left of two tiers; how many are depends on when the thread comes to them."""


def events(start: int, n: int) -> list[dict[str, Any]]:
    return [
        {
            "timestamp": f"2026-03-17T10:{i // 60:02d}:{i % 60:02d}Z",
            "message": f"request {i % 7} done",
            "level": "info" if i % 3 else "error",
            "latency": i / 8,
        }
        for i in range(start, start + n)
    ]


def fill(store: Store, n_flushes: int, size: int = 20) -> None:
    for _ in range(n_flushes):
        n = store.stats()["rows"]
        store.append(events(n, size))
        store.flush()


def answers(store: Store) -> list[Any]:
    asked = (
        'level >= error "request 3"',
        "where latency > 5 count, avg(latency), max(latency) by level",
        "count, sum(latency) every 1m",
    )
    return [sorted(map(str, store.query(text).to_arrow().to_pylist())) for text in asked]


def test_a_compaction_changes_no_answer_and_says_what_it_did(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", compacts=False) as store:
        fill(store, 6)
        before = answers(store)
        assert before[0] and before[1] and before[2]
        report = store.compact()
        assert (report.segments_before, report.segments_after, report.made) == (6, 1, 1)
        assert (report.rows, report.waiting) == (120, 1)
        assert report.seconds > 0
        assert answers(store) == before
        again = store.compact()
        assert (again.segments_before, again.segments_after, again.made) == (1, 1, 0)
        assert again.bytes_before == again.bytes_after == report.bytes_after


def test_a_compaction_waits_for_readers_of_old_files_if_asked(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", compacts=False) as store:
        fill(store, 3)
        reader = open_store(tmp_path / "s", "r")
        asked = reader.query("count")
        assert store.compact().held >= 3
        assert len(list((tmp_path / "s" / "seg").iterdir())) == 4
        del asked
        timer = threading.Timer(0.05, reader.close)
        timer.start()
        assert store.compact(wait_s=60).held == 0
        timer.join()
        assert len(list((tmp_path / "s" / "seg").iterdir())) == 1


def test_stats_say_what_was_written_for_what_was_acknowledged(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", compacts=False) as store:
        assert store.stats()["write_amplification"] is None
        fill(store, 3)
        stats = store.stats()
        written = stats["written"]
        assert written["log"] == stats["bytes_acknowledged"] > 0
        assert written["flush"] > 0 and written["compact"] == 0
        assert stats["bytes_written"] == sum(written.values())
        assert stats["write_amplification"] == round(sum(written.values()) / written["log"], 3)
        assert stats["segments_by_tier"] == {"2": 3}
        assert stats["segments_pending"] == 3
        assert stats["compaction_error"] is None
        report = store.compact()
        stats = store.stats()
        assert stats["written"] == written | {"compact": report.bytes_after}
        assert stats["segments_by_tier"] == {"2": 1}
    with open_store(tmp_path / "s", "r") as store:
        assert store.stats()["written"] == stats["written"]
        with pytest.raises(StoreError, match="open to read"):
            store.compact()


def test_a_store_that_is_open_compacts_by_itself_and_answers_alike(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store, open_store(tmp_path / "apart", compacts=False) as apart:
        fill(store, 3 * FAN_IN)
        fill(apart, 3 * FAN_IN)
        store.settle()
        stats = store.stats()
        assert stats["segments"] <= LEFT < apart.stats()["segments"]
        assert stats["written"]["compact"] > 0 and stats["compaction_error"] is None
        assert answers(store) == answers(apart)


def test_closing_keeps_everything_while_a_compaction_is_due(tmp_path: Path) -> None:
    for k in range(2 * FAN_IN):
        with open_store(tmp_path / "s") as store:
            store.append(events(20 * k, 20))
    with open_store(tmp_path / "s") as store:
        assert store.stats()["rows"] == 40 * FAN_IN
        store.settle()
        assert store.stats()["segments"] <= LEFT
