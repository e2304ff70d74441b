"""A ring in a bucket, opened again and again."""

from __future__ import annotations

from obstore.store import MemoryStore

from treering.storage.objects import ObjectFiles
from treering.storage.ring import Ring

from .buckets import ROOT, object_files
from .records import decode, stored_numbers


def open_in_bucket(files: ObjectFiles, mode: str = "w") -> Ring:
    return Ring.open(ROOT, mode, decoder=decode, files=files, flush_bytes=4000)  # type: ignore[arg-type]


def numbers_in_bucket(store: MemoryStore) -> list[int]:
    with open_in_bucket(object_files(store), "r") as reader:
        return stored_numbers(reader)
