"""A look at every file of a store, which nothing stops: all that is wrong is found, named and weighed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from .batch import ModelInfo
from .blame import past_damage, told
from .check_catalog import Held, read_held
from .check_contents import check_contents
from .check_files import SegmentCheck, read_sums
from .check_leftovers import check_leftovers
from .files import Files, Lock, as_store_error
from .findings import SALVAGE, CheckProgress, CheckReport, Finding, Severity
from .layout import Layout
from .locking import NoLock
from .manifest import root_versions
from .meta import SegmentMeta
from .newest import hold_newest
from .read_log import read_log
from .recovery import Recovery, recover
from .rejects import RejectFile, count_rejects
from .remote import is_remote
from .seq_runs import SeqRuns

TRIES = 3
"""How often a look begins again where the version that it was at expired meanwhile."""


def check_store(
    files: Files, layout: Layout, *, deep: bool = False, progress: CheckProgress | None = None
) -> CheckReport:
    """Look at the newest version of a store, beside others that read and write it.

    deep: read every byte, and compare what the files hold with each other. Raises StoreError where there is no
    store, or one of a newer format.
    """
    with as_store_error(layout.path, "check it"):
        for _ in range(TRIES):
            version, lock = _hold_newest(files, layout)
            try:
                report = Checker(files, layout, version, is_deep=deep, progress=progress).run()
            finally:
                lock.release()
            # A writer may have replaced files of this version meanwhile: by a repair, or where there are no locks.
            if report.is_clean or [0, *root_versions(files, layout.manifest)][-1] == version:
                break
    return report


@dataclass(slots=True)
class _Tally:
    """What was looked at so far."""

    n_files: int = 0
    n_bytes: int = 0
    n_events: int = 0
    n_bytes_total: int = 0
    findings: list[Finding] = field(default_factory=list)


class Checker:
    """One look at one version, which somebody holds."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        version: int,
        *,
        is_deep: bool,
        progress: CheckProgress | None = None,
    ) -> None:
        self._files = files
        self._layout = layout
        self._version = version
        self._is_deep = is_deep
        self._progress = progress
        self._tally = _Tally()
        self._runs = SeqRuns()
        self._sizes: Mapping[Path, int] | None = None
        self.held = Held(version)
        self.recovery: Recovery | None = None

    def run(self) -> CheckReport:
        """Look at everything."""
        started_s, tally = time.monotonic(), self._tally
        self.held = read_held(self._files, self._layout, self._version)
        tally.findings += self.held.findings
        tally.n_files += 1 + sum(len(listing.lists) for listing in self.held.lists.values())
        if not self.held.is_whole:
            # Something of it is out of reach: look at what there is all the same.
            self.recovery = recover(self._files, self._layout, self.held)
        if is_remote(self._files):
            self._sizes = self._files.sizes(self._layout.path)
            tally.findings += self._check_lists() if self._is_deep else ()
        segments, rejects = self._named()
        tally.n_bytes_total = sum(meta.n_bytes for meta in segments.values())
        tally.n_bytes_total += sum(one.file.n_bytes for one in rejects.values())
        for meta in sorted(segments.values(), key=lambda meta: (meta.t_min, meta.id)):
            self._check_segment(meta)
        tally.findings += self._overlaps()
        tally.findings += self._check_log()
        for name, one in rejects.items():
            tally.findings += self._check_rejects(name, one)
        tally.findings += check_leftovers(self._files, self._layout, self.held)
        return self._report(len(segments), time.monotonic() - started_s)

    def _check_lists(self) -> Iterator[Finding]:
        """Read lists where they lie: they were taken from what this machine keeps of them."""
        for stored in sorted(self.held.root.files() if self.held.root else (), key=lambda one: one.name):
            path = self._layout.lists / stored.name
            try:
                checksum, _ = read_sums(self._files, path, stored, lambda n_bytes: None)
                what = None if checksum == stored.crc32c else f"its crc32c is {checksum:08x}"
            except OSError as error:
                what = told(error, path)
            if what is not None and path.name not in {file.name for _, file, _ in self.held.lost}:
                yield self._finding(Severity.DAMAGED, path, what, SALVAGE)

    def _named(self) -> tuple[Mapping[str, SegmentMeta], Mapping[str, RejectFile]]:
        if self.recovery is None:
            return self.held.segments, self.held.rejects
        return self.recovery.segments, self.recovery.rejects

    def _model(self) -> ModelInfo | None:
        return self.held.model if self.recovery is None else self.recovery.model

    def _next_seq(self) -> int:
        if self.held.root is not None:
            return self.held.root.next_seq
        assert self.recovery is not None
        return self.recovery.next_seq

    def _check_segment(self, meta: SegmentMeta) -> None:
        check = SegmentCheck(self._files, self._layout, meta, self._next_seq(), self._sizes)
        found = list(check.quick())
        before = self._tally.n_bytes
        if self._is_deep:
            found += check.bytes(self._count)
            model = self._model()
            scale = None if model is None else model.qls_scale
            found += check_contents(check, found, self._runs, scale)
        # What could not be read counts as looked at, so that the end is reached.
        self._count(max(before + meta.n_bytes - self._tally.n_bytes, 0))
        self._tally.n_files += len(meta.all_files())
        self._tally.n_events += meta.n_live
        self._tally.findings += found

    def _overlaps(self) -> Iterator[Finding]:
        for one, other, first, end in self._runs.overlaps():
            what = f"events with sequence numbers in [{first}, {end}) stand in segment {one} as well"
            path = str(self._layout.segment(other).relative_to(self._layout.path))
            yield Finding(Severity.DAMAGED, path, what, SALVAGE, end - first, segment_id=other)

    def _check_log(self) -> Iterator[Finding]:
        if self.recovery is not None:
            log = self.recovery.read_log(self._files, self._layout)
        else:
            root = self.held.root
            assert root is not None
            log = read_log(self._files, self._layout.wal, floor=root.wal_floor, next_seq=root.next_seq)
        self._tally.n_events += log.n_rows
        self._tally.n_files += len(log.files)
        self._tally.n_bytes += log.n_bytes
        for fault in log.faults:
            lost = (
                ""
                if fault.lost is None
                else f"; sequence numbers [{fault.lost[0]}, {fault.lost[1]}) are lost"
            )
            yield self._finding(Severity.DAMAGED, fault.file, fault.what + lost, SALVAGE, fault.n_rows)
        if log.torn is not None:
            what = (
                f"its last {log.torn[1]} bytes are of an append that was never acknowledged, or is under way"
            )
            yield self._finding(Severity.NOTE, log.torn[0], what, "nothing: the next writer cuts them off")

    def _check_rejects(self, name: str, one: RejectFile) -> Iterator[Finding]:
        path = self._layout.rejects / name
        self._tally.n_files += 1
        try:
            what = self._wrong_rejects(path, one)
        except OSError as error:
            what = told(error, path)
        if what is not None:
            yield self._finding(Severity.DAMAGED, path, f"{what}: {one.n} rejected records", SALVAGE)

    def _wrong_rejects(self, path: Path, one: RejectFile) -> str | None:
        n_bytes = self._files.size(path)
        if n_bytes != one.file.n_bytes:
            return f"it has {n_bytes} bytes, the manifest says {one.file.n_bytes}"
        if is_remote(self._files) and not self._is_deep:
            return None
        checksum, _ = read_sums(self._files, path, one.file, self._count)
        if checksum != one.file.crc32c:
            return f"its crc32c is {checksum:08x}, the manifest says {one.file.crc32c:08x}"
        if self._is_deep:
            return _wrong_records(self._files.map(path), one.n)
        return None

    def _count(self, n_bytes: int) -> None:
        self._tally.n_bytes += n_bytes
        if self._progress is not None and self._tally.n_bytes_total:
            done = min(self._tally.n_bytes, self._tally.n_bytes_total)
            self._progress(done, self._tally.n_bytes_total, "bytes")

    def _finding(self, severity: Severity, path: Path, what: str, todo: str, n_rows: int = 0) -> Finding:
        return Finding(severity, str(path.relative_to(self._layout.path)), what, todo, n_rows)

    def _report(self, n_segments: int, seconds: float) -> CheckReport:
        root, tally = self.held.root, self._tally
        return CheckReport(
            path=self._layout.path,
            version=self._version,
            is_deep=self._is_deep,
            findings=tuple(tally.findings),
            segments=n_segments,
            events=tally.n_events,
            files=tally.n_files,
            bytes=tally.n_bytes,
            audit_head="" if root is None else root.audit_head,
            seconds=seconds,
        )


def _hold_newest(files: Files, layout: Layout) -> tuple[int, Lock]:
    with past_damage():
        return hold_newest(files, layout)
    # There was a store; 0: no manifest is left of it.
    return max(root_versions(files, layout.manifest), default=0), NoLock()


def _wrong_records(buffer: pa.Buffer, expected: int) -> str | None:
    try:
        n = count_rejects(buffer)
    except ValueError as error:
        return f"it cannot be taken apart: {error}"
    return None if n == expected else f"it has {n} records, the manifest says {expected}"
