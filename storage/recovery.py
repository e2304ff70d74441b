"""A catalog put together from what is left of it: lists on disk, older manifests, the directories of segments.

What a whole manifest names is as it says. Without one, lists count whose names can still be read in it, else those
that no newer list replaced, and segments are compared with each other: none is counted twice. What was erased, by
the audit or by a deletion file, stays so, and where that cannot be told, events stay hidden: `Loss` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .audit import AuditRecord, check_chain
from .batch import Int64s, ModelInfo
from .blame import past_damage
from .check_catalog import KINDS, Held
from .errors import DamageError
from .files import Files, names_below
from .findings import Loss
from .layout import Layout
from .ledger import Position
from .listing import Listing
from .log_scan import scan_log
from .log_start import first_start, newest_start, told_start
from .manifest import Root, root_path
from .meta import SegmentMeta
from .read_log import ReadLog, read_log
from .rejects import RejectFile
from .remains import (
    Traces,
    WholeLists,
    lists_on_disk,
    lost_lists,
    named_listing,
    newest_listing,
    newest_model,
    older_root,
)
from .stored_file import StoredFile
from .stray_rejects import find_rejects
from .stray_segments import StraySearch


@dataclass(slots=True)
class Recovery:
    """What a store goes on with.

    root: its facts, under the highest version there is. lists: lists that stay, by kind. segments, rejects: all
    that count. hidden: by segment, sequence numbers of its events that are deleted although no deletion file of it
    says so. aside: what does not count, by path below the store, and why. is_by_number: the first file of the log
    and the first number in it are not known, so that each of its events counts unless a segment has its number;
    hides_old_log: unless, too, it stands in a file that is not the last, since it may have been erased.
    """

    root: Root
    lists: dict[str, Listing[Any]]
    model: ModelInfo | None
    segments: dict[str, SegmentMeta] = field(default_factory=dict)
    rejects: dict[str, RejectFile] = field(default_factory=dict)
    hidden: dict[str, Int64s] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    is_audit_lost: bool = False
    is_by_number: bool = False
    hides_old_log: bool = False

    @property
    def next_seq(self) -> int:
        """First sequence number that no segment has."""
        return max([self.root.next_seq, *(meta.seq_max + 1 for meta in self.segments.values())])

    @property
    def audit_records(self) -> list[AuditRecord]:
        """The records that are left, oldest first."""
        return [record for _, record in sorted(self.lists["audit"].entries.items())]

    def read_log(self, files: Files, layout: Layout) -> ReadLog:
        """Read the log from where it counts on."""
        floor, next_seq = self.root.wal_floor, self.root.next_seq
        if self.is_by_number:
            frames = (one for file in scan_log(files, layout.wal, floor) for one in file.frames)
            first = next(frames, None)
            next_seq = next_seq if first is None else first.first_seq
        return read_log(files, layout.wal, floor=floor, next_seq=next_seq)


def recover(files: Files, layout: Layout, held: Held) -> Recovery:
    """Put together what counts. Nothing is changed. Raises StoreError for a newer format."""
    if held.root is not None:
        root = replace(held.root, model=None if held.has_lost("model") else held.root.model)
        found = Recovery(root, held.lists, held.model)
        found.segments = dict(held.segments)
        found.rejects = dict(held.rejects)
        return _Recoverer(files, layout, held, found).complete()
    return _without_root(files, layout, held)


def _without_root(files: Files, layout: Layout, held: Held) -> Recovery:
    traces, older = Traces(), older_root(files, layout, held.version)
    with past_damage():
        traces = Traces.read(files.read(root_path(layout.manifest, held.version)))
    whole, damaged = lists_on_disk(files, layout)
    lists, lost = dict[str, Listing[Any]](), list[tuple[str, StoredFile, int]]()
    exact = set[str]()
    for kind in KINDS:
        named = named_listing(traces.lists[kind], whole[kind]) if kind in traces.lists else None
        exact |= set() if named is None else {kind}
        lists[kind] = newest_listing(whole[kind]) if named is None else named
        if named is None:
            lost += [
                (kind, *one) for one in lost_lists(traces.lists.get(kind, ()), whole[kind], damaged[kind])
            ]
    model, model_file = newest_model(files, layout)
    lost += [("model", model_file, 1)] if model is None and model_file is not None else []
    base = older or Root(version=0, epoch=0, wal_floor=0, next_seq=0, written={})
    root = replace(
        base,
        version=held.version,
        epoch=base.epoch if older is not None else traces.facts.get("epoch", 0),
        model=None if model is None else model_file,
        store_id=base.store_id or traces.store_id,
        audit_head="",
    )
    held = replace(held, lost=lost)
    recoverer = _Recoverer(files, layout, held, Recovery(root, lists, model), older, exact)
    recoverer.find_log(traces, whole)
    return recoverer.complete()


class _Recoverer:
    """Completes a `Recovery` step by step. exact: kinds of lists that are those of the damaged manifest for sure."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        held: Held,
        found: Recovery,
        older: Root | None = None,
        exact: Iterable[str] = (),
    ) -> None:
        self._files = files
        self._layout = layout
        self._held = held
        self._found = found
        self._older = older
        self._exact = set(exact)
        self._has_root = held.root is not None

    def complete(self) -> Recovery:
        """Find again what the lists do not say."""
        found = self._found
        if not self._has_root or self._held.has_lost("segments"):
            self._find_segments()
        if not self._has_root or self._held.has_lost("rejects"):
            self._find_rejects()
        if self._held.has_lost("ledger"):
            self._find_positions()
        self._check_audit()
        if self._held.has_lost("model"):
            found.losses.append(self._lost_model())
        return found

    # -- what was erased ----------------------------------------------------------------------------------------

    def _erased(self) -> set[str]:
        """Name the segments and reject files that were erased as a whole."""
        return {name for one in self._found.audit_records for name in one.details.get("dropped", ())}

    def _may_be_erased(self) -> bool:
        """Whether events may have been erased by an act that the manifest at hand does not know of."""
        if self._held.has_lost("audit"):
            return True
        records = self._found.audit_records
        heads = [record.hash for record in records]
        if self._older is not None and self._older.audit_head in heads:
            records = records[heads.index(self._older.audit_head) + 1 :]
        # Of a store without any list nobody knows what was done to it.
        has_lists = any(listing.lists for listing in self._found.lists.values())
        return not has_lists or any(record.details.get("events", 0) for record in records)

    # -- the log ------------------------------------------------------------------------------------------------

    def find_log(self, traces: Traces, whole: WholeLists) -> None:
        """Say where the log begins that is not in segments, as the damaged manifest has it if that can be true."""
        found = self._found
        told = told_start(self._files, self._layout, found.root, traces, whole)
        found.is_by_number = told is None
        found.hides_old_log = told is None and self._may_be_erased()
        found.root = told or first_start(self._files, self._layout, found.root)

    def _before_seq(self) -> int | None:
        """Give the number from which on events are in the log only, None where nobody knows."""
        root = self._found.root
        return newest_start(self._files, self._layout, root) if self._found.is_by_number else root.next_seq

    # -- segments and rejects -----------------------------------------------------------------------------------

    def _find_segments(self) -> None:
        found = self._found
        if "segments" in self._exact:
            found.segments = dict(found.lists["segments"].entries)
            return
        whole, _ = lists_on_disk(self._files, self._layout)
        known = newest_listing(whole["segments"]).entries
        if not self._has_root:
            # Each is compared with its directory and with the others, and named anew.
            known = {**known, **found.lists["segments"].entries}
            found.lists["segments"] = Listing.empty()
        names = [n for n in names_below(self._files, self._layout.segments) if n not in found.segments]
        search = StraySearch(self._files, self._layout, found.segments, self._erased(), self._before_seq())
        strays = search.find(names, known)
        if self._held.has_lost("audit") and self._is_more_than_lost("segments", len(strays.taken)):
            search.hide(strays, "it may have been erased, since more are there than there should be")
        found.segments |= strays.taken
        found.hidden |= strays.hidden
        found.losses += strays.losses
        found.aside |= {f"{self._layout.segments.name}/{n}": why for n, why in strays.aside.items()}
        for name in known.keys() - {*found.segments, *strays.aside, *strays.skipped}:
            if not self._has_root:
                self._lose_missing(known[name])

    def _is_more_than_lost(self, kind: str, n: int) -> bool:
        lost = [entries for lost, _, entries in self._held.lost if lost == kind]
        return self._has_root and n > sum(lost)

    def _lose_missing(self, meta: SegmentMeta) -> None:
        """Tell of a segment that a list names and whose directory is gone, unless others have its events."""
        for other in self._found.segments.values():
            if other.seq_min <= meta.seq_min and meta.seq_max <= other.seq_max:
                return
        if meta.id in self._erased():
            return
        what = f"{meta.n_live:,} events of a segment that is missing, unless it was replaced"
        file = f"{self._layout.segments.name}/{meta.id}"
        seqs = ((meta.seq_min, meta.seq_max + 1),)
        self._found.losses.append(Loss("events", file, meta.n_live, what, seqs, meta.t_min, meta.t_max))

    def _find_rejects(self) -> None:
        """Take files of rejects that no list names, where one is lost."""
        found, listed, erased = self._found, self._found.lists["rejects"], self._erased()
        found.rejects = {name: one for name, one in listed.entries.items() if name not in erased}
        is_listed = "rejects" in self._exact or (listed.lists and not self._held.has_lost("rejects"))
        if not is_listed:
            strays = find_rejects(self._files, self._layout, {*found.rejects, *erased})
            if self._held.has_lost("audit") and self._is_more_than_lost("rejects", len(strays.taken)):
                strays.hide("they may have been erased, since more are there than there should be")
            found.rejects |= strays.taken
            found.losses += strays.losses
            found.aside |= strays.aside
        if found.rejects.keys() != listed.entries.keys():
            kept = {f: keys for f, keys in listed.lists.items() if found.rejects.keys() >= set(keys)}
            entries = {key: listed.entries[key] for keys in kept.values() for key in keys}
            found.lists["rejects"] = Listing(entries, kept)

    # -- positions, audit, model --------------------------------------------------------------------------------

    def _find_positions(self) -> None:
        """Take older positions of sources whose newest are lost."""
        whole, _ = lists_on_disk(self._files, self._layout)
        entries = self._found.lists["ledger"].entries
        known: Mapping[str, Position] = newest_listing(whole["ledger"]).entries
        self._found.positions = {key: one for key, one in known.items() if key not in entries}
        for kind, file, n in self._held.lost:
            if kind == "ledger":
                of = f"{n} sources were" if n else "sources were, nobody knows how many,"
                what = (
                    f"how far {of} taken: to load one of them again would add its events a second time. Move what "
                    "was loaded out of the folders that you load from, or load only newer files"
                )
                self._found.losses.append(Loss("positions", self._list(file), n or None, what))

    def _check_audit(self) -> None:
        found = self._found
        lost = [(file, n) for kind, file, n in self._held.lost if kind == "audit"]
        records = found.audit_records
        if lost:
            found.is_audit_lost = True
            what = "audit records; a new chain begins, which tells of the old one"
            n = sum(n for _, n in lost) or None
            found.losses.append(Loss("audit", self._list(lost[0][0]), n, what))
            return
        head = found.root.audit_head if self._has_root else (records[-1].hash if records else "")
        found.root = replace(found.root, audit_head=head)
        try:
            check_chain(records, head)
        except DamageError as error:
            found.is_audit_lost = True
            what = f"the chain of audit records ({error}); a new one begins, which tells of the old one"
            found.losses.append(Loss("audit", self._layout.lists.name, len(records), what))

    def _lost_model(self) -> Loss:
        (file,) = [file for kind, file, _ in self._held.lost if kind == "model"]
        what = (
            "which model the vectors are of: use the same as before, since another would not be refused until "
            "`treering embed` has said it again"
        )
        return Loss("model", self._list(file), None, what)

    def _list(self, file: StoredFile) -> str:
        return f"{self._layout.lists.name}/{file.name}"
