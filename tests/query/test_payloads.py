"""Pictures in records, as a user sees them: shown whole, measured, and lost without the rest of the event."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from treering.query.store import Store
from treering.storage.errors import DamageError

PICTURE = (
    "data:image/png;base64," + base64.b64encode(b"\x89PNG" + random.Random(3).randbytes(90_000)).decode()
)


def turn(n: int) -> dict[str, Any]:
    """Give a request of a chat that repeats its picture at every turn."""
    said = [{"role": "user", "content": f"question {i}"} for i in range(n)]
    seen = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}
    messages = [seen, *said] if n % 4 else said
    return {"timestamp": f"2026-03-01T10:00:{n:02d}Z", "request_id": f"r{n}", "messages": messages}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ring"
    with tr.open(path) as store:
        store.ingest([turn(n) for n in range(20)], embed=False)
        store.flush()
    return path


def damage(path: Path) -> Path:
    (file,) = path.glob("seg/*/blobs.arrow")
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 1
    file.write_bytes(whole)
    return file


def shown(store: Store, query: str, **more: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.query(query, **more).to_list()
    return sorted(rows, key=lambda row: int(row["request_id"][1:]))


def test_records_are_shown_with_their_pictures_and_the_file_is_measured(path: Path) -> None:
    with tr.open(path, mode="r") as store:
        assert [row["messages"] for row in shown(store, "")] == [turn(n)["messages"] for n in range(20)]
        bytes_by_kind = store.stats()["bytes"]
        assert 0.7 * len(PICTURE) < bytes_by_kind["blobs"] < 0.8 * len(PICTURE)


def test_damage_to_pictures_costs_who_looks_at_them(path: Path) -> None:
    file = damage(path)
    with tr.open(path, mode="r") as store:
        assert store.query("count").to_list()[0]["count"] == 20
        assert shown(store, "request_id = 'r4'")[0]["messages"] == turn(4)["messages"]
        with pytest.raises(DamageError, match=r"blobs\.arrow is damaged.* records of its rows 5") as raised:
            shown(store, "request_id = 'r5'")
        assert raised.value.path == file
        left = store.query("", damaged="skip")
        assert left.meta["complete"] is False
        assert "blobs.arrow" in left.meta["unreachable"][0].reason


def test_after_a_salvage_the_event_is_shown_by_what_is_left_of_it(path: Path) -> None:
    damage(path)
    report = tr.check(path, salvage=True)
    assert report.is_clean
    assert [loss.n for loss in report.losses if loss.kind == "payloads"] == [1]
    with tr.open(path, mode="r") as store:
        rows = shown(store, "")
        assert [row["request_id"] for row in rows] == [f"r{n}" for n in range(20)]
        assert rows[4]["messages"] == turn(4)["messages"]
        assert "<image/png 87.9 KiB sha256:" in str(rows[5]) and "question 3" in str(rows[5])
