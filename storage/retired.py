"""Files that no manifest names any more, kept until nobody can read them, then removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from .blame import is_no_file
from .catalog import Catalog
from .files import Files, names_below
from .layout import SEGMENT_FILE, Layout
from .manifest import root_path, root_versions
from .meta import SegmentMeta
from .remote import is_remote
from .wal import wal_numbers, wal_path


class Retired:
    """Waits for readers: a reader holds a shared flock on the manifest of the version it reads.

    Removing is never urgent: what cannot be removed now is tried again, and at the next opening.
    """

    def __init__(self, files: Files, layout: Layout) -> None:
        self._files = files
        self._layout = layout
        self._waiting: list[tuple[int, Path]] = []

    def add(self, paths: Iterable[Path], version: int) -> None:
        """Take files and segment directories that versions from `version` on do not name."""
        self._waiting += [(version, path) for path in paths]

    @property
    def n_waiting(self) -> int:
        """Number of files and segment directories that could not be removed yet."""
        return len(self._waiting)

    def collect(self, version: int) -> None:
        """Remove old manifests that nobody holds, and what no version that is left can name; never fails."""
        try:
            oldest = self._oldest(version)
        except OSError:
            return
        self._waiting = [(v, path) for v, path in self._waiting if v > oldest or not self._remove(path)]

    def _oldest(self, newest: int) -> int:
        old = [v for v in root_versions(self._files, self._layout.manifest) if v < newest]
        return min((v for v in old if not self._remove_root(v)), default=newest)

    def _remove_root(self, version: int) -> bool:
        path = root_path(self._layout.manifest, version)
        try:
            lock = self._files.lock(path, exclusive=True)
        except OSError as error:
            if not is_no_file(error):
                return False
            # Nobody can hold that; a directory stays.
            if not is_remote(self._files):
                self._remove(path)
            return True
        if lock is None:
            return False
        # The lock keeps a reader from taking the version between the check and the unlink.
        try:
            return self._remove(path)
        finally:
            lock.release()

    def _remove(self, path: Path) -> bool:
        remove = self._files.rmtree if path.parent == self._layout.segments else self._files.unlink
        try:
            with suppress(FileNotFoundError):
                remove(path)
        except OSError:
            return False
        return True


def leftovers(files: Files, layout: Layout, catalog: Catalog) -> Iterator[Path]:
    """Give what the newest version does not name: what a crash left, and what older versions held."""
    yield from (layout.manifest / n for n in names_below(files, layout.manifest) if n.endswith(".tmp"))
    others = list(unnamed(files, layout, catalog))
    is_cut_short = layout.repairing in others
    for segment in catalog.segments.entries.values():
        # Only a segment that waits for late files can have one that was never committed, or any where a repair was
        # cut short. A deletion that was not says nothing but the numbers of some rows, and goes with its segment.
        if is_cut_short or not segment.is_finished or segment.deleted is not None:
            yield from unnamed_in(files, layout, segment)
    # What tells of the repair goes behind what the repair left.
    yield from others


def unnamed(files: Files, layout: Layout, catalog: Catalog) -> Iterator[Path]:
    """Give the lists, reject files, segments and files of the log that a version does not name."""
    root = catalog.root
    yield from _others(files, layout.lists, root.names())
    yield from _others(files, layout.rejects, catalog.rejects.entries)
    yield from _others(files, layout.segments, catalog.segments.entries)
    yield from (wal_path(layout.wal, n) for n in wal_numbers(files, layout.wal) if n < root.wal_floor)


def unnamed_in(files: Files, layout: Layout, segment: SegmentMeta) -> Iterator[Path]:
    """Give the files in a segment's directory that a version does not name."""
    named = {SEGMENT_FILE, *(file.name for file in segment.all_files())}
    yield from _others(files, layout.segment(segment.id), named)


def _others(files: Files, directory: Path, known: Iterable[str]) -> Iterator[Path]:
    names = set(known)
    yield from (directory / name for name in names_below(files, directory) if name not in names)
