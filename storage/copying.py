"""Copies of immutable files that are either whole and durable or not there: checked on the way, named last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .blame import as_damage, past_damage
from .errors import DamageError, StoreError
from .files import Data, Files, crc32c, names_below, write_file
from .stored_file import StoredFile

PART = ".part"
"""Ending of a file that is not whole yet; nobody reads one."""

CHUNK_BYTES = 4 << 20
"""Bytes that are read at a time: files are read and not mapped, so that a failing disk gives an error."""

CopyProgress = Callable[[int, int], None]
"""Called with the bytes that are done and those that there are."""


@dataclass(slots=True)
class Tally:
    """What was copied so far. present: already there. mended: was there, but not as it was written."""

    n_files: int = 0
    n_bytes: int = 0
    n_bytes_present: int = 0
    n_mended: int = 0
    n_bytes_total: int = 0
    progress: CopyProgress | None = None

    def copied(self, n_bytes: int, *, n_files: int = 0) -> None:
        """Count bytes that were written."""
        self.n_files += n_files
        self.n_bytes += n_bytes
        self._tell()

    def present(self, n_bytes: int) -> None:
        """Count bytes that were there."""
        self.n_bytes_present += n_bytes
        self._tell()

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self.n_bytes + self.n_bytes_present, self.n_bytes_total)


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies files from one directory tree to another, which may lie elsewhere (`source_files`).

    known: what the newest version of the target names, by path below it. verify: read what is there, too.
    """

    files: Files
    source_files: Files
    source: Path
    target: Path
    known: Mapping[Path, StoredFile]
    verify: bool
    tally: Tally = field(default_factory=Tally)

    def copy(self, directory: Path, stored: Sequence[StoredFile]) -> bool:
        """Bring files of `directory`, a path below both trees, that the target lacks; durable on return.

        Gives whether the newest version of the target did not name them all. Raises DamageError, naming it, for a
        file of the source that is not as it was written, StoreError where the target's file of that name is
        another one.
        """
        missing = [file for file in stored if not self._has(directory / file.name, file)]
        if missing:
            self.files.mkdir(self.target / directory)
            for file in missing:
                self._copy(directory / file.name, file)
            self.name(directory, [file.name for file in missing])
        # What a run that was killed left is there, but perhaps not on the disk.
        is_new = any(directory / file.name not in self.known for file in stored)
        if is_new and not missing:
            self.files.fsync_dir(self.target / directory)
        return is_new

    def put(self, path: Path, chunks: Iterable[Data]) -> None:
        """Write a file at `path` below the target, over what is there; durable on return."""
        self.stage(path, chunks)
        self.name(path.parent, [path.name])

    def name(self, directory: Path, names: Iterable[str]) -> None:
        """Give staged files of a directory their names; durable on return."""
        place = self.target / directory
        for name in names:
            try:
                self.files.rename(place / (name + PART), place / name)
            except IsADirectoryError:
                self.files.rmtree(place / name)
                self.files.rename(place / (name + PART), place / name)
        self.files.fsync_dir(place)

    def remove(self, path: Path) -> None:
        """Remove what lies in the place of a file of the target."""
        try:
            self.files.unlink(path)
        except IsADirectoryError:
            self.files.rmtree(path)

    def _has(self, path: Path, file: StoredFile) -> bool:
        known = self.known.get(path)
        if known is not None and known != file:
            raise StoreError(
                f"{self.target / path}: crc32c {known.crc32c:08x}, the store's file of that name has "
                f"{file.crc32c:08x}: the backup has another history; give an empty or a new directory"
            )
        is_there = self._is_there(path, file, is_known=known is not None)
        if is_there:
            self.tally.present(file.n_bytes)
        elif known is not None or (self.verify and self._has_name(path)):
            self.tally.n_mended += 1
        return is_there

    def _has_name(self, path: Path) -> bool:
        return path.name in names_below(self.files, (self.target / path).parent)

    def _is_there(self, path: Path, file: StoredFile, *, is_known: bool) -> bool:
        place = self.target / path
        with past_damage():
            if self.files.size(place) != file.n_bytes:
                return False
            # What no version of the target names is left of a backup that was not finished.
            is_trusted = is_known and not self.verify
            return is_trusted or checksum(self.files, place, file.n_bytes) == file.crc32c
        return False

    def _copy(self, path: Path, file: StoredFile) -> None:
        try:
            found = self.stage(path, self._chunks(path))
        except FileNotFoundError as error:
            if error.filename != str(self.source / path):
                raise
            raise DamageError(f"{self.source / path}: missing, the manifest names it; {_MEND}") from error
        if (found.n_bytes, found.crc32c) != (file.n_bytes, file.crc32c):
            self.files.unlink(self.target / path.with_name(path.name + PART))
            raise DamageError(
                f"{self.source / path}: {found.n_bytes} bytes with crc32c {found.crc32c:08x}, the manifest says "
                f"{file.n_bytes} with {file.crc32c:08x}; {_MEND}"
            )
        self.tally.copied(0, n_files=1)

    def _chunks(self, path: Path) -> Iterator[bytes]:
        start = 0
        while chunk := self._read(self.source / path, start):
            yield chunk
            start += len(chunk)
            self.tally.copied(len(chunk))

    def _read(self, path: Path, start: int) -> bytes:
        with as_damage(path):
            return self.source_files.read(path, start, CHUNK_BYTES)

    def stage(self, path: Path, chunks: Iterable[Data]) -> StoredFile:
        """Write a file, synced, under a name that nobody reads until `name` gives it its own."""
        part = self.target / path.with_name(path.name + PART)
        with suppress(FileNotFoundError):
            self.files.unlink(part)
        try:
            return write_file(self.files, part, chunks)
        except OSError:
            # It may be a full disk: what is of no use must not fill it. What stays is swept by the next backup.
            with suppress(OSError):
                self.files.unlink(part)
            raise


def checksum(files: Files, path: Path, n_bytes: int) -> int:
    """Give the crc32c of the first `n_bytes` of a file, or of all of a shorter one."""
    start, value = 0, 0
    while chunk := files.read(path, start, min(CHUNK_BYTES, n_bytes - start)):
        start, value = start + len(chunk), crc32c(chunk, value)
    return value


_MEND = "restore the file from a copy"
