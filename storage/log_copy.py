"""The log of a backup: what it holds, and how it grows without ever being unreadable.

A log may be read at any moment and after any crash. So a file comes whole or grows at its end; each is durable
before the next one is there; and there is never a gap in the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .backup_record import LogFile
from .blame import past_damage
from .copying import CHUNK_BYTES, PART, Copier, checksum
from .errors import DamageError, StoreError
from .files import Files, crc32c
from .layout import Layout
from .wal import HEADER, Mark, WalWriter, read_frames, wal_numbers, wal_path

_WAL = Layout(Path()).wal
_EMPTY = ".empty"


def log_files(files: Files, directory: Path, floor: int, end: Mark) -> tuple[LogFile, ...]:
    """Describe the log from file `floor` on up to `end`, which is behind a whole frame.

    Raises DamageError, naming file and byte, unless all frames before are whole.
    """
    _, found = read_frames(files, directory, Mark(floor), floor=floor)
    if (found.number, found.offset) < (end.number, end.offset):
        raise DamageError(
            f"{wal_path(directory, found.number)} at byte {found.offset}: a frame fails its checksum or is cut "
            "short, and it was acknowledged; restore the file from a copy"
        )
    # A file without its header is one that was just being made.
    numbers = range(floor, end.number + (end.offset > 0))
    return tuple(_log_file(files, directory, number, end) for number in numbers)


def _log_file(files: Files, directory: Path, number: int, end: Mark) -> LogFile:
    path = wal_path(directory, number)
    n_bytes = end.offset if number == end.number else files.size(path)
    return LogFile(number, n_bytes, checksum(files, path, n_bytes))


def held_log(files: Files, directory: Path, floor: int) -> tuple[LogFile, ...]:
    """Describe all of the log from file `floor` on, but for a torn end. Raises DamageError."""
    _, end = read_frames(files, directory, Mark(floor), floor=floor)
    return log_files(files, directory, floor, end)


def has_frames(file: LogFile) -> bool:
    """Whether more than a header stands in it."""
    return file.n_bytes > HEADER.size


@dataclass(frozen=True, slots=True)
class LogCopy:
    """Brings the log of a backup from `held`, of its old root, to `wanted`, of the new one.

    Calls in this order: `check` and `stage`, which change nothing that is read; `make_room`; the commit of the
    root, before `bring` or after it (`goes_on`); `bring`.
    """

    copier: Copier
    held: Sequence[LogFile]
    wanted: Sequence[LogFile]

    def check(self, recorded: Sequence[LogFile]) -> None:
        """Raise StoreError unless all that both logs have is the same. recorded: what the backup's is, or should be."""
        wanted = {file.number: file for file in self.wanted}
        for held in recorded:
            file = wanted.get(held.number)
            if file is None:
                continue
            if held.n_bytes > file.n_bytes or self._source_checksum(held) != held.crc32c:
                raise StoreError(
                    f"{self._target(held.number)}: holds frames that the store's log has not: the backup has "
                    "another history; give an empty or a new directory"
                )

    @property
    def goes_on(self) -> bool:
        """Whether what is wanted goes on where the old root's log ends, so that it may come before the new root.

        Else the store has dropped files in between, and no root but the new one can read it.
        """
        if not self.held or self.held[0].number == self.wanted[0].number:
            return True
        return any(file.number == self.wanted[0].number and has_frames(file) for file in self.held)

    def stage(self) -> None:
        """Write the files that come whole, so that a full disk is met before anything is changed."""
        for file in self._whole():
            self.copier.stage(wal_path(_WAL, file.number), self._checked(file, 0, 0))

    def clear(self, recorded: Sequence[LogFile]) -> None:
        """Remove the files of a damaged log behind those that are wanted: they would be read with these.

        recorded: what the log should be.
        """
        there, last = wal_numbers(self.copier.files, self._directory), self.wanted[-1].number
        damaged = [one for one in recorded if one.number in there and not self._is_there(one)]
        self.copier.tally.n_mended += len(damaged)
        for number in there:
            if number > last:
                self.copier.remove(self._target(number))
        self.copier.files.fsync_dir(self._directory)

    def _is_there(self, file: LogFile) -> bool:
        with past_damage():
            return checksum(self.copier.files, self._target(file.number), file.n_bytes) == file.crc32c
        return False

    def make_room(self) -> None:
        """Let the new root find its log, and the old one no gap in its own; durable on return.

        A torn end is cut. Where the store went on to later files than those of the old root, empty ones stand
        between.
        """
        if not self.held:
            return
        self._cut_torn_end()
        # What a run that was killed made is there, but perhaps not on the disk.
        self.copier.files.fsync_dir(self._directory)
        if self.goes_on:
            return
        last, floor = self.held[-1].number, self.wanted[0].number
        for number in range(last + 1, floor):
            WalWriter.create(self.copier.files, self._directory, number).close()
        if floor > last:
            header = self.copier.source_files.read(wal_path(self._source, floor), 0, HEADER.size)
            place = self._target(floor)
            self.copier.stage(_WAL / (place.name + _EMPTY), [header])
            self.copier.files.rename(place.with_name(place.name + _EMPTY + PART), place)
            self.copier.files.fsync_dir(self._directory)

    def bring(self) -> None:
        """Bring every frame that is missing; durable on return."""
        whole = {file.number for file in self._whole()}
        held = {file.number: file.n_bytes for file in self.held}
        for file in self.wanted:
            if file.number in whole:
                self.copier.name(_WAL, [wal_path(_WAL, file.number).name])
                self.copier.tally.copied(0, n_files=1)
            else:
                self._append(file, held[file.number])

    def _whole(self) -> list[LogFile]:
        if not self.goes_on:
            return list(self.wanted)
        held = {file.number for file in self.held}
        return [file for file in self.wanted if file.number not in held]

    def _append(self, file: LogFile, start: int) -> None:
        self.copier.tally.present(start)
        files, path = self.copier.files, self._target(file.number)
        handle = files.append(path)
        try:
            if start < file.n_bytes:
                for chunk in self._checked(file, start, checksum(files, path, start)):
                    handle.write(chunk)
            handle.sync()
        except BaseException:
            # Half a frame at the end would do no harm, wrong bytes in a frame might.
            with suppress(OSError):
                handle.truncate(start)
            raise
        finally:
            handle.close()

    def _checked(self, file: LogFile, start: int, value: int) -> Iterator[bytes]:
        """Give the bytes of a file of the source from `start` on; `value` is the checksum of those before."""
        files, path = self.copier.source_files, wal_path(self._source, file.number)
        while start < file.n_bytes and (
            chunk := files.read(path, start, min(CHUNK_BYTES, file.n_bytes - start))
        ):
            start, value = start + len(chunk), crc32c(chunk, value)
            yield chunk
            self.copier.tally.copied(len(chunk))
        if value != file.crc32c:
            raise DamageError(f"{path}: changed while it was being copied; check the disk and do it again")

    def _cut_torn_end(self) -> None:
        files, last = self.copier.files, self.held[-1]
        path = self._target(last.number)
        for number in wal_numbers(files, self._directory):
            if number > last.number:
                files.unlink(self._target(number))
                files.fsync_dir(self._directory)
        if files.size(path) > last.n_bytes:
            handle = files.append(path)
            try:
                handle.truncate(last.n_bytes)
                handle.sync()
            finally:
                handle.close()

    def _source_checksum(self, held: LogFile) -> int:
        return checksum(self.copier.source_files, wal_path(self._source, held.number), held.n_bytes)

    def _target(self, number: int) -> Path:
        return wal_path(self._directory, number)

    @property
    def _source(self) -> Path:
        return self.copier.source / _WAL

    @property
    def _directory(self) -> Path:
        return self.copier.target / _WAL
