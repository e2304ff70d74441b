"""Whether a salvage told exactly what it lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.storage.whole_store import COLUMNS, Row, decode, is_of, stored_rows, texts_of
from treering.storage.check import check_store
from treering.storage.files import OS_FILES, Files
from treering.storage.findings import CheckReport, Loss, Severity
from treering.storage.layout import Layout
from treering.storage.ring import Ring
from treering.storage.salvage import salvage


def salvaged(path: Path, files: Files = OS_FILES) -> CheckReport:
    return salvage(files, Layout(path), decode, texts_of)


def told(losses: Collection[Loss], kind: str) -> int:
    return sum(loss.n or 0 for loss in losses if loss.kind == kind)


def check_account(path: Path, report: CheckReport, before: dict[int, Row]) -> dict[int, Row]:
    """Check that a store is whole, and what is not in it is what the report says; give what is in it."""
    assert report.is_clean
    assert not check_store(OS_FILES, Layout(path), deep=True).of(Severity.DAMAGED)
    after = stored_rows(path)
    lost = before.keys() - after.keys()
    assert after.keys() <= before.keys()
    assert all(is_of(seq, row) for seq, row in after.items())
    events = [loss for loss in report.losses if loss.kind == "events"]
    if all(loss.n is not None for loss in events):
        assert len(lost) == told(events, "events")
        ranges = [one for loss in events for one in loss.seqs]
        assert all(any(first <= seq < end for first, end in ranges) for seq in lost)
    missing = Counter[str]()
    for seq, row in after.items():
        for name in COLUMNS:
            assert row[name] in (before[seq][name], None)
            missing[name] += row[name] is None and before[seq][name] is not None
    columns = Counter[str]()
    for loss in report.losses:
        if loss.kind == "column" and loss.name in COLUMNS:
            columns[loss.name] += loss.n or 0
    # A row may have lost a value that it never had.
    assert all(missing[name] <= columns[name] for name in COLUMNS)
    assert all(missing[name] == columns[name] for name in ("n#i", "body", "record", "request_id", "noise#f"))
    return after


def pending_of(ring: Ring) -> int:
    with ring.snapshot() as snapshot:
        return snapshot.pending


def lose_lists(store: Path, *kinds: str) -> None:
    for kind in kinds:
        for path in store.glob(f"meta/{kind}-*.json"):
            path.unlink()
