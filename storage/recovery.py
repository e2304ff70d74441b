"""A catalog put together from what is left of it: lists on disk, older manifests, the directories of segments.

A list file is written anew, under a higher number, when one of its entries changes. So of whole lists those count
that share no key with one of a higher number, and of a store whose lists are whole only the manifest need be made
anew. What may have been erased stays hidden: `Loss` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from .audit import AuditRecord, check_chain
from .batch import Int64s, ModelInfo
from .check_catalog import KINDS, Held
from .check_leftovers import names_below
from .errors import DamageError
from .files import Files, crc32c
from .findings import Loss
from .layout import Layout
from .ledger import Position
from .listing import Listing
from .log_scan import scan_log
from .manifest import ListFile, Root, root_path
from .meta import SegmentMeta, StoredFile
from .rejects import RejectFile
from .remains import (
    Traces,
    WholeLists,
    damaged_model,
    lists_on_disk,
    missing_lists,
    newest_lists,
    newest_model,
    older_root,
)
from .stray_segments import Strays, find_strays
from .wal import wal_numbers


@dataclass(slots=True)
class Recovery:
    """What a store goes on with.

    root: its facts, under the highest version there is. lists: whole lists by kind. segments, rejects: all that
    count. hidden: by segment, sequence numbers of events that are deleted although no deletion file of it says
    so. aside: what does not count and is put aside, by path below the store.
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

    @property
    def next_seq(self) -> int:
        """First sequence number that is not in segments."""
        return self.root.next_seq

    @property
    def wal_floor(self) -> int:
        """First file of the log that counts."""
        return self.root.wal_floor

    @property
    def audit_records(self) -> list[AuditRecord]:
        """The records that are left, oldest first."""
        return [record for _, record in sorted(self.lists["audit"].entries.items())]


def recover(files: Files, layout: Layout, held: Held) -> Recovery:
    """Put together what counts. Nothing is changed. Raises StoreError for a newer format."""
    if held.root is not None:
        found = Recovery(held.root, held.lists, held.model)
        found.root = replace(held.root, model=None if held.has_lost("model") else held.root.model)
        _Recoverer(files, layout, held, found, Traces(), None).complete()
        return found
    return _without_root(files, layout, held)


def _without_root(files: Files, layout: Layout, held: Held) -> Recovery:
    traces = Traces()
    with suppress(OSError):
        traces = Traces.read(files.read(root_path(layout.manifest, held.version)))
    older = older_root(files, layout, held.version)
    whole, damaged = lists_on_disk(files, layout)
    damaged += missing_lists(traces, whole, damaged)
    held = replace(held, lost=[(kind, file, traces.n_entries.get(file.name, 0)) for kind, file in damaged])
    lists, obsolete = dict[str, Listing[Any]](), dict[str, list[ListFile]]()
    for kind in KINDS:
        lists[kind], obsolete[kind] = newest_lists(whole[kind])
    base = older or Root(version=0, epoch=0, wal_floor=0, next_seq=0)
    root = replace(
        base,
        version=held.version,
        epoch=max(base.epoch, traces.facts.get("epoch", 0) if older is None else 0),
        store_id=base.store_id or traces.store_id,
        audit_head="",
    )
    found = Recovery(root, lists, None)
    found.model, model = newest_model(files, layout)
    found.root = replace(root, model=model)
    lost_model = damaged_model(files, layout) if model is None else None
    if lost_model is not None:
        held.lost.append(("model", lost_model, 1))
    recoverer = _Recoverer(files, layout, held, found, traces, older)
    recoverer.leave_out_doubtful(obsolete)
    recoverer.find_log(whole)
    recoverer.complete()
    return found


