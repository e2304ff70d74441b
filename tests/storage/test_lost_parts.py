"""A store that lost a whole directory, or the name of its manifest, is told of as damaged, and salvaged."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.account import check_account, salvaged, told
from tests.storage.checking import besides_erasures, look, mended, wrong
from tests.storage.whole_store import LIVE, Row, file_of, flip, open_store, records, stored_rows
from treering.storage.errors import DamageError, StoreError
from treering.storage.findings import Severity

NAMES = ("_manifest", "meta", "wal", "seg", "rejects")


def remove(path: Path) -> None:
    shutil.rmtree(path)


def put_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("dear")


def put_link_to_nothing(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(path.parent / "nowhere")


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("lose", [remove, put_file, put_link_to_nothing])
@pytest.mark.parametrize("name", NAMES)
def test_a_directory_that_is_lost_is_damage(
    store: Path, name: str, lose: Callable[[Path], None], deep: bool
) -> None:
    lose(store / name)
    report = look(store, deep=deep)
    assert report.of(Severity.DAMAGED)
    assert {one.file.partition("/")[0] for one in wrong(report)} == {name}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_without_a_directory_is_salvaged(store: Path, before: dict[int, Row], name: str) -> None:
    remove(store / name)
    with pytest.raises(StoreError) as refused:
        mended(store)
        with open_store(store, "r") as ring, ring.snapshot() as snapshot:
            assert {int(seq) for part in snapshot.parts for seq in part.seq} == LIVE
        raise StoreError("it is read, and nothing of it could be mended")
    assert "\n" not in str(refused.value) and "ingest something" not in str(refused.value)
    after = check_account(store, salvaged(store), before)
    if name in ("_manifest", "meta", "rejects"):
        assert after.keys() == LIVE
    with open_store(store) as ring:
        ring.append(records(range(5000, 5010)))
        ring.flush()


def test_without_rejects_the_rest_is_there_and_their_number_is_told(store: Path) -> None:
    with open_store(store, "r") as ring:
        n = sum(file.n for file in ring._view.catalog.rejects.entries.values())
    remove(store / "rejects")
    report = salvaged(store)
    assert told(report.losses, "rejects") == n
    assert set(stored_rows(store)) == LIVE


@pytest.mark.parametrize("lost", ["_manifest", "_manifest and meta", "_manifest, meta and seg"])
def test_a_store_without_manifests_is_no_new_one(store: Path, lost: str) -> None:
    for name in ("_manifest", "meta", "seg"):
        if name in lost:
            remove(store / name)
    for mode in ("r", "w"):
        with pytest.raises(DamageError, match="no manifest, yet the store has events") as refused:
            open_store(store, mode)
        assert "`treering check --salvage`" in str(refused.value)
    (one,) = look(store).of(Severity.DAMAGED)
    assert one.file == "_manifest"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_in_the_place_of_a_directory_is_named(store: Path, name: str) -> None:
    put_file(store / name)
    with pytest.raises(StoreError, match="is no directory; move away what lies there") as refused:
        salvaged(store)
    assert str(store / name) in str(refused.value)
    assert (store / name).read_text() == "dear"


def test_segments_that_lie_on_another_disk_are_salvaged(store: Path, before: dict[int, Row]) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == store.stat().st_dev:
        pytest.skip("there is no other file system at hand")
    with tempfile.TemporaryDirectory(dir=shared) as name:
        (store / "seg").rename(store / "moved")
        shutil.copytree(store / "moved", Path(name) / "seg")
        shutil.rmtree(store / "moved")
        (store / "seg").symlink_to(Path(name) / "seg")
        path = file_of(store, "hot")
        flip(path)
        held = path.read_bytes()
        report = salvaged(store)
        check_account(store, report, before)
        assert report.aside is not None
        assert (store / report.aside / path.relative_to(store)).read_bytes() == held


@pytest.mark.parametrize("version", [99, 1])
def test_a_manifest_with_another_number_than_its_own_is_damaged_for_everybody(
    store: Path, before: dict[int, Row], version: int
) -> None:
    """The next version would take the number behind the one in the file, and nobody would find it."""
    path = file_of(store, "root")
    name = f"_manifest/{version:020d}.json"
    path.rename(store / name)
    assert [(one.severity, one.file) for one in besides_erasures(look(store))] == [("damaged", name)]
    for mode in ("r", "w"):
        with pytest.raises(DamageError, match=f"of version {int(path.stem)}, its name says {version}"):
            open_store(store, mode)
    assert check_account(store, salvaged(store), before).keys() == LIVE
    with open_store(store) as ring:
        ring.append(records(range(5000, 5010)))
        ring.flush()
    assert len(stored_rows(store)) == len(LIVE) + 10
