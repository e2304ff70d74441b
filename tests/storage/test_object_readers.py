"""Who reads a store in a bucket keeps what he reads for the grace period, asks for little, and is told of damage."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tests.storage.bucket_ring import open_in_bucket
from treering.storage.address import object_path
from treering.storage.bucket import Bucket, Found
from treering.storage.errors import DamageError, StoreError
from treering.storage.object_cache import FileCache
from treering.storage.objects import GRACE_S, ObjectFiles
from treering.storage.remote import GoneError
from treering.storage.ring import Ring

from .buckets import ROOT, keys, object_files
from .records import MODEL, decode, fill, numbers_in, raw_batch, stored_numbers


def test_a_reader_keeps_its_files_for_the_grace_period_and_no_longer() -> None:
    store = MemoryStore()

    class Clock(Bucket):
        """A server by whose clock manifests come ten minutes apart."""

        def _found(self, objects: object) -> list[Found]:
            found = super()._found(objects)  # type: ignore[arg-type]
            return [Found(one.key, one.n_bytes, one.modified + self._age(one.key)) for one in found]

        def _age(self, key: str) -> timedelta:
            name = key.rpartition("/")[2].partition(".")[0]
            return (
                timedelta(minutes=10 * int(name))
                if key.startswith("_manifest/") and name.isdigit()
                else timedelta()
            )

    files = object_files(Clock(store, ROOT))
    with open_in_bucket(files) as ring:
        for n in range(4):
            ring.append(raw_batch(range(n, n + 1)))
            ring.flush()
        roots = [key for key in keys(store) if key.startswith("_manifest/")]
        # Made at 60 minutes was the newest, at 50 the one before, which replaced the one of 40 ten minutes ago.
        assert roots == [f"_manifest/{version:020d}.json" for version in (4, 5, 6)]


def _collect(ring: Ring) -> None:
    assert ring._writer is not None
    ring._writer.collect()


def test_a_writer_that_rests_removes_what_expired_meanwhile() -> None:
    store, now_s = MemoryStore(), [1000.0]
    with open_in_bucket(object_files(store, now_s=lambda: now_s[0])) as ring:
        ring.append(raw_batch(range(2)))
        ring.flush()
        held = keys(store)
        now_s[0] += GRACE_S - 1
        _collect(ring)
        assert keys(store) == held
        now_s[0] += 2
        _collect(ring)
        assert [key for key in keys(store) if key.startswith("_manifest/")] == [
            key for key in held if key.startswith("_manifest/")
        ][-1:]
        assert stored_numbers(ring) == [0, 1]


def test_a_reader_whose_version_expired_says_so_and_finds_the_newest() -> None:
    store = MemoryStore()
    writer = open_in_bucket(object_files(store, grace_s=0))
    for n in range(2):
        writer.append(raw_batch(range(2 * n, 2 * n + 2)))
        writer.flush()
    writer.set_model(MODEL)
    reader = open_in_bucket(object_files(store), "r")
    snapshot = reader.snapshot()
    fill(writer)
    with pytest.raises(GoneError, match="what was being read has expired, look again"):
        numbers_in(snapshot)
    snapshot.close()
    assert stored_numbers(reader) == [0, 1, 2, 3]


def test_a_file_that_the_newest_version_names_and_that_is_gone_is_damage() -> None:
    store = MemoryStore()
    with open_in_bucket(object_files(store)) as writer:
        writer.append(raw_batch(range(2)))
        writer.flush()
    store.delete(next(key for key in keys(store) if key.endswith("hot.arrow")))
    with (
        open_in_bucket(object_files(store), "r") as reader,
        pytest.raises(DamageError, match=r"hot.arrow: gone.*2 events of segment .* out of reach"),
    ):
        stored_numbers(reader)


def test_a_store_that_lost_its_manifests_is_damaged_and_not_new() -> None:
    store = MemoryStore()
    with open_in_bucket(object_files(store)) as writer:
        writer.append(raw_batch(range(2)))
        writer.flush()
    store.delete([key for key in keys(store) if key.startswith("_manifest/")])
    for mode in ("r", "w"):
        with pytest.raises(DamageError, match="no manifest"):
            open_in_bucket(object_files(store), mode)


@pytest.mark.parametrize(
    "address", ["s3://wal", "s3://bucket/wal", "s3://bucket/_manifest", "s3://_manifest/LOCK"]
)
def test_a_prefix_may_be_called_like_a_part_of_a_store(address: str) -> None:
    root, store = object_path(address), MemoryStore()
    for n in (0, 2):
        files = ObjectFiles(Bucket(store, root), FileCache(Path("/nonexistent"), 0), grace_s=0)
        with Ring.open(root, decoder=decode, files=files) as ring:
            ring.append(raw_batch(range(n, n + 2)))
            ring.flush()
            assert stored_numbers(ring) == list(range(n + 2))


def test_a_prefix_with_other_things_is_no_store() -> None:
    store = MemoryStore()
    store.put("photos/1.jpg", b"x")
    with pytest.raises(StoreError, match="holds 'photos' and is no treering store"):
        open_in_bucket(object_files(store))
    with pytest.raises(StoreError, match="no treering store there"):
        open_in_bucket(object_files(MemoryStore()), "r")


def test_an_opening_asks_for_no_file_of_a_segment_and_a_reader_only_for_what_it_reads(tmp_path: Path) -> None:
    store = MemoryStore()
    with open_in_bucket(object_files(store)) as writer:
        for n in range(40):
            writer.append(raw_batch([n], step_ns=10**16))
            writer.flush()

    class Noting(Bucket):
        def ask(self, kind: str, key: str, request: object) -> object:  # type: ignore[override]
            asked.append((kind, key))
            return super().ask(kind, key, request)  # type: ignore[arg-type]

    asked: list[tuple[str, str]] = []
    files = object_files(Noting(store, ROOT), tmp_path)
    reader = open_in_bucket(files, "r")
    # The manifests are listed, then root, two lists of segments; the log is listed, its header read.
    assert files.bucket.requests["list"] <= 2
    assert files.bucket.requests["get"] <= 5
    with reader.snapshot() as snapshot:
        part = next(part for part in snapshot.parts if part.t_min == 7 * 10**16)
        assert part.column("n#i").to_pylist() == [7]
    segments = {key.split("/")[1] for _, key in asked if key.startswith("seg/")}
    assert segments == {part.id}
    assert {key.split("/")[2] for _, key in asked if key.startswith("seg/")} <= {"hot.arrow", "segment.json"}
    asked.clear()
    again = object_files(Noting(store, ROOT), tmp_path)
    with open_in_bucket(again, "r") as reader, reader.snapshot() as snapshot:
        part = next(part for part in snapshot.parts if part.t_min == 7 * 10**16)
        assert part.column("n#i").to_pylist() == [7]
    # The second reader of this machine finds lists and segment in the cache.
    assert [key for kind, key in asked if kind == "get" and not key.startswith(("_manifest/", "wal/"))] == []
