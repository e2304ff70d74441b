"""A reader beside a writer whose calls fail at the worst moment."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.handles import Through
from tests.storage.records import decode, raw_batch, stored_numbers
from treering.storage.errors import StoreError
from treering.storage.files import OS_FILES, Data, Handle, OsFiles
from treering.storage.ring import Ring


class FullBehindHeader(OsFiles):
    """Files of which the second one of the log cannot be written: `then` happens, and the disk is full."""

    def __init__(self) -> None:
        self.then: Callable[[], object] | None = None

    def create(self, path: Path) -> Handle:
        handle = super().create(path)
        return FullHandle(handle, self.then) if self.then and path.suffix == ".wal" else handle


class FullHandle(Through):
    """A new file that nothing can be written to."""

    def __init__(self, handle: Handle, then: Callable[[], object]) -> None:
        super().__init__(handle)
        self.then = then

    def write(self, data: Data) -> None:
        self.then()
        raise OSError(errno.ENOSPC, "made to fail")


def test_a_reader_that_saw_a_file_of_the_log_being_made_goes_on_where_that_came_to_nothing(
    tmp_path: Path,
) -> None:
    path, files = tmp_path / "ring", FullBehindHeader()
    with (
        Ring.open(path, decoder=decode, files=files) as ring,
        Ring.open(path, "r", decoder=decode) as reader,
    ):
        ring.append(raw_batch(range(3)))
        seen: list[int] = []
        files.then = lambda: seen.extend(stored_numbers(reader))
        with pytest.raises(
            StoreError, match=r"flush failed.*events up to number 2 are acknowledged.*only the flush"
        ):
            ring.flush()
        assert seen == [0, 1, 2]
        files.then = None
        ring.append(raw_batch(range(3, 5)))
        assert stored_numbers(reader) == [0, 1, 2, 3, 4]
        ring.flush()
        ring.append(raw_batch([5]))
        assert stored_numbers(reader) == [0, 1, 2, 3, 4, 5]


class InterruptedLog(OsFiles):
    """Files of the log that the user interrupts right behind a write, once `then` has happened."""

    def __init__(self) -> None:
        self.then: Callable[[], object] | None = None

    def append(self, path: Path) -> Handle:
        return InterruptedHandle(super().append(path), self)


class InterruptedHandle(Through):
    """An open file of an `InterruptedLog`."""

    def __init__(self, handle: Handle, files: InterruptedLog) -> None:
        super().__init__(handle)
        self.files = files

    def write(self, data: Data) -> None:
        self.handle.write(data)
        if self.files.then is not None:
            self.files.then()
            raise KeyboardInterrupt


def test_what_a_reader_saw_of_an_interrupted_append_stays(tmp_path: Path) -> None:
    path, files = tmp_path / "ring", InterruptedLog()
    ring = Ring.open(path, decoder=decode, files=files)
    with Ring.open(path, "r", decoder=decode) as reader:
        ring.append(raw_batch(range(3)))
        seen: list[int] = []
        files.then = lambda: seen.extend(stored_numbers(reader))
        with pytest.raises(KeyboardInterrupt):
            ring.append(raw_batch([3, 4, 5]))
        files.then = None
        with suppress(StoreError):
            ring.append(raw_batch([7]))
        ring.close()
        with Ring.open(path, decoder=decode) as again:
            again.append(raw_batch([8]))
            assert stored_numbers(reader)[: len(seen)] == seen
            assert stored_numbers(reader) == stored_numbers(again)


def test_a_reader_does_not_wait_for_a_lock_that_nobody_of_ours_holds(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    with Ring.open(path, decoder=decode) as ring:
        ring.append(raw_batch(range(3)))
    (manifest,) = (path / "_manifest").glob("*.json")
    lock = OS_FILES.lock(manifest, exclusive=True)
    assert lock is not None
    with pytest.raises(StoreError, match="something else holds a lock on it"):
        Ring.open(path, "r", decoder=decode)
    lock.release()
    with Ring.open(path, "r", decoder=decode) as reader:
        assert stored_numbers(reader) == [0, 1, 2]
