"""A salvage keeps all that can be read, says exactly what is lost, and destroys nothing."""

from __future__ import annotations

import random
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.storage.faults import CHANGES, Fault, FaultyFiles, PowerLoss
from tests.storage.records import position, reject
from tests.storage.whole_store import (
    COLUMNS,
    DAMAGES,
    DERIVED,
    FILES,
    GONE,
    LIES,
    LIVE,
    Row,
    build_store,
    cut,
    decode,
    delete,
    embed,
    file_of,
    flip,
    is_of,
    open_store,
    records,
    rows_in,
    stored_rows,
    texts_of,
    told_otherwise,
    zero,
)
from tests.storage.words import files_with
from treering.indexer.decode import Decoder
from treering.query.check import embedded_texts
from treering.storage.audit import check_chain
from treering.storage.check import check_store
from treering.storage.errors import StoreError
from treering.storage.files import OS_FILES, Files
from treering.storage.findings import CheckReport, Loss, Severity
from treering.storage.layout import Layout
from treering.storage.ring import Ring
from treering.storage.salvage import salvage


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "ring"
    build_store(path)
    return path


@pytest.fixture(scope="module")
def before(base: Path) -> dict[int, Row]:
    return stored_rows(base)


@pytest.fixture
def store(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "ring"))


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


HARM = {name: DAMAGES[name] for name in ("flipped in the middle", "zeroed page", "cut", "emptied", "missing")}


@pytest.mark.parametrize("damage", HARM)
@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in DERIVED])
def test_what_is_left_of_one_damaged_file_is_kept(
    store: Path, before: dict[int, Row], kind: str, damage: str
) -> None:
    path = file_of(store, kind)
    HARM[damage](path)
    harmed = path.read_bytes() if path.exists() else None
    if not check_store(OS_FILES, Layout(store), deep=True).of(Severity.DAMAGED):
        assert kind == "log"
        return
    report = salvaged(store)
    after = check_account(store, report, before)
    if kind not in ("log", "hot", "deletion"):
        assert after.keys() == LIVE
    assert report.aside is not None or damage == "missing"
    if harmed is not None and report.aside is not None:
        assert (store / report.aside / path.relative_to(store)).read_bytes() == harmed
    with open_store(store) as ring:
        ring.append(records(range(5000, 5010)))
        ring.flush()
        embed(ring)
        ring.fold()
        assert set(rows_in(ring)) >= after.keys()
        assert len(rows_in(ring)) == len(after) + 10
        records_, head = ring.audit()
    check_chain(records_, head)
    assert records_[-1].action == "salvage"
    assert records_[-1].details["losses"] == [loss.to_json() for loss in report.losses]


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


# -- what of a segment is kept --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one segment of 30,000 events, whose columns lie over many blocks."""
    path = tmp_path_factory.mktemp("long") / "ring"
    with open_store(path) as ring:
        ring.append(records(range(30_000)))
        ring.flush()
        embed(ring)
        ring.compact()
    return path


@pytest.fixture
def long_store(long_base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(long_base, tmp_path / "ring"))


