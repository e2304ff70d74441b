"""What `stats` and `explain` say of partition columns and of skipped segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treering.query.opening import open_store
from treering.query.overview import MAX_PARTITIONS
from treering.query.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def add(store: Store, *events: dict[str, Any]) -> None:
    """One segment of these events."""
    store.ingest(
        [{"ts": f"2026-05-01T00:00:{i:02}Z", "msg": "x", **event} for i, event in enumerate(events)],
        embed=False,
    )
    store.flush()


def test_stats_count_values_and_segments_of_each_partition_column(store: Store) -> None:
    add(store, {"tenant_id": "a"}, {"tenant_id": "b"}, {"tenant_id": 7})
    add(store, {"tenant_id": "a", "intent_tag": "chat"})
    add(store, *({"tenant_id": f"t{i}"} for i in range(60)))
    add(store, *({"tenant_id": f"t{i % 30}", "intent_tag": f"i{i}"} for i in range(60)))
    add(store, {"request_id": "r"})
    facts = store.stats()
    assert facts["partition_fields"] == [
        {"field": "tenant_id", "values": 63, "segments": 4, "not_listed": 0},
        {"field": "intent_tag", "values": 61, "segments": 2, "not_listed": 0},
    ]
    shown = [(p["value"], p["segments"]) for p in facts["partitions"] if p["field"] == "tenant_id"]
    assert len(shown) == MAX_PARTITIONS
    assert shown[0] == ("a", 2)
    assert shown[1:] == [(f"t{i}", 2) for i in sorted(range(30), key=str)][: MAX_PARTITIONS - 1]


def test_stats_say_which_segments_list_no_values(store: Store) -> None:
    for start in (0, 40):
        store.ingest(
            [{"ts": "2026-05-01T00:00:00Z", "tenant_id": f"t{i}"} for i in range(start, start + 65)],
            embed=False,
        )
        store.flush()
    add(store, {"tenant_id": "a"})
    facts = store.stats()
    assert facts["partition_fields"] == [{"field": "tenant_id", "values": 1, "segments": 3, "not_listed": 2}]
    assert facts["partitions"] == [{"field": "tenant_id", "value": "a", "segments": 1}]


def test_a_store_without_partition_columns_shows_none(store: Store) -> None:
    add(store, {"request_id": "r"})
    assert store.stats()["partition_fields"] == store.stats()["partitions"] == []


def test_explain_says_how_many_segments_were_skipped_by_what(store: Store) -> None:
    for i, tenant in enumerate(("a", "a", "b")):
        add(store, *({"tenant_id": tenant, "request_id": f"request-{i}-{j:03}", "n": i} for j in range(50)))
    plan = store.explain('tenant_id = "a" request_id = "request-1-007"')
    assert (plan.parts, plan.parts_skipped, plan.rows_matched) == (3, 2, 1)
    assert plan.skipped == {"partition": 1, "bloom": 1}
    assert "parts: 1 of 3 read; skipped: 1 by partition, 1 by bloom" in plan.lines
    assert plan.to_json()["skipped"] == plan.skipped
    assert store.explain("n > 1").skipped == {"statistics": 2}
    assert store.explain("since 2027-01-01").skipped == {"time": 3}
    assert store.explain("*").skipped == {}
    assert "parts: 3 of 3 read" in store.explain("*").lines


def test_a_tenant_under_another_name_is_found_and_skipped_alike(store: Store) -> None:
    add(store, {"user": {"tenant": "a"}}, {"tenant_id": "a"})
    add(store, {"tenant": "b"}, {"tenant_id": "c"})
    add(store, {"tenant": "a", "tenant_id": "b"})
    for name in ("tenant_id", "tenant"):
        for value in ("a", "b", "c", "d"):
            result = store.query(f'{name} = "{value}"')
            expected = [
                row
                for row in store.query("*").to_list()
                if (row.get(name) if row.get(name) is not None else row.get("tenant_id", row.get("tenant")))
                == value
            ]
            assert len(result) == len(expected), (name, value)
    # In the last segment the two fields disagree, so that nothing is listed of `tenant`.
    assert store.explain('tenant = "d"').skipped == {"partition": 2}
    assert store.explain('tenant_id = "d"').skipped == {"partition": 3}
