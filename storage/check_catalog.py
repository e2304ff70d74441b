"""What can be read of a manifest version and its lists, and what is wrong with the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .audit import AuditRecord, check_chain
from .batch import ModelInfo
from .blame import told
from .catalog import load_list, load_model
from .errors import DamageError
from .files import Files
from .findings import SALVAGE, Finding, Severity
from .layout import Layout
from .ledger import Position
from .listing import Listing
from .manifest import ListFile, Root, read_root, root_path
from .meta import SegmentMeta
from .rejects import RejectFile
from .stored_file import StoredFile

KINDS: Mapping[str, Any] = {
    "segments": SegmentMeta,
    "ledger": Position,
    "rejects": RejectFile,
    "audit": AuditRecord,
}
"""Kinds of lists, and what their entries are."""

_OUT_OF_REACH = {
    "segments": "segments, which can be found again by what stands in their directories",
    "ledger": "source positions: loading those sources again would add their events a second time",
    "rejects": "files of rejected records",
    "audit": "records of what was done to the store by hand",
}


@dataclass(slots=True)
class Held:
    """What a manifest version names, as far as it can be read.

    root: None where it is damaged. lists: by kind, entries of the lists that are whole. lost: those that are not.
    """

    version: int
    root: Root | None = None
    lists: dict[str, Listing[Any]] = field(default_factory=lambda: {kind: Listing.empty() for kind in KINDS})
    model: ModelInfo | None = None
    lost: list[tuple[str, StoredFile, int]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all of it could be read."""
        return self.root is not None and not self.lost

    @property
    def segments(self) -> Mapping[str, SegmentMeta]:
        """Segments by id."""
        return self.lists["segments"].entries

    @property
    def rejects(self) -> Mapping[str, RejectFile]:
        """Reject files by name."""
        return self.lists["rejects"].entries

    def has_lost(self, kind: str) -> bool:
        """Whether a list of a kind, or the model, is damaged."""
        return any(lost == kind for lost, _, _ in self.lost)


def read_held(files: Files, layout: Layout, version: int) -> Held:
    """Read a version; 0: there is none. Raises StoreError for a newer format."""
    held = Held(version)
    path = root_path(layout.manifest, version)
    if version == 0:
        what = "no manifest is there, yet there are other parts of a store: nobody can open the store"
        held.findings.append(_damaged(layout, layout.manifest, what))
        return held
    try:
        root = read_root(files, layout.manifest, version)
    except OSError as error:
        held.findings.append(_damaged(layout, path, f"{told(error, path)}: nobody can open the store"))
        return held
    held.root = root
    for kind in KINDS:
        held.lists[kind] = _read_lists(files, layout, held, kind, getattr(held.root, kind))
    _read_model(files, layout, held)
    held.findings += _check_audit(layout, held)
    return held


def _read_lists(
    files: Files, layout: Layout, held: Held, kind: str, named: tuple[ListFile, ...]
) -> Listing[Any]:
    entries: dict[str, Any] = {}
    lists: dict[ListFile, tuple[str, ...]] = {}
    for file in named:
        path = layout.lists / file.file.name
        try:
            found = load_list(files, layout.lists, kind, file, KINDS[kind], Listing.empty())
        except OSError as error:
            what = f"{told(error, path)}: it names {file.n} {_OUT_OF_REACH[kind]}"
            held.lost.append((kind, file.file, file.n))
            held.findings.append(_damaged(layout, path, what))
            continue
        held.findings += _check_list(layout, path, kind, file, found, entries)
        entries.update(found)
        lists[file] = tuple(found)
    return Listing(entries, lists)


def _check_list(
    layout: Layout,
    path: Path,
    kind: str,
    file: ListFile,
    found: Mapping[str, Any],
    before: Mapping[str, Any],
) -> Iterator[Finding]:
    if len(found) != file.n:
        yield _damaged(layout, path, f"it has {len(found)} entries, the manifest says {file.n}")
    for key in sorted(found.keys() & before.keys()):
        yield _damaged(layout, path, f"{key} stands in another list of {kind} as well")
    for key, entry in found.items():
        own = key_of(kind, entry)
        if own != key:
            yield _damaged(layout, path, f"the entry of {key} is that of {own}")


def key_of(kind: str, entry: Any) -> str:
    """Give the key that an entry of a list of this kind stands under."""
    if kind == "segments":
        return str(entry.id)
    if kind == "ledger":
        return str(entry.fingerprint)
    return str(entry.file.name if kind == "rejects" else entry.key)


def _read_model(files: Files, layout: Layout, held: Held) -> None:
    stored = held.root.model if held.root else None
    if stored is None:
        return
    path = layout.lists / stored.name
    try:
        held.model = load_model(files, layout, stored)
    except OSError as error:
        what = f"{told(error, path)}: it says which model the vectors are of"
        held.lost.append(("model", stored, 1))
        held.findings.append(_damaged(layout, path, what))


def _check_audit(layout: Layout, held: Held) -> Iterator[Finding]:
    if held.root is None or held.has_lost("audit"):
        return
    entries = held.lists["audit"].entries
    try:
        check_chain([record for _, record in sorted(entries.items())], held.root.audit_head)
    except DamageError as error:
        names = [file.file.name for file in held.root.audit]
        path = layout.lists / names[-1] if names else root_path(layout.manifest, held.version)
        yield _damaged(layout, path, str(error))


def _damaged(layout: Layout, path: Path, what: str) -> Finding:
    return Finding(Severity.DAMAGED, str(path.relative_to(layout.path)), what, SALVAGE)
