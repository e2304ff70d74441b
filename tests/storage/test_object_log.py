"""Files that grow by parts: what one process reads of them while it adds to them, in whatever order."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from tests.storage.buckets import ROOT, HookedBucket
from treering.storage.bucket import Bucket
from treering.storage.object_log import GrowingFiles

NAMES = ("wal/000001.wal", "wal/000002.wal")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["add", "next file", "look", "read", "size", "another adds"]), max_size=14),
    st.integers(0, 9),
)
def test_a_file_is_the_parts_that_were_added_whenever_somebody_looked(steps: list[str], first: int) -> None:
    bucket = Bucket(MemoryStore(), ROOT)
    files, held, key = GrowingFiles(bucket), {NAMES[0]: b""}, NAMES[0]
    for number, step in enumerate(["add", *steps]):
        data = bytes([first + number]) * (number % 3 + 1)
        if step in ("add", "another adds"):
            # Another process that adds is a writer that took over; this one only reads then.
            files = GrowingFiles(bucket) if step == "another adds" else files
            files.add(key, len(held[key]), data)
            held[key] += data
        elif step == "next file" and key == NAMES[0]:
            key = NAMES[1]
            files.add(key, 0, data)
            held[key] = data
        elif step == "look":
            assert files.refresh("wal") == [name.rpartition("/")[2] for name in held]
        elif step == "read":
            assert all(files.read(name, 0, -1) == content for name, content in held.items())
            assert files.read(key, 1, 2) == held[key][1:3]
        else:
            assert all(files.parts(name).end == len(content) for name, content in held.items())
    assert all(files.read(name, 0, -1) == content for name, content in held.items())
    assert files.n_parts(key) == len(bucket.below(key))


def test_a_listing_that_a_part_came_into_is_not_gone_by() -> None:
    thread = threading.Thread(target=lambda: files.add(NAMES[0], 1, b"b"))
    files = GrowingFiles(HookedBucket(MemoryStore(), lambda kind, _: kind == "list", thread.start))
    files.add(NAMES[0], 0, b"a")
    files.refresh("wal")
    thread.join()
    files.add(NAMES[0], 2, b"c")
    assert files.read(NAMES[0], 0, -1) == b"abc"
