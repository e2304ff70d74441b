"""A damaged store is copied as it is, whatever is wrong with it and wherever it lies, and salvaged there."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tests.storage.account import check_account, salvaged
from tests.storage.buckets import ROOT, object_files
from tests.storage.faults import Fault, FaultyFiles
from tests.storage.odd_files import PLACES, FailingFiles, kind_of
from tests.storage.whole_store import (
    Row,
    build_store,
    decode,
    embed,
    file_of,
    flip,
    open_store,
    records,
    rows_in,
    stored_rows,
)
from treering.storage.backup_target import writing_to
from treering.storage.bucket import Bucket
from treering.storage.check import check_store
from treering.storage.errors import ConfigError, DamageError, StoreError
from treering.storage.files import OS_FILES, Files
from treering.storage.layout import Layout
from treering.storage.locking import AT_ONCE
from treering.storage.plain_copy import PlainCopyReport, copy_plainly
from treering.storage.ring import Ring
from treering.storage.salvage import salvage


def copied(source: Path, target: Path, files: Files = OS_FILES, to: Files = OS_FILES) -> PlainCopyReport:
    layout = Layout(source)
    with writing_to(Layout(target), to, layout, AT_ONCE, is_restore=True) as target_files:
        return copy_plainly(files, layout, target_files, Layout(target))


def bytes_of(store: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(store)): path for path in store.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != "LOCK"}


# -- from a directory ---------------------------------------------------------------------------------------------


def test_every_byte_comes_as_it_is(store: Path, tmp_path: Path) -> None:
    for kind in ("hot", "root", "log", "model"):
        flip(file_of(store, kind), 0.6)
    report = copied(store, tmp_path / "copy")
    held = bytes_of(store)
    assert bytes_of(tmp_path / "copy") == held
    assert (report.files_copied, report.bytes_copied) == (len(held), sum(map(len, held.values())))
    assert (report.bytes_lost, report.left_out) == (0, ())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["root", "hot", "log", "list of segments"])
def test_what_is_no_file_is_left_out_and_told(
    store: Path, tmp_path: Path, before: dict[int, Row], kind: str, place: str
) -> None:
    path = file_of(store, kind)
    PLACES[place](path)
    report = copied(store, tmp_path / "copy")
    name = path.relative_to(store)
    assert report.left_out == (str(name),)
    assert kind_of(tmp_path / "copy" / name) is None
    check_account(tmp_path / "copy", salvaged(tmp_path / "copy"), before)


def test_what_the_disk_does_not_give_is_zeros_and_counted(
    store: Path, tmp_path: Path, before: dict[int, Row]
) -> None:
    path = file_of(store, "text")
    report = copied(store, tmp_path / "copy", FailingFiles(path, errno.EIO))
    assert report.bytes_lost == path.stat().st_size
    assert not any((tmp_path / "copy" / path.relative_to(store)).read_bytes())
    check_account(tmp_path / "copy", salvaged(tmp_path / "copy"), before)


def test_what_may_not_be_read_ends_it(store: Path, tmp_path: Path) -> None:
    path = file_of(store, "text")
    with pytest.raises(StoreError, match="Permission denied") as refused:
        copied(store, tmp_path / "copy", FailingFiles(path, errno.EACCES))
    assert path.name in str(refused.value)
    for act in (lambda: open_store(tmp_path / "copy", "r"), lambda: salvaged(tmp_path / "copy")):
        with pytest.raises(StoreError, match="was not finished; run it again"):
            act()
    copied(store, tmp_path / "copy")
    assert bytes_of(tmp_path / "copy") == bytes_of(store)


def test_a_power_loss_leaves_what_is_done_again_or_finished(base: Path, tmp_path: Path) -> None:
    held = bytes_of(base)
    for at in range(0, 200, 9):
        root = tmp_path / str(at)
        root.mkdir()
        files = FaultyFiles(root, Fault(at, among=("sync", "fsync_dir", "rename", "mkdir", "unlink")))
        with suppress(Exception):
            copied(base, root / "copy", to=files)
        left = files.after_power_loss(tmp_path / f"after-{at}", None)
        with suppress(StoreError):
            copied(base, left / "copy")
        found = bytes_of(left / "copy")
        found.pop("backup.json", None)  # it went last
        assert found == held
        shutil.rmtree(root)
        shutil.rmtree(left)


def test_what_is_there_already_is_left_alone(store: Path, tmp_path: Path) -> None:
    build_store(tmp_path / "other")
    with open_store(store, "r") as ring:
        ring.backup(tmp_path / "backup")
    shutil.rmtree(tmp_path / "backup" / "_manifest")
    for name in ("other", "backup"):
        held = bytes_of(tmp_path / name)
        with pytest.raises(StoreError, match="give an empty or a new directory"):
            copied(store, tmp_path / name)
        assert bytes_of(tmp_path / name) == held
    with pytest.raises(ConfigError, match="lies in the store"):
        copied(store, store / "copy")
    with pytest.raises(StoreError, match="no treering store there"):
        copied(tmp_path / "nothing", tmp_path / "new")


# -- from a bucket ------------------------------------------------------------------------------------------------

HARM: dict[str, Callable[[bytearray], bytearray]] = {
    "flipped": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "cut": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"12345678",
    "missing": lambda data: bytearray(),
}


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """The objects of a store in a bucket with events in segments and in parts of the log; only to be read."""
    store = MemoryStore()
    files = object_files(store, grace_s=0.0)
    with Ring.open(ROOT, decoder=decode, files=files) as ring:
        ring.append(records(range(300)))
        ring.flush()
        embed(ring)
        ring.append(records(range(300, 600)))
        ring.flush()
        for first in range(600, 660, 10):
            ring.append(records(range(first, first + 10)))
    bucket = Bucket(store, ROOT)
    return {found.key: bucket.read(found.key) for found in bucket.below("")}


def bucket_of(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    bucket = Bucket(store, ROOT)
    for key, data in objects.items():
        bucket.replace(key, data)
    return store


def in_bucket(store: MemoryStore) -> dict[int, Row]:
    with Ring.open(ROOT, "r", decoder=decode, files=object_files(store)) as ring:
        return rows_in(ring)


def test_a_store_in_a_bucket_comes_whole(objects: dict[str, bytes], tmp_path: Path) -> None:
    store = bucket_of(objects)
    copied(ROOT, tmp_path / "copy", object_files(store))
    assert stored_rows(tmp_path / "copy") == in_bucket(store)
    assert check_store(OS_FILES, Layout(tmp_path / "copy"), deep=True).is_clean


@pytest.mark.parametrize("harm", HARM)
def test_whichever_object_is_damaged_the_rest_of_the_store_is_salvaged(
    objects: dict[str, bytes], tmp_path: Path, harm: str
) -> None:
    before = in_bucket(bucket_of(objects))
    victims = {key.rpartition("/")[2].partition("-")[0]: key for key in objects if not key.startswith("wal/")}
    parts = sorted(key for key in objects if key.startswith("wal/") and len(objects[key]) > 24)
    for key in (*victims.values(), parts[0], parts[2]):
        data = HARM[harm](bytearray(objects[key]))
        store = bucket_of(
            {**objects, key: bytes(data)} if data else {k: objects[k] for k in objects if k != key}
        )
        copy = tmp_path / key.replace("/", "-")
        copied(ROOT, copy, object_files(store))
        if check_store(OS_FILES, Layout(copy), deep=True).is_clean:
            # The end of a log that lost a part is the same as one that it was never added to.
            assert key.startswith("wal/")
            continue
        with suppress(StoreError):  # of derived files nothing is out of reach
            salvaged(copy)
        after = stored_rows(copy)
        lost = before.keys() - after.keys()
        assert after.keys() <= before.keys()
        if not key.startswith("wal/") and not key.endswith("hot.arrow"):
            assert not lost
        assert len(lost) <= 310


def test_of_a_log_that_lost_a_part_both_sides_are_kept(objects: dict[str, bytes], tmp_path: Path) -> None:
    parts = sorted(key for key in objects if key.startswith("wal/") and len(objects[key]) > 24)
    store = bucket_of({key: data for key, data in objects.items() if key != parts[2]})
    with pytest.raises(DamageError, match="a part is missing"):
        in_bucket(store)
    report = copied(ROOT, tmp_path / "copy", object_files(store))
    assert report.bytes_lost == len(objects[parts[2]])
    salvaged(tmp_path / "copy")
    assert set(stored_rows(tmp_path / "copy")) == set(range(620)) | set(range(630, 660))


def test_a_salvage_in_a_bucket_says_which_way_leads_to_one(objects: dict[str, bytes]) -> None:
    files = object_files(bucket_of(objects))
    with pytest.raises(ConfigError) as refused:
        salvage(files, Layout(ROOT), decode, lambda *_: (_ for _ in ()).throw(AssertionError))
    assert "`treering restore --damaged s3://bucket/store DIR`" in str(refused.value)


def test_a_damaged_object_says_which_segment_it_is_of(objects: dict[str, bytes]) -> None:
    key = next(key for key in objects if key.endswith("hot.arrow"))
    flipped = bytearray(objects[key])
    flipped[len(flipped) // 2] ^= 1
    store = bucket_of({**objects, key: bytes(flipped)})
    with Ring.open(ROOT, "r", decoder=decode, files=object_files(store)) as ring, ring.snapshot() as snapshot:
        with pytest.raises(
            DamageError, match=r"300 events of segment .* from .* to .* are out of reach"
        ) as told:
            for part in snapshot.parts:
                _ = part.seq
        assert told.value.segment_id == key.split("/")[1]
        assert told.value.path == ROOT / key
