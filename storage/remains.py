"""What is left of a catalog on disk: traces of a damaged manifest, older ones, and whole lists by kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .batch import ModelInfo
from .blame import past_damage
from .catalog import load_list, load_model
from .check_catalog import KINDS
from .files import Files, crc32c, names_below
from .layout import Layout
from .listing import Listing
from .manifest import ListFile, Root, read_root, root_versions
from .stored_file import StoredFile

WholeLists = dict[str, dict[ListFile, Mapping[str, Any]]]
"""By kind, lists that could be read with their entries."""

_LIST = re.compile(r"(segments|ledger|rejects|audit)-(\d{8,})\.json")
_ARRAY = r'"%s":\[([^\]]*)\]'
_NAMED = re.compile(rb'{"name":"([a-z]+-\d{8,}\.json)","bytes":(\d{1,18}),"crc32c":(\d{1,10}),"n":(\d{1,9})}')
_FACT = re.compile(rb'"(wal_floor|next_seq|epoch)":(\d{1,18})\b')
_STORE = re.compile(rb'"store_id":"([0-9a-f]{32})"')


@dataclass(slots=True)
class Traces:
    """What can still be read of a damaged manifest; each may be wrong, and is believed where the disk agrees.

    lists: by kind, the lists that it names, of kinds of which all names can be read.
    """

    lists: dict[str, tuple[ListFile, ...]] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    store_id: str = ""

    @classmethod
    def read(cls, data: bytes) -> Traces:
        """Read them."""
        lists = {kind: found for kind in KINDS if (found := _named_lists(data, kind)) is not None}
        facts = {name.decode(): int(number) for name, number in _FACT.findall(data)}
        store = _STORE.search(data)
        return cls(lists, facts, "" if store is None else store[1].decode())


def _named_lists(data: bytes, kind: str) -> tuple[ListFile, ...] | None:
    array = re.search((_ARRAY % kind).encode(), data)
    if array is None:
        return None
    named = _NAMED.findall(array[1])
    text = b",".join(match[0] for match in _NAMED.finditer(array[1]))
    if text != array[1] or any(not name.startswith(kind.encode()) for name, *_ in named):
        return None
    return tuple(
        ListFile(StoredFile(name.decode(), int(n_bytes), int(checksum)), int(n))
        for name, n_bytes, checksum, n in named
    )


def older_root(files: Files, layout: Layout, version: int) -> Root | None:
    """Give the newest manifest below a version that is whole, None where there is none."""
    for older in reversed(root_versions(files, layout.manifest)):
        if older < version:
            with past_damage():
                return read_root(files, layout.manifest, older)
    return None


def lists_on_disk(files: Files, layout: Layout) -> tuple[WholeLists, dict[str, list[StoredFile]]]:
    """Give all whole lists by kind, and the others by kind."""
    whole: WholeLists = {kind: {} for kind in KINDS}
    damaged: dict[str, list[StoredFile]] = {kind: [] for kind in KINDS}
    for name in names_below(files, layout.lists):
        match = _LIST.fullmatch(name)
        if match is None:
            continue
        kind, stored = match[1], StoredFile(name, 0, 0)
        with past_damage():
            stored = _stored(files, layout, name)
            found = load_list(files, layout.lists, kind, ListFile(stored, 0), KINDS[kind], Listing.empty())
            whole[kind][ListFile(stored, len(found))] = found
            continue
        damaged[kind].append(stored)
    return whole, damaged


def lost_lists(
    named: Collection[ListFile], whole: Collection[ListFile], damaged: Collection[StoredFile]
) -> Iterator[tuple[StoredFile, int]]:
    """Give the lists of a kind that cannot be read, and how many entries each has (0: nobody knows).

    named: those that a damaged manifest names. One of these that is not there is lost, unless its name is damaged.
    """
    told = {one.file.name: one.n for one in named}
    yield from ((file, told.get(file.name, 0)) for file in damaged)
    there = {one.file.name for one in whole} | {file.name for file in damaged}
    missing = [one for one in named if one.file.name not in there]
    if len(missing) > len(there - told.keys()):
        yield from ((one.file, one.n) for one in missing)


def named_listing(
    named: tuple[ListFile, ...], lists: Mapping[ListFile, Mapping[str, Any]]
) -> Listing[Any] | None:
    """Give the listing of these lists, None unless all of them are on disk as they are named."""
    if not set(named) <= lists.keys():
        return None
    entries = {key: entry for file in named for key, entry in lists[file].items()}
    return Listing(entries, {file: tuple(lists[file]) for file in named})


def newest_listing(lists: Mapping[ListFile, Mapping[str, Any]]) -> Listing[Any]:
    """Give the lists that share no key with one of a higher number: when an entry changes, its list is made anew."""
    entries: dict[str, Any] = {}
    kept: dict[ListFile, tuple[str, ...]] = {}
    for file in sorted(lists, key=lambda file: _number(file.file.name), reverse=True):
        if entries.keys().isdisjoint(lists[file]):
            entries |= lists[file]
            kept[file] = tuple(lists[file])
    return Listing(entries, kept)


def newest_model(files: Files, layout: Layout) -> tuple[ModelInfo | None, StoredFile | None]:
    """Give what the vectors are made with, and its file; without the first where that is damaged."""
    names = [name for name in names_below(files, layout.lists) if name.startswith("model-")]
    for name in sorted(names, reverse=True):
        with past_damage():
            stored = _stored(files, layout, name)
            return load_model(files, layout, stored), stored
    return None, StoredFile(names[-1], 0, 0) if names else None


def _stored(files: Files, layout: Layout, name: str) -> StoredFile:
    data = files.read(layout.lists / name)
    return StoredFile(name, len(data), crc32c(data))


def _number(name: str) -> int:
    match = _LIST.fullmatch(name)
    return -1 if match is None else int(match[2])
