"""Keyed entries spread over immutable list files, so that a change rewrites few of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from .manifest import ListFile

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

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

    @classmethod
    def later(cls, load: Callable[[], Listing[T]]) -> Listing[T]:
        """Give what `load` gives, once somebody looks into it. Looking raises what `load` raises."""
        source = _Source(load)
        return cls(
            Later(source, lambda listing: listing.entries), Later(source, lambda listing: listing.lists)
        )

    def load(self) -> None:
        """See that it is in memory."""
        len(self.lists)

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory."""
        return not isinstance(self.lists, Later) or self.lists.is_loaded

    @property
    def files(self) -> tuple[ListFile, ...]:
        """The list files, as a root names them."""
        return tuple(self.lists)


class _Source(Generic[T]):
    """A listing that is loaded once; what loads it is let go then, since that may hold an older listing."""

    def __init__(self, load: Callable[[], Listing[T]]) -> None:
        self._load: Callable[[], Listing[T]] | None = load
        self._loaded: Listing[T] = Listing.empty()

    @property
    def is_loaded(self) -> bool:
        return self._load is None

    def get(self) -> Listing[T]:
        if self._load is not None:
            self._loaded = self._load()
            self._load = None
        return self._loaded


class Later(Mapping[K, V]):
    """A side of a listing, which is loaded when somebody looks into it."""

    def __init__(self, source: _Source[Any], side: Callable[[Listing[Any]], Mapping[K, V]]) -> None:
        self._source = source
        self._side = side

    @property
    def is_loaded(self) -> bool:
        """Whether somebody looked."""
        return self._source.is_loaded

    def __getitem__(self, key: K) -> V:
        return self._side(self._source.get())[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._side(self._source.get()))

    def __len__(self) -> int:
        return len(self._side(self._source.get()))


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
