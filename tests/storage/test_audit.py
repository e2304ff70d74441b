"""The audit chain: each record is bound to all before it, and the manifest to the last."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from treering.storage.audit import AuditRecord, check_chain, follow
from treering.storage.errors import DamageError


def chain(n: int) -> list[AuditRecord]:
    records: list[AuditRecord] = []
    for i in range(n):
        records.append(follow(records[-1] if records else None, "delete", {"rows": i, "词": "删"}, 100 + i))
    return records


def test_a_hash_is_that_of_the_published_rule() -> None:
    first, second = chain(2)
    told = json.dumps(
        [first.hash, 2, 101, "delete", {"rows": 1, "词": "删"}], sort_keys=True, separators=(",", ":")
    )
    assert second.hash == hashlib.sha256(told.encode()).hexdigest()
    assert (first.n, first.previous, second.previous) == (1, "", first.hash)


def test_a_chain_that_nobody_touched_is_whole() -> None:
    records = [AuditRecord.from_json(json.loads(json.dumps(r.to_json()))) for r in chain(5)]
    check_chain(records, records[-1].hash)
    check_chain([], "")


@pytest.mark.parametrize("change", [{"details": {"rows": 9}}, {"time_ns": 1}, {"action": "expire"}, {"n": 7}])
def test_a_changed_record_is_found(change: dict[str, object]) -> None:
    records = chain(5)
    head = records[-1].hash
    records[2] = replace(records[2], **change)  # type: ignore[arg-type]
    with pytest.raises(DamageError, match="was altered"):
        check_chain(records, head)


@pytest.mark.parametrize("kept", [slice(0, 4), slice(1, 5), slice(0, 0)])
def test_a_removed_record_is_found(kept: slice) -> None:
    records = chain(5)
    with pytest.raises(DamageError, match=r"altered|removed"):
        check_chain(records[kept], records[-1].hash)
