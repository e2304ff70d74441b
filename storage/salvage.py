"""A store that lost bytes brought back with all that can be read, and an exact account of what is lost.

1. Everything is looked at. 2. What is damaged gets a second name below `salvaged/`. 3. Damaged segments are written
anew, as far as they can be read; so are lists and, of a damaged log, the events in whole frames. 4. One commit: a
new version names all of it, with an audit record of what is lost. Before it nothing of the store is changed, and
after a crash the same can be done again. 5. What the new version does not name goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .attempt import Attempt
from .batch import Decoder, Int64s
from .catalog import Catalog, Change, Committer
from .check import Checker
from .check_catalog import Held
from .claim import Claim
from .claimed_files import claimed
from .derived import rewrite_derived
from .errors import ConfigError, StoreError
from .files import Files, as_store_error, names_below
from .findings import CheckProgress, CheckReport, Loss, Severity
from .layout import Layout
from .listing import Listing
from .locking import AT_ONCE, Patience, lock_for_writing
from .manifest import root_versions
from .meta import SegmentMeta
from .newest import unfinished
from .opening import make_directories
from .read_log import ReadLog
from .recovery import Recovery, recover
from .rejects import Reject, RejectFile, write_rejects
from .remote import is_remote
from .rescue import Rescuer, TextsOf
from .retired import Retired, leftovers, unnamed_in
from .salvage_log import LogSealer, losses_of
from .segment import Segment
from .set_aside import SetAside, damaged_paths
from .stray_segments import StraySearch
from .wal import WalWriter, wal_numbers, wal_path

_NO_SEQS: Int64s = np.empty(0, np.int64)


def salvage(
    files: Files,
    layout: Layout,
    decoder: Decoder,
    texts_of: TextsOf,
    *,
    patience: Patience = AT_ONCE,
    progress: CheckProgress | None = None,
) -> CheckReport:
    """Keep what can be read of a damaged store; give its state after that, and what was lost.

    Raises StoreError where another process writes, where there is no store, one of which nothing is out of reach,
    or a backup that was not finished, and where something cannot be read for a reason that is none of the file's
    (`blame`): then nothing was changed. ConfigError for a store in a bucket.
    """
    if is_remote(files):
        raise ConfigError(
            f"{layout.path}: is salvaged in a directory: `treering restore --damaged {layout.path} DIR`, then "
            "`treering -s DIR check --salvage`"
        )
    with as_store_error(layout.path, "salvage it"):
        _check_store(files, layout)
        lock = lock_for_writing(files, layout, patience)
        try:
            own = claimed(files, Claim(layout, lock))
            return Salvager(own, layout, decoder, texts_of, progress).run()
        finally:
            lock.release()


def _check_store(files: Files, layout: Layout) -> None:
    names = names_below(files, layout.path)
    if layout.backup.name in names and not root_versions(files, layout.manifest):
        raise unfinished(layout)
    if not any(one.name in names for one in layout.directories):
        raise StoreError(f"{layout.path}: no treering store there; nothing to salvage")


@dataclass(slots=True)
class _Work:
    """What the new version will say, and what is lost. put, drop: segments; rejects likewise.

    records: what becomes a reject file.
    """

    put: list[SegmentMeta] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    rejects: list[RejectFile] = field(default_factory=list)
    drop_rejects: list[str] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    records: list[Reject] = field(default_factory=list)


class Salvager:
    """One salvage of one store, whose lock is held."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        decoder: Decoder,
        texts_of: TextsOf,
        progress: CheckProgress | None = None,
    ) -> None:
        self._files = files
        self._layout = layout
        self._decoder = decoder
        self._texts_of = texts_of
        self._progress = progress
        self._attempt = Attempt(files)

    def run(self) -> CheckReport:
        """Do it."""
        before, held, recovery = self._look()
        log = recovery.read_log(self._files, self._layout)
        make_directories(self._files, self._layout)
        aside = SetAside(self._files, self._layout)
        with self._attempt.going():
            self._attempt.written.append(aside.outermost)
            aside.put({*damaged_paths(before), *recovery.aside})
            work = _Work(losses=list(recovery.losses))
            self._rescue(before, recovery, work)
            self._keep_rejects(before, recovery, work)
            catalog = self._commit(held, recovery, log, work, aside)
        self._sweep(catalog, aside)
        after = Checker(
            self._files, self._layout, catalog.root.version, is_deep=True, progress=self._progress
        ).run()
        name = None if aside.is_empty else aside.name
        return replace(after, losses=tuple(work.losses), aside=name)

    def _look(self) -> tuple[CheckReport, Held, Recovery]:
        versions = root_versions(self._files, self._layout.manifest)
        checker = Checker(
            self._files, self._layout, max(versions, default=0), is_deep=True, progress=self._progress
        )
        before = checker.run()
        if not before.of(Severity.DAMAGED):
            raise StoreError(
                f"{self._layout.path}: nothing of it is out of reach; use `treering check --repair` for the rest"
            )
        recovery = checker.recovery or recover(self._files, self._layout, checker.held)
        return before, checker.held, recovery

    # -- segments and rejects -------------------------------------------------------------------------------------

    def _rescue(self, before: CheckReport, recovery: Recovery, work: _Work) -> None:
        """Write damaged segments anew, and those with events that may not be seen."""
        listed = recovery.lists["segments"].entries
        damaged = {one.segment_id for one in before.of(Severity.DAMAGED)} | recovery.hidden.keys()
        for name, meta in recovery.segments.items():
            if name not in damaged:
                mended = self._mended(meta, before, recovery)
                work.put += [] if name in listed and mended == meta else [mended]
                continue
            hidden = recovery.hidden.get(name, _NO_SEQS)
            rescuer = Rescuer(self._files, self._layout, meta, hidden, recovery.model, self._texts_of)
            rescued = rescuer.rescue(self._attempt.written)
            work.losses += rescued.losses
            work.records += rescued.records
            work.put += [] if rescued.meta is None else [rescued.meta]
            work.drop += [name] if name in listed else []
        self._files.fsync_dir(self._layout.segments)

    def _mended(self, meta: SegmentMeta, before: CheckReport, recovery: Recovery) -> SegmentMeta:
        """Give a segment of which nothing is out of reach, with derived files made anew where they are damaged."""
        wrong = {Path(one.file).name for one in before.of(Severity.DERIVED) if one.segment_id == meta.id}
        if not wrong:
            return meta
        directory, model = self._layout.segment(meta.id), recovery.model
        scale = None if model is None else model.qls_scale
        segment = Segment.open(self._files, directory, meta, qls_scale=scale)
        begun = self._attempt.written.append
        return rewrite_derived(self._files, directory, segment, also=wrong, begun=begun)

    def _keep_rejects(self, before: CheckReport, recovery: Recovery, work: _Work) -> None:
        damaged = {one.file for one in before.of(Severity.DAMAGED)}
        listed = recovery.lists["rejects"].entries
        for name, one in recovery.rejects.items():
            path = f"{self._layout.rejects.name}/{name}"
            if path in damaged:
                work.losses.append(Loss("rejects", path, one.n, f"{one.n:,} rejected records"))
                work.drop_rejects += [name] if name in listed else []
            elif name not in listed:
                work.rejects.append(one)

    # -- the new version ------------------------------------------------------------------------------------------

    def _commit(self, held: Held, recovery: Recovery, log: ReadLog, work: _Work, aside: SetAside) -> Catalog:
        lists = dict(recovery.lists)
        if recovery.is_audit_lost:
            lists["audit"] = Listing.empty()
        version = max(root_versions(self._files, self._layout.manifest), default=0)
        root = replace(
            recovery.root,
            version=version,
            ledger=lists["ledger"].files,
            audit_head="" if recovery.is_audit_lost else recovery.root.audit_head,
        )
        catalog = Catalog(root, **lists, model=recovery.model)
        committer = Committer(self._files, self._layout, catalog, epoch=root.epoch + 1)
        change = Change(
            put_segments=work.put,
            drop_segments=work.drop,
            rejects=work.rejects,
            drop_rejects=work.drop_rejects,
            positions=tuple(recovery.positions.values()),
        )
        if log.faults or recovery.is_by_number:
            change = self._with_log(change, catalog, recovery, log, work)
        if work.records:
            path = self._layout.rejects / f"{committer.next_number():08d}.arrow"
            self._attempt.written.append(path)
            fresh = write_rejects(self._files, path, work.records)
            self._files.fsync_dir(self._layout.rejects)
            change = replace(change, rejects=[*change.rejects, fresh])
        act = ("salvage", self._details(held, recovery, work, aside, version + 1))
        self._attempt.commit(committer, replace(change, acts=[act]))
        return committer.catalog

    def _with_log(
        self, change: Change, catalog: Catalog, recovery: Recovery, log: ReadLog, work: _Work
    ) -> Change:
        """Bring a damaged log to its end, and begin a new one."""
        in_segments = self._in_segments(recovery, log)
        work.losses += losses_of(self._layout, log.faults, in_segments)
        entries = {**catalog.segments.entries, **{meta.id: meta for meta in work.put}}
        kept = {name: meta for name, meta in entries.items() if name not in work.drop}
        seen = replace(catalog, segments=Listing(kept, {}))
        sealer = LogSealer(
            self._files,
            self._layout,
            seen,
            self._decoder,
            in_segments,
            last=max(log.files, default=0) if recovery.hides_old_log else 0,
        )
        sealed = sealer.seal(log.frames, self._attempt.written)
        work.losses += sealed.losses
        work.records += sealed.rejects
        number = 1 + max([catalog.root.wal_floor, *wal_numbers(self._files, self._layout.wal)])
        self._attempt.written.append(wal_path(self._layout.wal, number))
        WalWriter.create(self._files, self._layout.wal, number).close()
        positions = {one.fingerprint: one for one in change.positions} | sealed.positions
        if recovery.is_by_number:
            # Of a file that should have gone, they may be older than the ledger's.
            known = catalog.ledger.entries
            positions = {n: p for n, p in positions.items() if n not in known or p.offset >= known[n].offset}
        return replace(
            change,
            put_segments=[*change.put_segments, *sealed.segments],
            positions=tuple(positions.values()),
            wal_floor=number,
            next_seq=max(log.next_seq, recovery.next_seq),
        )

    def _in_segments(self, recovery: Recovery, log: ReadLog) -> Int64s:
        """Give the numbers of events that segments have, as far as the log may have them, too."""
        if not recovery.is_by_number:
            return _NO_SEQS
        search = StraySearch(self._files, self._layout, {}, ())
        first = min((frame.first_seq for frame in log.frames), default=log.next_seq)
        metas = [meta for meta in recovery.segments.values() if meta.seq_max >= first]
        return np.unique(np.concatenate([_NO_SEQS, *map(search.seq_of, metas)]))

    def _details(
        self, held: Held, recovery: Recovery, work: _Work, aside: SetAside, version: int
    ) -> dict[str, Any]:
        details: dict[str, Any] = {
            "version": version,
            "aside": None if aside.is_empty else aside.name,
            "losses": [loss.to_json() for loss in work.losses],
        }
        if recovery.is_audit_lost:
            head = held.root.audit_head if held.root is not None else None
            earlier = [record.to_json() for record in recovery.audit_records]
            details["broken_chain"] = {"head": head, "records": earlier}
        return details

    def _sweep(self, catalog: Catalog, aside: SetAside) -> None:
        """Remove what the new version does not name, as far as no reader holds it."""
        version = catalog.root.version
        aside.remove_directories()
        retired = Retired(self._files, self._layout)
        retired.add(leftovers(self._files, self._layout, catalog), version)
        for meta in catalog.segments.entries.values():
            retired.add(unnamed_in(self._files, self._layout, meta), version)
        retired.collect(version)
