"""What can be made right without losing anything: derived files, segment.json, leftovers, erasures cut short."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from .blame import past_damage
from .catalog import Change
from .check import check_store
from .cleaner import Cleaner
from .derived import rewrite_derived
from .errors import DamageError
from .files import Files, names_below, write_file
from .findings import CheckProgress, CheckReport, Severity
from .layout import SEGMENT_FILE, Layout
from .meta import SegmentMeta
from .retired import unnamed_in
from .set_aside import SetAside
from .writer import Writer


@dataclass(slots=True)
class _Mended:
    """What was done. put: segments with other derived files; fresh: these, old: what they replace.

    is_begun: whether something is written that no version names, which `Layout.repairing` tells the next writer.
    """

    is_begun: bool = False
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
                self._put_directories_aside()
                for meta in self._metas():
                    self._mend(meta)
            if self._done.lines:
                self._commit()
            if self._done.is_begun:
                with writer.mutex:
                    writer.remove([self._layout.repairing])
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
            self._writer.retire(list(unnamed_in(self._files, self._layout, meta)))
        left = self._before.of(Severity.LEFTOVER)
        gone = [one.file for one in left if not self._is_there(self._layout.path / one.file)]
        if gone:
            shown = ", ".join(gone[:3]) + (f" and {len(gone) - 3} more" if len(gone) > 3 else "")
            self._done.lines.append(f"{len(gone)} leftovers were removed: {shown}")

    def _is_there(self, path: Path) -> bool:
        return path.name in names_below(self._files, path.parent)

    def _put_directories_aside(self) -> None:
        """Take away the directories that lie in the place of files, whose names are wanted."""
        wrong = [one.file for one in self._before.of(Severity.DERIVED) if self._is_directory(one.file)]
        if wrong:
            aside = SetAside(self._files, self._layout)
            aside.put(wrong)
            aside.remove_directories()
            self._done.lines.append(
                f"what lay in the place of {', '.join(wrong)} was put aside in {aside.name}"
            )

    def _is_directory(self, file: str) -> bool:
        try:
            self._files.size(self._layout.path / file)
        except OSError as error:
            return isinstance(error, IsADirectoryError)
        return False

    def _mend(self, meta: SegmentMeta) -> None:
        directory = self._layout.segment(meta.id)
        with self._writer.mutex:
            if not self._writer.is_current(meta):
                return
            segment = self._writer.view.segment(meta)
        before = self._facts(directory)
        wrong, n_before = self._wrong_in(meta.id), len(self._done.fresh)
        try:
            changed = rewrite_derived(self._files, directory, segment, also=wrong, begun=self._begin)
        except DamageError:
            # What is derived of damaged files cannot be made; the look at the end names them.
            with self._writer.mutex:
                self._writer.remove(self._done.fresh[n_before:])
            del self._done.fresh[n_before:]
            return
        names = {stored.name for stored in meta.files}
        fresh = [stored.name for stored in changed.files if stored.name not in names]
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

    def _begin(self, path: Path) -> None:
        """Note a file before it is written, and the first one durably: a crash must not leave it for ever."""
        if not self._done.is_begun:
            with suppress(FileExistsError):
                write_file(self._files, self._layout.repairing, [])
            self._files.fsync_dir(self._layout.lists)
            self._done.is_begun = True
        self._done.fresh.append(path)

    def _facts(self, directory: Path) -> bytes | None:
        with past_damage():
            return self._files.read(directory / SEGMENT_FILE)
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
