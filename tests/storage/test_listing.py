"""Lists that are read when somebody looks, and only those that are new."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.records import decode, position, raw_batch
from treering.storage.files import OsFiles
from treering.storage.listing import Listing
from treering.storage.manifest import ListFile
from treering.storage.ring import Ring
from treering.storage.stored_file import StoredFile


class Counting(OsFiles):
    """Files that tell which lists of positions were read."""

    def __init__(self) -> None:
        self.read_lists: list[str] = []

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        if path.name.startswith("ledger-"):
            self.read_lists.append(path.name)
        return super().read(path, start, n_bytes)


def test_a_reader_reads_each_list_of_positions_once(tmp_path: Path) -> None:
    path, files = tmp_path / "ring", Counting()
    with Ring.open(path, decoder=decode) as ring, Ring.open(path, "r", decoder=decode, files=files) as reader:
        for number in range(5):
            for source in range(40):
                ring.append(
                    raw_batch([]), positions=[replace(position(number), fingerprint=f"{number}-{source}")]
                )
            ring.flush()
            assert len(reader.positions()) == 40 * (number + 1)
    assert len(files.read_lists) == len(set(files.read_lists)) > 5


class Older:
    """What a listing needs as long as it was not read."""


def reading_later() -> tuple[Listing[int], weakref.ref[Older]]:
    older = Older()

    def load() -> Listing[int]:
        assert older is not None
        return Listing({"a": 1}, {ListFile(StoredFile("f", 1, 2), 1): ("a",)})

    return Listing.later(load), weakref.ref(older)


@pytest.mark.parametrize("look", ["entries", "lists"])
def test_a_listing_that_is_read_later_lets_go_of_what_read_it(look: str) -> None:
    """Else each version would keep the one before it, and so all of them."""
    listing, older = reading_later()
    assert not listing.is_loaded and older() is not None
    assert len(getattr(listing, look)) == 1
    assert listing.is_loaded and older() is None
    assert dict(listing.entries) == {"a": 1} and [file.n for file in listing.files] == [1]


def test_a_listing_that_could_not_be_read_is_tried_again() -> None:
    answers: list[Exception | Listing[int]] = [OSError("made to fail"), Listing({"a": 1}, {})]

    def load() -> Listing[int]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    listing = Listing.later(load)
    with pytest.raises(OSError, match="made to fail"):
        len(listing.entries)
    assert not listing.is_loaded
    assert listing.entries["a"] == 1
