"""Keyed entries spread over immutable list files, so that a change rewrites few of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from .manifest import ListFile

T = TypeVar("T")

LIST_ENTRIES = 32
"""Most entries of a list file: at 10,000 segments a root names some 500 lists, a change rewrites 1 to 3."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Entries by key, and which keys stand in which file."""

    entries: Mapping[str, T]
    lists: Mapping[ListFile, tuple[str, ...]]

    @classmethod
    def empty(cls) -> Listing[T]:
        """No entries, no files."""
        return cls({}, {})

    @property
    def files(self) -> tuple[ListFile, ...]:
        """The list files, as a root names them."""
        return tuple(self.lists)


@dataclass(frozen=True, slots=True)
class Rewrite(Generic[T]):
    """A change of a listing: which files stay, and what the new ones must hold."""

    entries: Mapping[str, T]
    kept: Mapping[ListFile, tuple[str, ...]]
    groups: tuple[tuple[str, ...], ...]


def rewrite(listing: Listing[T], put: Mapping[str, T], drop: Collection[str]) -> Rewrite[T]:
    """Give the change that adds or replaces `put` and removes `drop`.

    Files that hold no changed key stay, but for the two emptiest if they are at most half full: so all but
    one or two files are more than half full.
    """
    if not put and not drop:
        return Rewrite(listing.entries, listing.lists, ())
    changed = {*put, *drop}
    touched = [file for file, keys in listing.lists.items() if not changed.isdisjoint(keys)]
    touched += _underfilled(listing, set(touched))
    kept = {file: keys for file, keys in listing.lists.items() if file not in set(touched)}
    entries = {key: entry for key, entry in listing.entries.items() if key not in drop} | dict(put)
    held = {key for file in touched for key in listing.lists[file]}
    moved = [key for key in entries if key in held or key not in listing.entries]
    return Rewrite(entries, kept, _groups(moved))


def _underfilled(listing: Listing[T], touched: Collection[ListFile]) -> list[ListFile]:
    sizes = sorted((file.n, file.file.name, file) for file in listing.lists if file not in touched)
    return [file for n, _, file in sizes[:2] if n <= LIST_ENTRIES // 2]


def _groups(keys: list[str]) -> tuple[tuple[str, ...], ...]:
    rest = iter(keys)
    return tuple(iter(lambda: tuple(islice(rest, LIST_ENTRIES)), ()))
