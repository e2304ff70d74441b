"""A repair makes anew what can be made anew, and nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.storage.checking import look, mended, wrong
from tests.storage.faults import FaultyFiles, losing_power
from tests.storage.whole_store import (
    DAMAGES,
    DERIVED,
    LIVE,
    embed,
    file_of,
    flip,
    open_store,
    records,
    rows_in,
    stored_rows,
)
from treering.storage.audit import check_chain


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", DERIVED)
def test_a_repair_makes_derived_files_anew(store: Path, kind: str, damage: str) -> None:
    DAMAGES[damage](file_of(store, kind))
    report = mended(store)
    assert not wrong(look(store, deep=True)) and not wrong(report)
    assert any(line.startswith("seg/21-0-") for line in report.repairs)
    assert set(stored_rows(store)) == LIVE
    with open_store(store, "r") as ring:
        records_, head = ring.audit()
        check_chain(records_, head)
    assert records_[-1].action == "repair" and records_[-1].details["done"] == list(report.repairs)


def test_a_repair_removes_leftovers_and_finishes_erasures(store: Path) -> None:
    segment = file_of(store, "patt").parent
    for path in (segment / "patt-0007.arrow", store / "meta/ledger-00000001.json"):
        path.write_bytes(b"x")
    report = mended(store)
    assert report.findings == ()
    assert sum("without its deleted events" in line for line in report.repairs) == 2
    assert any(line.startswith("2 leftovers were removed") for line in report.repairs)
    assert not list(store.glob("seg/*/del-*"))
    assert set(stored_rows(store)) == LIVE


def test_a_second_repair_has_nothing_to_do(store: Path) -> None:
    version = mended(store).version
    again = mended(store)
    assert again.repairs == () and again.version == version


def test_a_repair_leaves_what_is_out_of_reach(store: Path) -> None:
    flip(file_of(store, "hot"))
    flip(file_of(store, "patt"))
    report = mended(store, deep=True)
    assert {Path(one.file).name for one in wrong(report)} == {"hot.arrow", "patt.arrow"}


def test_a_store_that_is_open_is_repaired_while_others_append(store: Path) -> None:
    flip(file_of(store, "post"))
    with open_store(store) as ring:
        ring.append(records(range(2560, 2570)))
        report = ring.repair(deep=True)
        assert report.is_clean and len(report.repairs) >= 2
        ring.append(records(range(2570, 2580)))
        embed(ring)
        assert set(rows_in(ring)) == LIVE | set(range(2560, 2580))
        assert ring.check(deep=True).is_clean


def test_after_a_power_loss_in_a_repair_it_can_be_done_again(base: Path, tmp_path: Path) -> None:
    ring = Path(shutil.copytree(base, tmp_path / "live" / "ring"))
    for kind in DERIVED:
        flip(file_of(ring, kind))

    def go_on(root: Path) -> None:
        assert mended(root / "ring").is_clean
        assert not wrong(look(root / "ring", deep=True))
        assert set(stored_rows(root / "ring")) == LIVE

    files = FaultyFiles(tmp_path / "live")
    with losing_power(files, tmp_path, go_on, every=5) as moments:
        mended(ring, files=files)
    assert len(moments) > 50
