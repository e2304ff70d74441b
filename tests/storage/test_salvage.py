"""A salvage keeps all that can be read, says exactly what is lost, and destroys nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.account import check_account, salvaged, told
from tests.storage.checking import besides_erasures
from tests.storage.faults import FaultyFiles, losing_power
from tests.storage.whole_store import (
    DAMAGES,
    DERIVED,
    FILES,
    GONE,
    LIVE,
    Row,
    cut,
    embed,
    file_of,
    flip,
    is_of,
    open_store,
    records,
    rows_in,
    stored_rows,
    zero,
)
from treering.indexer.decode import Decoder
from treering.query.check import embedded_texts
from treering.storage.audit import check_chain
from treering.storage.check import check_store
from treering.storage.errors import StoreError
from treering.storage.files import OS_FILES
from treering.storage.findings import Severity
from treering.storage.layout import Layout
from treering.storage.ring import Ring
from treering.storage.salvage import salvage

HARM = {name: DAMAGES[name] for name in ("flipped in the middle", "zeroed page", "cut", "emptied", "missing")}
DOCUMENTS = ("root", "model", *(kind for kind in FILES if kind.startswith("list of ")))
"""Kinds of files that are read as a whole or not at all."""


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        (kind, damage)
        for kind in FILES
        if kind not in DERIVED
        for damage in (("zeroed page", "missing") if kind in DOCUMENTS else HARM)
    ],
)
def test_what_is_left_of_one_damaged_file_is_kept(
    store: Path, before: dict[int, Row], kind: str, damage: str
) -> None:
    path = file_of(store, kind)
    HARM[damage](path)
    harmed = path.read_bytes() if path.exists() else None
    try:
        report = salvaged(store)
    except StoreError as error:
        assert kind == "log" and "nothing of it is out of reach" in str(error)
        return
    after = check_account(store, report, before)
    if kind not in ("log", "hot", "deletion"):
        assert after.keys() == LIVE
    assert report.aside is not None or damage == "missing"
    if harmed is not None and report.aside is not None:
        assert (store / report.aside / path.relative_to(store)).read_bytes() == harmed
    with open_store(store) as ring:
        records_, head = ring.audit()
    check_chain(records_, head)
    assert records_[-1].action == "salvage"
    assert records_[-1].details["losses"] == [loss.to_json() for loss in report.losses]


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in DERIVED])
def test_a_salvaged_store_goes_on_as_any_other(store: Path, kind: str) -> None:
    flip(file_of(store, kind))
    salvaged(store)
    with open_store(store) as ring:
        kept = set(rows_in(ring))
        assert ring.append(records(range(5000, 5010))) >= max(kept)
        ring.flush()
        embed(ring)
        ring.fold()
        grown = set(rows_in(ring))
    assert grown > kept and len(grown) == len(kept) + 10


def contents(store: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file() and path.name != "LOCK"}


def test_a_store_of_which_nothing_is_out_of_reach_is_refused(store: Path) -> None:
    for kind, harm in ((None, flip), ("patt", flip), ("log", lambda path: cut(path, 0.99))):
        if kind is not None:
            harm(file_of(store, kind))
        held = contents(store)
        with pytest.raises(StoreError, match="nothing of it is out of reach"):
            salvaged(store)
        assert contents(store) == held


def test_where_another_writes_or_nothing_is_it_is_refused(store: Path, tmp_path: Path) -> None:
    with open_store(store), pytest.raises(StoreError, match="writes to it"):
        salvaged(store)
    with pytest.raises(StoreError, match="no treering store there"):
        salvaged(tmp_path / "nothing")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match="no treering store there"):
        salvaged(tmp_path / "other")
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["letter.txt"]


@pytest.mark.parametrize(
    "kinds", [("root", "hot"), ("log", "text", "list of segments"), ("vec", "rejects", "late")]
)
def test_after_a_power_loss_the_same_can_be_done_again(
    store: Path, tmp_path: Path, kinds: Sequence[str]
) -> None:
    for kind in kinds:
        flip(file_of(store, kind), 0.6)
    whole = Path(shutil.copytree(store, tmp_path / "whole"))
    salvaged(whole)
    expected, n_damaged = stored_rows(whole), 0

    def go_on(root: Path) -> None:
        nonlocal n_damaged
        ring = root / store.name
        if check_store(OS_FILES, Layout(ring), deep=True).of(Severity.DAMAGED):
            n_damaged += 1
            salvaged(ring)
        assert check_store(OS_FILES, Layout(ring), deep=True).is_clean
        assert stored_rows(ring) == expected

    live = tmp_path / "live"
    live.mkdir()
    shutil.copytree(store, live / store.name)
    files = FaultyFiles(live)
    with losing_power(files, tmp_path, go_on, every=10) as moments:
        salvaged(live / store.name, files)
    assert len(moments) > 50 and n_damaged
    n_damaged = 0
    go_on(files.after_power_loss(tmp_path / "done", None))
    assert not n_damaged  # what it said was done was on the disk


@examples(25)
@given(st.data())
def test_of_any_damage_the_account_is_right(base: Path, before: dict[int, Row], data: st.DataObject) -> None:
    kinds = [kind for kind in FILES if kind not in ("root", "list of segments")]
    harmed = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4, unique=True))
    with tempfile.TemporaryDirectory() as place:
        store = Path(shutil.copytree(base, Path(place) / "ring"))
        for kind in harmed:
            harm: Any = data.draw(st.sampled_from([flip, cut, zero]))
            try:
                harm(file_of(store, kind), data.draw(st.floats(0, 0.999)))
            except AssertionError:
                flip(file_of(store, kind))
        if not check_store(OS_FILES, Layout(store), deep=True).of(Severity.DAMAGED):
            return
        report = salvaged(store)
        torn = {seq for seq in before if seq >= 2450} if "log" in harmed else set()
        after = stored_rows(store)
        assert report.is_clean and check_store(OS_FILES, Layout(store), deep=True).is_clean
        lost = before.keys() - after.keys()
        assert after.keys() <= before.keys()
        assert all(is_of(seq, row) for seq, row in after.items())
        # The end of a log may be torn, of which nobody can tell what it was.
        assert len(lost - torn) <= told(report.losses, "events") or not lost - torn
        assert not set(GONE) & after.keys()


def test_what_is_put_aside_is_not_counted_on(store: Path, before: dict[int, Row]) -> None:
    flip(file_of(store, "vec"))
    report = salvaged(store)
    assert report.aside is not None
    shutil.rmtree(store / "salvaged")
    assert besides_erasures(check_store(OS_FILES, Layout(store), deep=True)) == []
    assert stored_rows(store).keys() == before.keys()


def test_two_salvages_put_aside_in_two_places(store: Path) -> None:
    flip(file_of(store, "vec"))
    first = salvaged(store).aside
    for path in store.glob("seg/22-0-*/vec.arrow"):
        flip(path)
    second = salvaged(store).aside
    assert first != second and first is not None and second is not None
    assert (store / first).is_dir() and (store / second).is_dir()


def test_a_segment_whose_directory_is_gone_is_told(store: Path, before: dict[int, Row]) -> None:
    shutil.rmtree(min(store.glob("seg/22-0-*")))
    report = salvaged(store)
    after = check_account(store, report, before)
    assert before.keys() - after.keys() == set(range(2000, 2400))
    (loss,) = report.losses
    assert (loss.n, loss.seqs) == (400, ((2000, 2400),))


def old_numbers(path: Path) -> set[int]:
    with Ring.open(path, "r", decoder=Decoder()) as ring, ring.snapshot() as snapshot:
        return {seq for part in snapshot.parts for seq in part.seq.tolist()}


@pytest.mark.parametrize("kind", ["root", "text", "vec", "post", "hot", "list"])
def test_a_store_of_format_1_is_salvaged(old_store: Path, kind: str) -> None:
    before = old_numbers(old_store)
    patterns = {"root": "_manifest/*.json", "list": "meta/segments-*.json"}
    flip(min(old_store.glob(patterns.get(kind, f"seg/*/{kind}.arrow"))))
    report = salvage(OS_FILES, Layout(old_store), Decoder(), embedded_texts)
    assert report.is_clean
    after = old_numbers(old_store)
    assert after <= before
    if kind in ("root", "text", "vec", "post"):
        assert after == before
    if kind == "hot":
        assert len(before - after) == told(report.losses, "events") > 0
    if kind == "list":
        # Nothing tells what the directories hold: they are put aside.
        assert report.aside is not None
        assert len(list((old_store / report.aside / "seg").iterdir())) == 2
        assert [loss.n for loss in report.losses if loss.kind == "events"] == [None, None]
