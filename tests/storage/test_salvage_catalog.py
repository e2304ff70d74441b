"""Without its manifest a store is put together of what is left, and nothing that was deleted comes back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.account import check_account, lose_lists, pending_of, salvaged, told
from tests.storage.faults import Fault, FaultyFiles, PowerLoss
from tests.storage.records import reject
from tests.storage.whole_store import (
    LIVE,
    Row,
    delete,
    embed,
    file_of,
    flip,
    open_store,
    records,
    stored_rows,
)
from tests.storage.words import files_with
from treering.storage.audit import check_chain
from treering.storage.ring import Ring


def lose_roots(store: Path) -> None:
    for path in store.glob("_manifest/*.json"):
        path.unlink()


@pytest.mark.parametrize("harm", ["zeroed", "lost"])
def test_of_directories_alone_a_store_is_put_together(store: Path, before: dict[int, Row], harm: str) -> None:
    for path in store.glob("_manifest/*.json"):
        path.write_bytes(bytes(len(path.read_bytes()))) if harm == "zeroed" else path.unlink()
    lose_lists(store, "segments", "ledger", "rejects", "audit", "model")
    report = salvaged(store)
    after = check_account(store, report, before)
    assert after.keys() == LIVE
    with open_store(store) as ring:
        assert ring.next_seq == 2560
        assert [one.line for one in ring.rejects()][:3] == [0, 2000, 2400]
        assert ring.append(records([7000])) == 2560
        embed(ring)
        assert pending_of(ring) == 0


def test_a_lost_manifest_is_made_of_whole_lists(store: Path, before: dict[int, Row]) -> None:
    with open_store(store, "r") as ring:
        positions, audit, model = dict(ring.positions()), ring.audit(), ring.model
        rejects = list(ring.rejects())
    flip(file_of(store, "root"), 0.3)
    report = salvaged(store)
    assert check_account(store, report, before).keys() == LIVE
    assert not report.losses
    with open_store(store, "r") as ring:
        assert dict(ring.positions()) == positions and ring.model == model
        assert list(ring.rejects()) == rejects
        assert ring.audit()[0][:-1] == audit[0]


def test_lost_positions_are_told_and_how_to_go_on(store: Path) -> None:
    flip(file_of(store, "list of positions"))
    (loss,) = salvaged(store).losses
    assert (loss.kind, loss.n) == ("positions", 1)
    assert "add its events a second time" in loss.what


def test_a_broken_audit_chain_is_followed_by_one_that_says_so(store: Path) -> None:
    with open_store(store, "r") as ring:
        _, head = ring.audit()
    flip(file_of(store, "list of audit records"))
    (loss,) = salvaged(store).losses
    assert (loss.kind, loss.n) == ("audit", 2)
    with open_store(store, "r") as ring:
        (record,), new_head = ring.audit()
    check_chain([record], new_head)
    assert record.details["broken_chain"]["head"] == head


def test_of_rejects_only_those_of_the_damaged_file_are_lost(store: Path) -> None:
    flip(file_of(store, "rejects"))
    flip(file_of(store, "list of rejects"))
    report = salvaged(store)
    with open_store(store, "r") as ring:
        left = [one.line for one in ring.rejects()]
    assert left == [2000, 2400, *range(2450, 2560, 10)]
    assert [loss.kind for loss in report.losses] == ["rejects"]


def copy_while_held(store: Path, place: Path, change: Callable[[Ring], None]) -> Path:
    """Change a store whose version before a reader holds, and give a copy with the files of both."""
    with open_store(store, "r") as reader, reader.snapshot():
        with open_store(store) as ring:
            change(ring)
        return Path(shutil.copytree(store, place))


def fold(ring: Ring) -> None:
    """Join all segments."""
    embed(ring)
    ring.compact()


CHANGES_OF_SEGMENTS: dict[str, Callable[[Ring], None]] = {
    "a fold": fold,
    "a deletion": lambda ring: delete(ring, range(1400, 1600)),
    "a deletion of a whole segment": lambda ring: delete(ring, range(2000, 2400)),
    "a deletion that is not finished": lambda ring: delete(ring, range(2100, 2200), cleans=False),
}


@pytest.mark.parametrize(
    "harm", ["root flipped", "root zeroed", "all roots", "list", "root and list", "all lists"]
)
@pytest.mark.parametrize("change", CHANGES_OF_SEGMENTS)
def test_what_was_replaced_or_deleted_never_comes_back(
    store: Path, tmp_path: Path, change: str, harm: str
) -> None:
    if (change, harm) == ("a deletion of a whole segment", "all lists"):
        pytest.skip("without a manifest and the audit nothing tells of a segment that went whole")
    path = copy_while_held(store, tmp_path / "copy", CHANGES_OF_SEGMENTS[change])
    assert len(list(path.glob("_manifest/*.json"))) > 1
    before = stored_rows(path)
    newest = sorted(path.glob("_manifest/*.json"))[-1]
    if harm == "root flipped":
        flip(newest)
    if harm in ("root zeroed", "root and list"):
        newest.write_bytes(bytes(100))
    if harm in ("all roots", "all lists"):
        lose_roots(path)
    if harm in ("list", "root and list"):
        flip(sorted(path.glob("meta/segments-*.json"))[-1])
    if harm == "all lists":
        lose_lists(path, "segments", "audit")
    report = salvaged(path)
    after = stored_rows(path)
    assert report.is_clean
    assert after.keys() <= before.keys()
    lost = before.keys() - after.keys()
    hidden = [loss for loss in report.losses if loss.kind == "events"]
    assert len(lost) <= told(hidden, "events")
    assert all("may have been" in loss.what or "deleted" in loss.what for loss in hidden)
    if harm in ("root flipped", "list") or change == "a fold":
        assert not lost


def test_a_flush_that_was_not_committed_doubles_nothing(store: Path, tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    ring = open_store(store, files=files)
    ring.append(records(range(3000, 3100)), rejects=[reject(1)])
    files.n_calls, files.fault = 0, Fault(0, among=("link",))
    with pytest.raises(PowerLoss):
        ring.flush()
    before = stored_rows(store)
    for harm in ([flip], [flip, lambda path: lose_lists(store, "segments")]):
        place = Path(shutil.copytree(store, tmp_path / f"copy-{len(harm)}"))
        flip(sorted(place.glob("_manifest/*.json"))[-1])
        if len(harm) > 1:
            flip(sorted(place.glob("meta/segments-*.json"))[-1])
        report = salvaged(place)
        assert report.is_clean
        assert stored_rows(place) == before


def test_a_model_that_was_given_is_not_guessed(store: Path) -> None:
    flip(file_of(store, "model"))
    (loss,) = salvaged(store).losses
    assert loss.kind == "model"
    with open_store(store, "r") as ring:
        assert ring.model is None


def test_what_was_erased_is_not_put_aside(store: Path, tmp_path: Path) -> None:
    path = copy_while_held(store, tmp_path / "copy", lambda ring: delete(ring, range(2000, 2400)))
    flip(max(path.glob("meta/segments-*.json")))
    report = salvaged(path)
    assert report.aside is not None
    aside = path / report.aside
    assert not list(aside.glob("seg/*"))
    assert files_with(path, '"n":2001,') == set()
