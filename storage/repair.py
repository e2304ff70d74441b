"""What can be made right without losing anything: derived files, segment.json, leftovers, erasures cut short."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from .catalog import Change
from .check import check_store
from .check_leftovers import named_in, names_below
from .cleaner import Cleaner
from .derived import rewrite_derived
from .errors import DamageError
from .files import Files
from .findings import CheckProgress, CheckReport, Severity
from .layout import SEGMENT_FILE, Layout
from .meta import SegmentMeta
from .writer import Writer


@dataclass(slots=True)
class _Mended:
    """What was done. put: segments with other derived files; fresh: these, old: what they replace."""

    put: dict[str, SegmentMeta] = field(default_factory=dict)
    fresh: list[Path] = field(default_factory=list)
    old: list[Path] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def repair(writer: Writer, before: CheckReport, *, progress: CheckProgress | None = None) -> CheckReport:
    """Mend what `before` found and what can be mended, and give the state of the store after it.

    All of it is kept in one audit record; what is out of reach stays so. Others append and look meanwhile.
    Raises StoreError where a file cannot be written.
    """
    lines = Repairer(writer, before).run()
    after = check_store(writer.files, writer.layout, deep=before.is_deep, progress=progress)
    return replace(after, repairs=tuple(lines))


class Repairer:
    """One repair of one writer's store."""

    def __init__(self, writer: Writer, before: CheckReport) -> None:
        self._writer = writer
        self._files: Files = writer.files
        self._layout: Layout = writer.layout
        self._before = before
        self._done = _Mended()

    def run(self) -> list[str]:
        """Do it; give a line for each thing that was done."""
        writer = self._writer
        with writer.changing:
            self._finish_erasures()
            with writer.mutex:
                self._remove_leftovers()
            with writer.guard("repair", commits=False) as written:
                self._done.fresh = written
                for meta in self._metas():
                    self._mend(meta)
            if self._done.lines:
                self._commit()
        return self._done.lines

    def _metas(self) -> list[SegmentMeta]:
        with self._writer.mutex:
            metas = self._writer.view.catalog.segments.entries.values()
            return sorted(metas, key=lambda meta: (meta.t_min, meta.id))

    def _finish_erasures(self) -> None:
        made, _ = Cleaner(self._writer).clean()
        for old, new in made.items():
            self._done.lines.append(f"segment {old} was rewritten as {new}, without its deleted events")

    def _remove_leftovers(self) -> None:
        """Remove what nothing names; opening the store did so already where no reader holds it."""
        for meta in self._metas():
            directory, known = self._layout.segment(meta.id), named_in(meta)
            self._writer.retire(
                [directory / n for n in names_below(self._files, directory) if n not in known]
            )
        left = self._before.of(Severity.LEFTOVER)
        gone = [one.file for one in left if not self._is_there(self._layout.path / one.file)]
        if gone:
            shown = ", ".join(gone[:3]) + (f" and {len(gone) - 3} more" if len(gone) > 3 else "")
            self._done.lines.append(f"{len(gone)} leftovers were removed: {shown}")

    def _is_there(self, path: Path) -> bool:
        return path.name in names_below(self._files, path.parent)

    def _mend(self, meta: SegmentMeta) -> None:
        directory = self._layout.segment(meta.id)
        with self._writer.mutex:
            if not self._writer.is_current(meta):
                return
            segment = self._writer.view.segment(meta)
        before = self._facts(directory)
        try:
            changed = rewrite_derived(self._files, directory, segment, also=self._wrong_in(meta.id))
        except DamageError:
            # What is derived of damaged files cannot be made; the look at the end names them.
            return
        names = {stored.name for stored in meta.files}
        fresh = [stored.name for stored in changed.files if stored.name not in names]
        self._done.fresh += [directory / name for name in fresh]
        file = directory.relative_to(self._layout.path)
        if fresh:
            self._done.put[meta.id] = changed
            kept = {stored.name for stored in changed.files}
            self._done.old += [directory / name for name in sorted(names - kept)]
            self._done.lines.append(f"{file}: made anew as {', '.join(fresh)}")
        if self._facts(directory) != before:
            self._done.lines.append(f"{file}: {SEGMENT_FILE} was made anew")

    def _wrong_in(self, segment_id: str) -> Collection[str]:
        """Name the derived files of a segment that are as they were written, but wrong."""
        found = self._before.of(Severity.DERIVED)
        return {Path(one.file).name for one in found if one.segment_id == segment_id}

    def _facts(self, directory: Path) -> bytes | None:
        try:
            return self._files.read(directory / SEGMENT_FILE)
        except OSError:
            return None

    def _commit(self) -> None:
        """Commit all of it with its audit record; a segment that changed meanwhile keeps what came to it."""
        writer = self._writer
        with writer.mutex, writer.guard("repair") as written:
            written += self._done.fresh
            entries = writer.view.catalog.segments.entries
            put = [
                replace(entries[name], files=changed.files)
                for name, changed in self._done.put.items()
                if name in entries
            ]
            act = ("repair", {"done": self._done.lines})
            writer.publish(Change(put_segments=put, acts=[act]), self._done.old)
