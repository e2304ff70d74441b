"""Every operation of `Files` on a bucket, against the same on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from tests.effort import examples
from treering.storage.bucket import PIECE_BYTES, Bucket
from treering.storage.errors import DamageError, StoreError
from treering.storage.files import OS_FILES, Files, crc32c, write_file
from treering.storage.stored_file import StoredFile

from .buckets import ROOT, keys, object_files

DIRECTORIES = ("_manifest", "meta", "wal", "seg", "seg/a", "rejects")
LOGS = ("wal/000001.wal", "wal/000002.wal")
PLACES = ("meta/a", "meta/b", "_manifest/1.tmp", "_manifest/1.json", "seg/a/x", "seg/a/y", "rejects/r")

data = st.binary(min_size=1, max_size=12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("new"), st.sampled_from(PLACES + LOGS), data),
        st.tuples(st.just("append"), st.sampled_from(LOGS), data),
        st.tuples(st.just("cut"), st.sampled_from(LOGS), st.integers(0, 20)),
        st.tuples(st.just("link"), st.sampled_from(PLACES), st.sampled_from(PLACES)),
        st.tuples(st.just("rename"), st.sampled_from(PLACES + LOGS), st.sampled_from(PLACES + LOGS)),
        st.tuples(st.just("unlink"), st.sampled_from(PLACES + LOGS)),
        st.tuples(st.just("clear"), st.just("seg/a")),
        st.tuples(st.just("list"), st.sampled_from(DIRECTORIES)),
        st.tuples(st.just("size"), st.sampled_from(PLACES + LOGS)),
        st.tuples(st.just("read"), st.sampled_from(PLACES + LOGS), st.integers(0, 15), st.integers(-1, 15)),
        st.tuples(st.just("map"), st.sampled_from(PLACES)),
    ),
    max_size=30,
)


@examples(60)
@given(steps)
@example([("new", "_manifest/1.json", b"a"), ("new", LOGS[0], b"a"), ("new", LOGS[0], b"b")])
def test_a_bucket_answers_as_a_disk_does(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    disk = tmp_path_factory.mktemp("disk")
    files = object_files(MemoryStore())
    for directory in DIRECTORIES:
        OS_FILES.mkdir(disk / directory)
        files.mkdir(ROOT / directory)
    for step in steps:
        assert _told(files, ROOT, *step) == _told(OS_FILES, disk, *step), step
    for directory in DIRECTORIES:
        assert _told(files, ROOT, "list", directory) == _told(OS_FILES, disk, "list", directory)


def _told(files: Files, root: Path, what: str, name: str, *more: Any) -> Any:
    try:
        return _done(files, root, what, name, *more)
    except (FileNotFoundError, FileExistsError) as error:
        return type(error)


def _done(files: Files, root: Path, what: str, name: str, *more: Any) -> Any:
    path = root / name
    if what == "new":
        if name in LOGS and path.name in files.listdir(path.parent):
            raise FileExistsError  # who makes a log that is there was overtaken: test_object_writers.py
        return write_file(files, path, [more[0]])
    if what == "append":
        handle = files.append(path)
        handle.write(more[0])
        handle.sync()
        return handle.close()
    if what == "cut":
        # To nothing is left out: a file of the log begins with its header, and is removed if that is bad.
        handle = files.append(path)
        handle.truncate(min(max(1, more[0]), files.size(path)))
        handle.sync()
        return handle.close()
    if what in ("link", "rename"):
        return _moved(files, what, path, root / more[0])
    if what == "unlink":
        # A bucket does not say whether there was something to remove.
        files.size(path)
        return files.unlink(path)
    if what == "clear":
        for inner in files.listdir(path):
            files.unlink(path / inner)
        return None
    if what == "list":
        # A bucket has no empty directories.
        return [inner for inner in files.listdir(path) if root / name / inner != root / "seg/a"]
    if what == "read":
        return files.read(path, *more)
    return files.size(path) if what == "size" else files.map(path).to_pybytes()


def _moved(files: Files, what: str, source: Path, target: Path) -> None:
    files.size(source)
    if what == "rename" and source == target:
        return
    {"link": files.link, "rename": files.rename}[what](source, target)


def test_a_file_is_there_as_a_whole_from_its_sync_on_and_not_before() -> None:
    store = MemoryStore()
    files = object_files(store)
    handle = files.create(ROOT / "meta/a")
    handle.write(b"one")
    assert keys(store) == []
    handle.write(b"two")
    handle.sync()
    assert object_files(store).read(ROOT / "meta/a") == b"onetwo"
    with pytest.raises(StoreError, match="written once"):
        handle.write(b"more")
    handle.close()
    unsynced = files.create(ROOT / "meta/b")
    unsynced.write(b"x")
    unsynced.close()
    assert keys(store) == ["meta/a"]


def test_a_taken_name_is_refused_whoever_took_it() -> None:
    store = MemoryStore()
    files = object_files(store)
    write_file(files, ROOT / "meta/a", [b"same"])
    for other in (files, object_files(store)):
        with pytest.raises(FileExistsError):
            write_file(other, ROOT / "meta/a", [b"same"])
        with pytest.raises(FileExistsError):
            other.link(ROOT / "meta/a", ROOT / "meta/a")


class _LostAnswers(Bucket):
    """A client whose first attempt of each put is carried out, and repeated because its answer was lost."""

    def ask(self, kind: str, key: str, request: Any) -> Any:
        if kind == "put":
            super().ask(kind, key, request)
        return super().ask(kind, key, request)


def test_a_put_that_is_repeated_after_a_lost_answer_is_no_collision() -> None:
    store = MemoryStore()
    write_file(object_files(_LostAnswers(store, ROOT)), ROOT / "meta/a", [b"once"])
    assert object_files(store).read(ROOT / "meta/a") == b"once"
    with pytest.raises(FileExistsError):
        write_file(object_files(_LostAnswers(store, ROOT)), ROOT / "meta/a", [b"once"])


@contextmanager
def _log(files: Files, name: str, *parts: bytes) -> Iterator[Any]:
    handle = files.create(ROOT / name)
    for part in parts:
        handle.write(part)
        handle.sync()
    yield handle
    handle.close()


def test_each_sync_of_the_log_is_one_object_named_by_its_offset() -> None:
    store = MemoryStore()
    with _log(object_files(store), "wal/000001.wal", b"head", b"frame", b"x"):
        pass
    assert keys(store) == [f"wal/000001.wal/{offset:020d}" for offset in (0, 4, 9)]
    files = object_files(store)
    assert files.listdir(ROOT / "wal") == ["000001.wal"]
    assert files.size(ROOT / "wal/000001.wal") == 10
    assert files.read(ROOT / "wal/000001.wal", 2, 5) == b"adfra"


def test_nothing_is_added_to_a_sealed_log() -> None:
    store = MemoryStore()
    with _log(object_files(store), "wal/000001.wal", b"head") as handle:
        object_files(store).seal(ROOT / "wal/000001.wal")
        handle.write(b"late")
        with pytest.raises(FileExistsError):
            handle.sync()
    files = object_files(store)
    files.seal(ROOT / "wal/000001.wal")
    assert files.read(ROOT / "wal/000001.wal") == b"head"
    assert len(keys(store)) == 2


def test_a_seal_comes_behind_what_was_added_in_the_meantime() -> None:
    store = MemoryStore()
    other = object_files(store)
    with _log(object_files(store), "wal/000001.wal", b"head") as handle:
        assert other.read(ROOT / "wal/000001.wal") == b"head"
        handle.write(b"more")
        handle.sync()
        other.seal(ROOT / "wal/000001.wal")
        assert other.read(ROOT / "wal/000001.wal") == b"headmore"


def test_a_part_that_is_missing_is_damage_that_is_named() -> None:
    store = MemoryStore()
    with _log(object_files(store), "wal/000001.wal", b"head", b"frame", b"x"):
        pass
    store.delete("wal/000001.wal/00000000000000000004")
    with pytest.raises(DamageError, match=r"000001.wal at byte 4: a part is missing, the next begins at 9"):
        object_files(store).read(ROOT / "wal/000001.wal")


def test_what_is_left_of_a_removed_log_keeps_nobody_from_reading_the_next() -> None:
    store = MemoryStore()
    for name in ("wal/000001.wal", "wal/000002.wal"):
        with _log(object_files(store), name, b"head", b"frame"):
            pass
    store.delete("wal/000001.wal/00000000000000000000")
    files = object_files(store)
    assert files.listdir(ROOT / "wal") == ["000001.wal", "000002.wal"]
    assert files.read(ROOT / "wal/000002.wal") == b"headframe"


def test_a_file_before_the_last_is_read_whole_though_the_listing_was_too_early() -> None:
    store = MemoryStore()

    class Early(Bucket):
        """Lists the log as it was before its first file was finished, together with the second."""

        def below(self, prefix: str, after: str | None = None) -> Any:
            found = super().below(prefix, after)
            return found if prefix != "wal" else [one for one in found if not one.key.endswith("4")]

    for name in ("wal/000001.wal", "wal/000002.wal"):
        with _log(object_files(store), name, b"head"):
            pass
    handle = object_files(store).append(ROOT / "wal/000001.wal")
    handle.write(b"frame")
    handle.sync()
    files = object_files(Early(store, ROOT))
    assert files.listdir(ROOT / "wal") == ["000001.wal", "000002.wal"]
    assert files.read(ROOT / "wal/000001.wal") == b"headframe"


def test_the_writer_s_lock_probes_and_leaves_nothing_behind() -> None:
    store = MemoryStore()
    files = object_files(store)
    lock = files.lock(ROOT / "LOCK", exclusive=True)
    assert lock is not None
    assert files.lock(ROOT / "LOCK", exclusive=True) is None
    assert keys(store) == []
    lock.release()
    lock.release()
    assert files.lock(ROOT / "LOCK", exclusive=True) is not None


def test_a_large_file_is_taken_in_pieces_and_checked() -> None:
    store = MemoryStore()
    content = bytes(range(256)) * (PIECE_BYTES // 256 + 1)
    stored = write_file(object_files(store), ROOT / "seg/a/x", [content])
    files = object_files(store)
    assert files.fetch(ROOT / "seg/a/x", stored).to_pybytes() == content
    assert files.bucket.requests == {"get": 2}
    assert files.bucket.bytes_read == len(content)


def test_a_file_that_is_not_as_stored_is_damage() -> None:
    store = MemoryStore()
    stored = write_file(object_files(store), ROOT / "meta/a", [b"content"])
    store.put("meta/a", b"Content")
    wrong = (
        f"meta/a: it has 7 bytes with checksum {crc32c(b'Content'):08x}, expected 7 with {stored.crc32c:08x}"
    )
    with pytest.raises(DamageError, match=wrong):
        object_files(store).fetch(ROOT / "meta/a", stored)
    store.put("meta/a", b"cont")
    with pytest.raises(DamageError, match="4 bytes"):
        object_files(store).fetch(ROOT / "meta/a", stored)
    with pytest.raises(FileNotFoundError) as raised:
        object_files(store).fetch(ROOT / "meta/b", StoredFile("b", 1, 0))
    assert raised.value.filename == "s3://bucket/store/meta/b"


def test_what_was_fetched_beforehand_costs_no_further_request(tmp_path: Path) -> None:
    store = MemoryStore()
    writer = object_files(store)
    stored = [write_file(writer, ROOT / "meta" / name, [name.encode()]) for name in ("a", "b", "c")]
    files = object_files(store, tmp_path)
    files.prefetch(ROOT / "meta", [*stored, StoredFile("gone", 1, 0)])
    assert files.bucket.requests["get"] == 4
    assert [files.fetch(ROOT / "meta" / s.name, s).to_pybytes() for s in stored] == [b"a", b"b", b"c"]
    assert files.bucket.requests["get"] == 4


def test_sizes_are_of_files_and_not_of_their_parts() -> None:
    store = MemoryStore()
    files = object_files(store)
    write_file(files, ROOT / "meta/a", [b"abc"])
    with _log(files, "wal/000001.wal", b"head", b"frame"):
        pass
    assert files.sizes(ROOT) == {ROOT / "meta/a": 3, ROOT / "wal/000001.wal": 9}
