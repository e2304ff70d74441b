"""What is left of a catalog on disk: traces of a damaged manifest, older ones, and whole lists by kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .batch import ModelInfo
from .catalog import load_list, load_model
from .check_catalog import KINDS
from .check_leftovers import names_below
from .errors import DamageError, StoreError
from .files import Files, crc32c
from .layout import Layout
from .listing import Listing
from .manifest import ListFile, Root, read_root, root_versions
from .meta import StoredFile

WholeLists = dict[str, dict[ListFile, Mapping[str, Any]]]
"""By kind, lists that could be read with their entries."""

_LIST = re.compile(r"(segments|ledger|rejects|audit|model)-(\d{8,})\.json")
_NAMED = re.compile(rb'"name":"([a-z]+-\d{8,}\.json)","bytes":\d+,"crc32c":\d+(?:,"n":(\d+))?')
_FACT = re.compile(rb'"(wal_floor|next_seq|epoch)":(\d{1,18})\b')
_STORE = re.compile(rb'"store_id":"([0-9a-f]{32})"')


@dataclass(slots=True)
class Traces:
    """What can still be read of a damaged manifest: names of lists with their entries, and numbers."""

    n_entries: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    store_id: str = ""

    @classmethod
    def read(cls, data: bytes) -> Traces:
        """Read them: each may be wrong, and is only believed where something else agrees."""
        named = {name.decode(): int(n or 1) for name, n in _NAMED.findall(data)}
        facts = {name.decode(): int(number) for name, number in _FACT.findall(data)}
        store = _STORE.search(data)
        return cls(named, facts, "" if store is None else store[1].decode())


def older_root(files: Files, layout: Layout, version: int) -> Root | None:
    """Give the newest manifest below a version that is whole, None where there is none."""
    for older in reversed(root_versions(files, layout.manifest)):
        if older < version:
            with suppress(DamageError, FileNotFoundError):
                return read_root(files, layout.manifest, older)
    return None


def lists_on_disk(files: Files, layout: Layout) -> tuple[WholeLists, list[tuple[str, StoredFile]]]:
    """Give all whole lists by kind, and the others."""
    whole: WholeLists = {kind: {} for kind in KINDS}
    damaged: list[tuple[str, StoredFile]] = []
    for name in names_below(files, layout.lists):
        match = _LIST.fullmatch(name)
        if match is None or match[1] == "model":
            continue
        data = files.read(layout.lists / name)
        stored = StoredFile(name, len(data), crc32c(data))
        try:
            file = ListFile(stored, 0)
            found = load_list(files, layout.lists, match[1], file, KINDS[match[1]], Listing.empty())
        except (DamageError, FileNotFoundError):
            damaged.append((match[1], stored))
        else:
            whole[match[1]][ListFile(stored, len(found))] = found
    return whole, damaged


def missing_lists(
    traces: Traces,
    whole: WholeLists,
    damaged: Collection[tuple[str, StoredFile]],
) -> list[tuple[str, StoredFile]]:
    """Give the lists that a damaged manifest names and that are not there, unless their names were damaged."""
    missing: list[tuple[str, StoredFile]] = []
    for kind in KINDS:
        there = {file.file.name for file in whole[kind]} | {file.name for one, file in damaged if one == kind}
        named = {name for name in traces.n_entries if name.startswith(f"{kind}-")}
        if len(named - there) > len(there - named):
            missing += [(kind, StoredFile(name, 0, 0)) for name in sorted(named - there)]
    return missing


def damaged_model(files: Files, layout: Layout) -> StoredFile | None:
    """Give a file that should say what the vectors are made with, None where there is none."""
    names = [name for name in names_below(files, layout.lists) if name.startswith("model-")]
    return StoredFile(names[-1], 0, 0) if names else None


def newest_lists(lists: Mapping[ListFile, Mapping[str, Any]]) -> tuple[Listing[Any], list[ListFile]]:
    """Give the lists that share no key with one of a higher number, and the others."""
    entries: dict[str, Any] = {}
    kept: dict[ListFile, tuple[str, ...]] = {}
    obsolete: list[ListFile] = []
    for file in sorted(lists, key=lambda file: _number(file.file.name), reverse=True):
        if entries.keys().isdisjoint(lists[file]):
            entries |= lists[file]
            kept[file] = tuple(lists[file])
        else:
            obsolete.append(file)
    return Listing(entries, kept), obsolete


def _number(name: str) -> int:
    match = _LIST.fullmatch(name)
    return -1 if match is None else int(match[2])


def newest_model(files: Files, layout: Layout) -> tuple[ModelInfo | None, StoredFile | None]:
    """Give what the vectors are made with, and its file."""
    names = [name for name in names_below(files, layout.lists) if name.startswith("model-")]
    for name in sorted(names, reverse=True):
        with suppress(DamageError, StoreError, FileNotFoundError):
            data = files.read(layout.lists / name)
            stored = StoredFile(name, len(data), crc32c(data))
            return load_model(files, layout, stored), stored
    return None, None
