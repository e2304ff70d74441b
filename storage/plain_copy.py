"""A damaged store copied as it is, to be salvaged in another place: nothing is checked, and nothing stops it.

From a bucket it brings every object, and the parts of each file of the log as one file; from a disk that fails what
that still gives. Zeros stand where bytes are missing, and no checksum takes them for right.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .backup_record import BackupRecord
from .blame import is_damage, past_damage
from .blocks import pieces_past
from .copying import Copier, CopyProgress
from .errors import StoreError
from .files import Files, as_store_error, names_below
from .layout import Layout
from .newest import hold_newest
from .opening import make_directories, sync_parent
from .remote import is_remote

_BELOW = Layout(Path())

_UNFINISHED = BackupRecord("", ())


@dataclass(frozen=True, slots=True)
class PlainCopyReport:
    """What a plain copy did.

    path: the copy, a store as damaged as the other. bytes_lost: of those copied, bytes that could not be read, zeros
    now. left_out: what is no file, or went away meanwhile, below the store. seconds: wall time.
    """

    path: Path
    files_copied: int
    bytes_copied: int
    bytes_lost: int
    left_out: tuple[str, ...]
    seconds: float


def copy_plainly(
    files: Files, source: Layout, target_files: Files, target: Layout, *, progress: CopyProgress | None = None
) -> PlainCopyReport:
    """Copy every file of a store into a directory that the caller holds (`writing_to`).

    Others may write to the store meanwhile: the copy has the version that was the newest, and manifests come last.
    Raises StoreError where there is no store, and OSError where a file cannot be read for a reason that is none of
    its own (`blame`).
    """
    started_s = time.monotonic()
    with as_store_error(source.path, "read it"), _held(files, source):
        copy = _PlainCopy(files, source, target_files, target, progress)
        copy.run()
    return PlainCopyReport(
        target.path,
        copy.n_files,
        copy.n_bytes,
        copy.n_bytes_lost,
        tuple(copy.left_out),
        time.monotonic() - started_s,
    )


@contextmanager
def _held(files: Files, source: Layout) -> Iterator[None]:
    """Hold the newest version where there is one that can be held."""
    lock = None
    with past_damage():
        lock = hold_newest(files, source)[1]
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


@dataclass(slots=True)
class _PlainCopy:
    """One run, and what it did so far."""

    files: Files
    source: Layout
    target_files: Files
    target: Layout
    progress: CopyProgress | None
    n_files: int = 0
    n_bytes: int = 0
    n_bytes_lost: int = 0
    n_bytes_total: int = 0
    left_out: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Do it."""
        copier = Copier(
            self.target_files, self.files, self.source.path, self.target.path, known={}, verify=False
        )
        self._clear()
        # Says that this is not finished, before anything else is there.
        copier.put(_BELOW.backup, [_UNFINISHED.packed()])
        make_directories(self.target_files, self.target)
        sync_parent(self.target_files, self.target.path)
        sizes = self._sizes()
        self.n_bytes_total = sum(sizes.values())
        directories = dict.fromkeys(path.parent for path in sizes)
        for directory in sorted(directories, key=lambda path: (path == _BELOW.manifest, path)):
            self.target_files.mkdir(self.target.path / directory)
            names = [path.name for path in sizes if path.parent == directory]
            copier.name(directory, [name for name in names if self._copy(copier, directory / name, sizes)])
        self.target_files.fsync_dir(self.target.segments)
        self.target_files.unlink(self.target.backup)
        self.target_files.fsync_dir(self.target.path)

    def _clear(self) -> None:
        """Remove what a copy like this left that was not finished: a salvage would take all that it finds."""
        filled = [path for path in self.target.directories if names_below(self.target_files, path)]
        if filled and BackupRecord.read(self.target_files, self.target) != _UNFINISHED:
            raise StoreError(
                f"{self.target.path}: holds {filled[0].name!r} already; give an empty or a new directory"
            )
        for path in filled:
            self.target_files.rmtree(path)

    def _copy(self, copier: Copier, path: Path, sizes: dict[Path, int]) -> bool:
        """Write a file under a name that does not count yet; give whether there is one."""
        try:
            copier.stage(path, self._counted(self._pieces(path, sizes[path])))
        except OSError as error:
            if not is_damage(error) or error.filename != str(self.source.path / path):
                raise
            self.left_out.append(str(path))
            return False
        self.n_files += 1
        return True

    def _counted(self, pieces: Iterator[tuple[bytes, int]]) -> Iterator[bytes]:
        for piece, n_lost in pieces:
            yield piece
            self.n_bytes += len(piece)
            self.n_bytes_lost += n_lost
            if self.progress is not None:
                self.progress(min(self.n_bytes, self.n_bytes_total), self.n_bytes_total)

    def _pieces(self, path: Path, n_bytes: int) -> Iterator[tuple[bytes, int]]:
        if is_remote(self.files):
            return self.files.plain_pieces(self.source.path / path, n_bytes)
        return pieces_past(self.files, self.source.path / path, n_bytes)

    def _sizes(self) -> dict[Path, int]:
        """Give the files of the store by their place below it, with the bytes that each is said to have."""
        if is_remote(self.files):
            told = self.files.sizes(self.source.path)
            places = {path.relative_to(self.source.path): n_bytes for path, n_bytes in told.items()}
            return {path: n_bytes for path, n_bytes in places.items() if _is_of_store(path)}
        sizes: dict[Path, int] = {}
        for path in self._places():
            try:
                sizes[path] = self.files.size(self.source.path / path)
            except OSError as error:
                if not is_damage(error):
                    raise
                self.left_out.append(str(path))
        return sizes

    def _places(self) -> Iterator[Path]:
        for directory in (*_BELOW.directories, *self._segments()):
            if directory != _BELOW.segments:
                names = names_below(self.files, self.source.path / directory)
                yield from (directory / name for name in names)

    def _segments(self) -> Iterator[Path]:
        yield from (_BELOW.segment(name) for name in names_below(self.files, self.source.segments))


def _is_of_store(path: Path) -> bool:
    """Whether a file lies where those of a store do, and not in a directory that nobody looks into."""
    is_of_segment = path.parent.parent == _BELOW.segments and len(path.parts) == 3
    return is_of_segment or (path.parent != _BELOW.segments and path.parent in _BELOW.directories)