@pytest.mark.parametrize("share", [0.001, 0.2, 0.4, 0.6, 0.8, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["hot", "text", "vec", "parts"])
def test_a_flipped_bit_costs_the_values_of_its_block_only(long_store: Path, kind: str, share: float) -> None:
    (path,) = long_store.glob(f"seg/*/{kind}.arrow")
    before = stored_rows(long_store)
    flip(path, share)
    report = salvaged(long_store)
    after = check_account(long_store, report, before)
    if kind != "hot":
        assert len(after) == 30_000
    # The first block has heads and dictionaries, without which nothing can be read.
    if kind == "hot" and share > 0.01:
        assert len(after) >= 30_000 - 2049
    with open_store(long_store, "r") as ring:
        assert pending_of(ring) == told(
            [one for one in report.losses if "treering embed" in one.what], "vectors"
        )


@pytest.mark.parametrize("share", [0.3, 0.6, 0.97])
def test_of_a_cut_file_is_kept_what_stands_before_the_cut(long_store: Path, share: float) -> None:
    (path,) = long_store.glob("seg/*/text.arrow")
    before = stored_rows(long_store)
    cut(path, share)
    after = check_account(long_store, salvaged(long_store), before)
    kept = sum(row["record"] is not None for row in after.values())
    assert 30_000 * (share - 0.15) < kept < 30_000 * (share + 0.05)


def test_events_without_times_are_kept_as_rejects(store: Path, before: dict[int, Row]) -> None:
    file_of(store, "hot").unlink()
    report = salvaged(store)
    after = check_account(store, report, before)
    lost = before.keys() - after.keys()
    assert len(lost) == 1499
    with open_store(store, "r") as ring:
        kept = [one for one in ring.rejects() if "salvage" in one.reason]
    assert sorted(one.record for one in kept) == sorted(before[seq]["record"] for seq in lost)


def test_deleted_events_are_not_among_those_rejects(store: Path) -> None:
    for path in store.glob("seg/20-1-*/hot.arrow"):
        path.unlink()
    salvaged(store)
    with open_store(store, "r") as ring:
        kept = [one.record for one in ring.rejects() if "salvage" in one.reason]
    assert len(kept) == 499 and not any(b'"n":1700,' in record for record in kept)


def test_without_checksums_of_blocks_a_damaged_file_is_lost_as_a_whole(
    store: Path, before: dict[int, Row]
) -> None:
    flip(file_of(store, "segment.json"))
    flip(file_of(store, "text"), 0.9)
    report = salvaged(store)
    after = check_account(store, report, before)
    assert sum(row["record"] is None for row in after.values()) == 1499


def test_texts_are_embedded_again_as_they_were(store: Path) -> None:
    with open_store(store, "r") as ring, ring.snapshot() as snapshot:
        before = sorted(key.tobytes() for part in snapshot.parts for key in part.parts().key)
    flip(file_of(store, "parts"))
    flip(file_of(store, "vec"))
    report = salvaged(store)
    assert report.is_clean and told(report.losses, "vectors") > 0
    with open_store(store) as ring:
        with ring.snapshot() as snapshot:
            assert sorted(key.tobytes() for part in snapshot.parts for key in part.parts().key) == before
        embed(ring)
        assert pending_of(ring) == 0
        assert ring.check(deep=True).is_clean


def test_lost_signals_are_computed_again(store: Path, before: dict[int, Row]) -> None:
    flip(file_of(store, "late"))
    salvaged(store)
    with open_store(store) as ring:
        embed(ring)
        ring.fold()
        assert all(rows_in(ring)[seq]["score"] == seq / 1000 for seq in range(2000, 2400))


@pytest.mark.parametrize("what", ["other times", "of column n#i"])
def test_a_segment_that_the_manifest_misdescribes_is_written_anew(
    store: Path, before: dict[int, Row], what: str
) -> None:
    told_otherwise(store, LIES[what])
    report = salvaged(store)
    assert check_account(store, report, before).keys() == LIVE and not report.losses


# -- the catalog ----------------------------------------------------------------------------------------------


def lose_roots(store: Path) -> None:
    for path in store.glob("_manifest/*.json"):
        path.unlink()


def lose_lists(store: Path, *kinds: str) -> None:
    for kind in kinds:
        for path in store.glob(f"meta/{kind}-*.json"):
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


# -- what was replaced or deleted never comes back ------------------------------------------------------------


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


# -- the log --------------------------------------------------------------------------------------------------


@pytest.fixture
def log_store(tmp_path: Path) -> Path:
    """A store whose log has ten frames of ten events, and no segment."""
    path = tmp_path / "ring"
    with open_store(path) as ring:
        for first in range(0, 100, 10):
            numbers = range(first, first + 10)
            ring.append(records(numbers), positions=[position(first)], rejects=[reject(first)])
    return path


@pytest.mark.parametrize("lost", [[0], [5], [9], [0, 1, 5], [3, 4, 8], list(range(9))])
def test_frames_behind_damaged_ones_are_kept(log_store: Path, lost: list[int]) -> None:
    before = stored_rows(log_store)
    (log,) = log_store.glob("wal/*.wal")
    whole = bytearray(log.read_bytes())
    frame = (len(whole) - 24) // 10
    for number in lost:
        whole[24 + number * frame + frame // 2] ^= 1
    log.write_bytes(whole)
    if lost == [9]:
        # A last frame cannot be told from one that was never acknowledged.
        assert check_store(OS_FILES, Layout(log_store)).is_clean
        return
    report = salvaged(log_store)
    gone = {seq for number in lost if number != 9 for seq in range(10 * number, 10 * number + 10)}
    assert check_account(log_store, report, before).keys() == before.keys() - gone
    with open_store(log_store, "r") as ring:
        assert [one.line for one in ring.rejects()] == [n for n in range(0, 100, 10) if n not in gone]
        at = ring.position("source")
        assert at is not None and at.offset == 90


def test_a_missing_file_of_the_log_is_told_by_the_numbers_behind_it(log_store: Path, tmp_path: Path) -> None:
    files = FaultyFiles(log_store)
    ring = open_store(log_store, files=files)
    files.n_calls, files.fault = 0, Fault(0, among=("link",))
    with pytest.raises(PowerLoss):
        ring.flush()
    (tmp_path / "left").mkdir()
    log_store = files.after_power_loss(tmp_path / "left", None)
    with open_store(log_store) as ring:
        ring.append(records(range(100, 110)))
    before = stored_rows(log_store)
    first = min(log_store.glob("wal/*.wal"))
    first.unlink()
    report = salvaged(log_store)
    assert check_account(log_store, report, before).keys() == set(range(100, 110))
    (loss,) = report.losses
    assert (loss.file, loss.n, loss.seqs) == (f"wal/{first.name}", 100, ((0, 100),))


# -- power loss -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kinds", [("root", "hot"), ("log", "text", "list of segments"), ("vec", "rejects", "late")]
)
def test_after_a_power_loss_the_same_can_be_done_again(
    base: Path, tmp_path: Path, kinds: Sequence[str]
) -> None:
    def damaged(place: Path) -> Path:
        ring = Path(shutil.copytree(base, place / "ring"))
        for kind in kinds:
            flip(file_of(ring, kind), 0.6)
        return ring

    expected = stored_rows_after(damaged(tmp_path / "whole"))
    counting = FaultyFiles(tmp_path / "whole")
    damaged(tmp_path / "count")
    counting = FaultyFiles(tmp_path / "count")
    salvaged(tmp_path / "count/ring", counting)
    n_changes = sum(call in CHANGES for call in counting.calls)
    dice = random.Random(0)
    for at in range(0, n_changes, max(n_changes // 12, 1)):
        place = tmp_path / f"live-{at}"
        damaged(place)
        files = FaultyFiles(place, Fault(at, among=CHANGES))
        with suppress(PowerLoss):
            salvaged(place / "ring", files)
        for number, rng in enumerate((None, dice)):
            left = tmp_path / f"left-{at}-{number}"
            left.mkdir()
            files.after_power_loss(left, rng)
            ring = left / "ring"
            if check_store(OS_FILES, Layout(ring), deep=True).of(Severity.DAMAGED):
                salvaged(ring)
            assert check_store(OS_FILES, Layout(ring), deep=True).is_clean
            assert stored_rows(ring) == expected


def stored_rows_after(ring: Path) -> dict[int, Row]:
    salvaged(ring)
    return stored_rows(ring)


# -- anything at all ------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
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


def test_a_model_that_was_given_is_not_guessed(store: Path) -> None:
    flip(file_of(store, "model"))
    (loss,) = salvaged(store).losses
    assert loss.kind == "model"
    with open_store(store, "r") as ring:
        assert ring.model is None


def test_what_is_put_aside_is_not_counted_on(store: Path, before: dict[int, Row]) -> None:
    flip(file_of(store, "vec"))
    report = salvaged(store)
    assert report.aside is not None
    shutil.rmtree(store / "salvaged")
    assert check_store(OS_FILES, Layout(store), deep=True).findings == ()
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


def test_what_was_erased_is_not_put_aside(store: Path, tmp_path: Path) -> None:
    path = copy_while_held(store, tmp_path / "copy", lambda ring: delete(ring, range(2000, 2400)))
    flip(max(path.glob("meta/segments-*.json")))
    report = salvaged(path)
    assert report.aside is not None
    aside = path / report.aside
    assert not list(aside.glob("seg/*"))
    assert files_with(path, '"n":2001,') == set()


# -- stores of format 1 ---------------------------------------------------------------------------------------


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A store of format 1: no checksums of blocks, and nothing in its directories that tells of segments."""
    with tarfile.open(Path(__file__).parent / "data" / "format-1.tar.xz") as archive:
        archive.extractall(tmp_path / "old", filter="data")
    (path,) = (root.parent for root in (tmp_path / "old").rglob("_manifest"))
    return path


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
