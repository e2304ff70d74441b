"""What was begun and not finished, a copy, an erasure or a repair, is told, and nobody takes it for something else."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.account import salvaged
from tests.storage.aged_store import content, reader
from tests.storage.checking import look, mended
from tests.storage.faults import Fault, FaultyFiles, PowerLoss
from tests.storage.whole_store import LIVE, delete, file_of, flip, open_store, stored_rows
from treering.storage.errors import DamageError, StoreError
from treering.storage.files import Files
from treering.storage.findings import Severity

# -- copies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_restore", [False, True])
def test_a_copy_that_was_not_finished_is_neither_salvaged_nor_repaired(
    aged: Path, tmp_path: Path, is_restore: bool
) -> None:
    n_unfinished = 0
    for at in range(2, 60, 6):
        copy = tmp_path / f"copy-{at}"
        files = FaultyFiles(tmp_path, Fault(at, errno.ENOSPC, among=("write", "sync", "rename")))
        with suppress(StoreError):
            _copy(aged, copy, files, is_restore=is_restore)
        if any((copy / "_manifest").glob("*.json")) or not (copy / "backup.json").exists():
            continue  # it is finished, or nothing of it was begun
        n_unfinished += 1
        held = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        told = set()
        for act in (look, salvaged, mended, reader, open_store):
            with pytest.raises(StoreError) as refused:
                act(copy)
            told.add(str(refused.value))
        assert told == {f"{copy}: a backup or restore that was not finished; run it again"}
        assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == held
        _copy(aged, copy, is_restore=is_restore)
        assert content(copy) == content(aged)
        shutil.rmtree(copy)
    assert n_unfinished > 3


def _copy(aged: Path, copy: Path, files: Files | None = None, *, is_restore: bool) -> None:
    with reader(aged, files) if files is not None else reader(aged) as ring:
        (ring.restore if is_restore else ring.backup)(copy)


# -- erasures -------------------------------------------------------------------------------------------------------


def test_an_erasure_that_is_not_finished_is_told_until_something_finishes_it(
    base: Path, tmp_path: Path
) -> None:
    for number, finish in enumerate(("repair", "open")):
        store = Path(shutil.copytree(base, tmp_path / f"ring-{number}"))
        with open_store(store) as ring:
            delete(ring, range(100, 300), cleans=False)
            delete(ring, range(2200, 2202), cleans=False)
        places = sorted(str(path.relative_to(store)) for path in store.glob("seg/*/del-0000.arrow"))
        for is_deep in (False, True):
            report = look(store, deep=is_deep)
            found = report.of(Severity.UNFINISHED)
            assert sorted(one.file for one in found) == places
            assert [one.segment_id for one in found] == [one.file.split("/")[1] for one in found]
            assert any("nobody sees 200 events" in one.what for one in found)
            assert all("their bytes still stand in the files of this segment" in one.what for one in found)
            assert all("`treering check --repair` finishes it" in one.todo for one in found)
            assert report.is_clean and report.n_unreachable == 0
        mended(store) if finish == "repair" else open_store(store).close()
        assert not look(store, deep=True).findings
        assert not list(store.glob("seg/*/del-*.arrow"))
        assert stored_rows(store).keys() == LIVE - {*range(100, 300), 2200, 2201}


def test_a_damaged_deletion_is_damage_and_no_erasure_that_a_repair_finishes(store: Path) -> None:
    path = file_of(store, "deletion")
    flip(path)
    report = look(store)
    (damaged,) = report.of(Severity.DAMAGED)
    assert damaged.file == str(path.relative_to(store))
    assert damaged.file not in {one.file for one in report.of(Severity.UNFINISHED)}


# -- repairs --------------------------------------------------------------------------------------------------------


def strays(store: Path) -> list[str]:
    """Name what lies in directories of segments and is no file that a segment was made with."""
    odd = [path for pattern in ("p*-0*.arrow", "*.tmp") for path in store.glob(f"seg/*/{pattern}")]
    return sorted(str(path.relative_to(store)) for path in odd)


@pytest.mark.parametrize("kinds", [("post",), ("post", "patt"), ("post", "segment.json")])
def test_whatever_a_repair_leaves_goes_with_the_next_writer(
    base: Path, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    damaged = Path(shutil.copytree(base, tmp_path / "damaged"))
    with open_store(damaged):
        pass  # without erasures that a repair would finish before
    for kind in kinds:
        flip(file_of(damaged, kind), 0.5)
    n_left = 0
    for at in range(0, 40, 2):
        root = tmp_path / f"at-{at}"
        root.mkdir()
        store = Path(shutil.copytree(damaged, root / "ring"))
        files = FaultyFiles(root, Fault(at, among=("create", "write", "sync", "fsync_dir", "link", "rename")))
        with suppress(PowerLoss):
            mended(store, deep=True, files=files)
        left = files.after_power_loss(tmp_path / f"after-{at}", None) / "ring"
        live = Path(shutil.copytree(store, tmp_path / f"live-{at}"))
        for one in (left, live):
            before = len(strays(one))
            open_store(one).close()
            named = _named(one)
            assert set(strays(one)) <= named
            n_left += before > len(strays(one))
            assert not (one / "meta/repairing").exists()
            assert not look(one, deep=True).of(Severity.LEFTOVER)
            shutil.rmtree(one)
        shutil.rmtree(root)
    assert n_left > 2


def _named(store: Path) -> set[str]:
    with open_store(store, "r") as ring:
        entries = ring._view.catalog.segments.entries.values()
        return {f"seg/{meta.id}/{file.name}" for meta in entries for file in meta.all_files()}


@pytest.mark.parametrize("kind", ["hot", "vec"])
def test_of_a_segment_that_cannot_be_mended_nothing_new_stays(store: Path, kind: str) -> None:
    for one in ("post", "patt", kind):
        flip(file_of(store, one), 0.5)
    mended(store, deep=True)
    assert strays(store) == []
    assert not (store / "meta/repairing").exists()


def test_a_repair_that_fails_takes_back_what_it_wrote(base: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(base, tmp_path / "damaged"))
    open_store(damaged).close()
    for kind in ("post", "patt"):
        flip(file_of(damaged, kind), 0.5)
    n_failed = 0
    for at in range(14):
        store = Path(shutil.copytree(damaged, tmp_path / f"at-{at}"))
        files = FaultyFiles(store, Fault(at, errno.ENOSPC, among=("create", "write")))
        try:
            mended(store, deep=True, files=files)
        except (StoreError, OSError) as error:
            assert not isinstance(error, DamageError)
            n_failed += 1
            assert set(strays(store)) <= _named(store)
        shutil.rmtree(store)
    assert n_failed > 3