class _Recoverer:
    """Completes a `Recovery` step by step."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        held: Held,
        found: Recovery,
        traces: Traces,
        older: Root | None,
    ) -> None:
        self._files = files
        self._layout = layout
        self._held = held
        self._found = found
        self._traces = traces
        self._older = older
        self._has_root = held.root is not None

    # -- what may have been erased ---------------------------------------------------------------------------

    def _erasures(self, member: str) -> bool:
        """Whether a record that the manifest at hand may not know of erased some of `member`."""
        if self._held.has_lost("audit"):
            return True
        records = self._found.audit_records
        if self._older is not None:
            heads = [record.hash for record in records]
            known = heads.index(self._older.audit_head) + 1 if self._older.audit_head in heads else 0
            records = records[known:]
        return any(record.details.get(member, 0) for record in records)

    def leave_out_doubtful(self, obsolete: Mapping[str, Collection[ListFile]]) -> None:
        """Leave lists out all of whose entries may have been erased, with what they name.

        A list is gone from the disk soon after its last entry. If it is not, only the manifest could tell.
        """
        is_clean = not any(obsolete.values()) and not self._held.lost and self._older is None
        for kind, member in (("segments", "segments_dropped"), ("rejects", "rejects")):
            if self._traces.n_entries or not is_clean:
                doubtful = [file for file in self._found.lists[kind].files if self._is_doubtful(file)]
                if doubtful and self._erasures(member):
                    self._leave_out(kind, doubtful)

    def _is_doubtful(self, file: ListFile) -> bool:
        if self._traces.n_entries:
            return file.file.name not in self._traces.n_entries
        return self._older is None or file.file in self._older.files()

    def _leave_out(self, kind: str, doubtful: Collection[ListFile]) -> None:
        listing = self._found.lists[kind]
        for file in doubtful:
            for key in listing.lists[file]:
                self._lose_entry(kind, key, listing.entries[key])
        lists = {file: keys for file, keys in listing.lists.items() if file not in doubtful}
        kept = {key for keys in lists.values() for key in keys}
        entries = {key: entry for key, entry in listing.entries.items() if key in kept}
        self._found.lists[kind] = Listing(entries, lists)

    def _lose_entry(self, kind: str, key: str, entry: Any) -> None:
        if kind == "rejects":
            path = f"{self._layout.rejects.name}/{key}"
            what = f"{entry.n} rejected records that may have been erased"
            self._found.losses.append(Loss("rejects", path, entry.n, what))
        else:
            path = f"{self._layout.segments.name}/{key}"
            what = f"{entry.n_live:,} events that may have been erased"
            seqs = ((entry.seq_min, entry.seq_max + 1),)
            self._found.losses.append(
                Loss("events", path, entry.n_live, what, seqs, entry.t_min, entry.t_max)
            )
        self._found.aside[path] = "it may have been erased"

    # -- the log ----------------------------------------------------------------------------------------------

    def find_log(self, whole: WholeLists) -> None:
        """Say which file of the log is the first that counts, and the first number that is not in segments."""
        numbers = self._log_numbers()
        least = self._least_next_seq(whole)
        facts = self._traces.facts
        floor, next_seq = facts.get("wal_floor", -1), facts.get("next_seq", -1)
        if self._agrees(numbers, floor, next_seq, least):
            self._found.root = replace(self._found.root, wal_floor=floor, next_seq=next_seq)
            return
        first = numbers[0] if numbers else 0
        if numbers and self._erasures("events"):
            first = numbers[-1]
            self._lose_frames(numbers[:-1], least)
        start = self._first_seq(first, least)
        self._found.root = replace(self._found.root, wal_floor=first, next_seq=start)

    def _log_numbers(self) -> list[int]:
        try:
            return wal_numbers(self._files, self._layout.wal)
        except FileNotFoundError:
            return []

    def _least_next_seq(self, whole: WholeLists) -> int:
        ends = [self._found.root.next_seq]
        for entries in whole["segments"].values():
            ends += [meta.seq_max + 1 for meta in entries.values()]
        for entries in whole["ledger"].values():
            ends += [one.run.end_seq for one in entries.values()]
        return max(ends)

    def _agrees(self, numbers: Collection[int], floor: int, next_seq: int, least: int) -> bool:
        """Whether what a damaged manifest says of the log fits the log itself."""
        if floor not in numbers or next_seq < least:
            return False
        frames = [f for file in scan_log(self._files, self._layout.wal, floor) for f in file.frames]
        return frames[0].first_seq == next_seq if frames else next_seq == least

    def _first_seq(self, floor: int, least: int) -> int:
        """Give the number that the log goes on with: what lies before its first frame was in segments."""
        for file in scan_log(self._files, self._layout.wal, floor):
            for frame in file.frames:
                if frame.end_seq > least or (not frame.n_rows and frame.first_seq >= least):
                    is_first = not any(start < frame.start for start, _ in file.bad)
                    return max(least, frame.first_seq) if is_first else least
        return least

    def _lose_frames(self, numbers: Iterable[int], least: int) -> None:
        for file in scan_log(self._files, self._layout.wal, 0):
            frames = [one for one in file.frames if file.number in numbers and one.end_seq > least]
            n_rows = sum(one.n_rows for one in frames)
            if n_rows:
                path = f"{self._layout.wal.name}/{file.number:06d}.wal"
                seqs = tuple((max(one.first_seq, least), one.end_seq) for one in frames)
                what = f"{n_rows:,} events of an older file of the log that may have been erased"
                self._found.losses.append(Loss("events", path, n_rows, what, seqs))
                self._found.aside[path] = "its events may have been erased"

    # -- lists that are lost ----------------------------------------------------------------------------------

    def complete(self) -> None:
        """Find again what lost lists named."""
        found = self._found
        found.segments = dict(found.lists["segments"].entries)
        found.rejects = dict(found.lists["rejects"].entries)
        if self._held.has_lost("segments"):
            self._find_segments()
        if self._held.has_lost("rejects"):
            self._find_rejects()
        if self._held.has_lost("ledger"):
            self._find_positions()
        self._check_audit()
        if self._held.has_lost("model"):
            found.losses.append(self._lost_model())
        if not self._has_root:
            # Numbers of events that are gone are not given again as long as anything tells of them.
            seen = [meta.seq_max + 1 for meta in found.segments.values()]
            found.root = replace(found.root, next_seq=max([found.root.next_seq, *seen]))

    def _find_segments(self) -> None:
        found = self._found
        names = [
            name for name in names_below(self._files, self._layout.segments) if self._is_stray_segment(name)
        ]
        lost = [n for kind, _, n in self._held.lost if kind == "segments"]
        strays: Strays = find_strays(
            self._files,
            self._layout,
            names,
            found.segments,
            before_seq=found.root.next_seq if self._has_root else None,
            n_expected=sum(lost) if all(lost) else None,
            may_be_dropped=self._erasures("segments_dropped"),
        )
        found.segments |= strays.taken
        found.hidden |= strays.hidden
        found.losses += strays.losses
        found.aside |= {f"{self._layout.segments.name}/{n}": why for n, why in strays.aside.items()}

    def _is_stray_segment(self, name: str) -> bool:
        path = f"{self._layout.segments.name}/{name}"
        return name not in self._found.segments and path not in self._found.aside

    def _find_rejects(self) -> None:
        """Take files of rejects that no list names; the newest, where some may be what an erasure replaced."""
        found = self._found
        taken: list[RejectFile] = []
        for name in names_below(self._files, self._layout.rejects):
            path = f"{self._layout.rejects.name}/{name}"
            if name in found.rejects or path in found.aside:
                continue
            one = self._reject_file(name)
            if one is None:
                found.aside[path] = "it cannot be read"
                what = "rejected records, nobody knows how many"
                found.losses.append(Loss("rejects", path, None, what))
            else:
                taken.append(one)
        lost = [n for kind, _, n in self._held.lost if kind == "rejects"]
        if self._erasures("rejects") and (not all(lost) or len(taken) > sum(lost)):
            surplus = taken[: len(taken) - sum(lost)] if all(lost) else taken
            for one in surplus:
                self._lose_entry("rejects", one.file.name, one)
            taken = [one for one in taken if one not in surplus]
        found.rejects |= {one.file.name: one for one in taken}

    def _reject_file(self, name: str) -> RejectFile | None:
        """Describe a file of rejects by itself; None where it cannot be read."""
        try:
            data = self._files.map(self._layout.rejects / name)
            with pa.ipc.open_file(data) as reader:
                batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
            for batch in batches:
                batch.validate(full=True)
        except (OSError, pa.ArrowException):
            return None
        return RejectFile(StoredFile(name, data.size, crc32c(data)), sum(len(batch) for batch in batches))

    def _find_positions(self) -> None:
        """Take older positions of sources whose newest are lost."""
        whole, _ = lists_on_disk(self._files, self._layout)
        known, _ = newest_lists(whole["ledger"])
        entries = self._found.lists["ledger"].entries
        older = {key: one for key, one in known.entries.items() if key not in entries}
        self._found.positions = older
        for kind, file, n in self._held.lost:
            if kind == "ledger":
                of = f"of {n} sources" if n else "of sources, nobody knows how many,"
                what = (
                    f"how far they were taken {of} is lost: to load one of them again would add its events a "
                    "second time. Move what was loaded out of the folders that you load from, or load only newer files"
                )
                path = f"{self._layout.lists.name}/{file.name}"
                self._found.losses.append(Loss("positions", path, n or None, what))

    def _check_audit(self) -> None:
        found = self._found
        lost = [(file, n) for kind, file, n in self._held.lost if kind == "audit"]
        records = found.audit_records
        head = found.root.audit_head if self._has_root else (records[-1].hash if records else "")
        try:
            check_chain(records, head)
        except DamageError as error:
            found.is_audit_lost = True
            name = lost[0][0].name if lost else "audit lists"
            n = sum(n for _, n in lost) if lost else len(records)
            what = f"the chain of audit records is broken ({error}); a new one begins, which tells of the old"
            found.losses.append(Loss("audit", f"{self._layout.lists.name}/{name}", n or None, what))
        else:
            found.root = replace(found.root, audit_head=head)
            if lost:
                found.is_audit_lost = True
                what = "audit records are lost; a new chain begins, which tells of the old"
                path = f"{self._layout.lists.name}/{lost[0][0].name}"
                found.losses.append(Loss("audit", path, sum(n for _, n in lost) or None, what))

    def _lost_model(self) -> Loss:
        name = next(file.name for kind, file, _ in self._held.lost if kind == "model")
        what = (
            "which model the vectors are of is not known any more: use the same as before, others would not be "
            "refused until `treering embed` has said it again"
        )
        return Loss("model", f"{self._layout.lists.name}/{name}", None, what)
