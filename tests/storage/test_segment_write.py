from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from tests.storage.faults import Fault, FaultyFiles
from tests.storage.same_parts import (
    plain_batch,
)
from treering.storage.files import OS_FILES, Data, Handle, OsFiles
from treering.storage.memory import build
from treering.storage.segment import Segment, write, write_late


class FullHandle:
    """A file on a disk that has room for so many bytes."""

    def __init__(self, handle: Handle, room: list[int]) -> None:
        self.handle, self.room = handle, room
        self.sync, self.close, self.truncate = handle.sync, handle.close, handle.truncate

    def write(self, data: Data) -> None:
        self.room[0] -= pa.py_buffer(data).size
        if self.room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.handle.write(data)


class FullDisk(OsFiles):
    def __init__(self, n_bytes: int) -> None:
        self.room = [n_bytes]

    def create(self, path: Path) -> Handle:
        return FullHandle(super().create(path), self.room)


def test_full_disk_reaches_the_caller_as_it_is(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#f": pa.array([1.0, 2.0, 3.0])})], None, dim=None, part_id="x")
    n_bytes = sum(f.n_bytes for f in write(OS_FILES, tmp_path / "s", part, level=44, cell=0).files)
    for room in range(0, n_bytes, 997):
        with pytest.raises(OSError, match="No space left") as caught:
            write(FullDisk(room), tmp_path / f"s{room}", part, level=44, cell=0)
        assert caught.value.errno == errno.ENOSPC


def test_any_failed_call_reaches_the_caller_as_it_is(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#f": pa.array([1.0, 2.0, 3.0])})], None, dim=None, part_id="x")
    healthy = FaultyFiles(tmp_path)
    write(healthy, tmp_path / "s", part, level=44, cell=0)
    assert {"mkdir", "create", "write", "sync", "fsync_dir"} <= set(healthy.calls)
    for at in range(len(healthy.calls)):
        with pytest.raises(OSError, match="made to fail: EIO"):
            write(
                FaultyFiles(tmp_path, Fault(at=at, error=errno.EIO)),
                tmp_path / f"s{at}",
                part,
                level=44,
                cell=0,
            )


def test_written_segment_survives_a_power_loss(tmp_path: Path) -> None:
    part = build([plain_batch(3, {"a#f": pa.array([1.0, 2.0, 3.0])})], None, dim=None, part_id="x")
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    files = FaultyFiles(before)
    meta = write(files, before / "s", part, level=44, cell=0)
    late = write_late(files, before / "s", 0, vectors=None, signals={"score": pa.array([0.5, None, 1.0])})
    files.fsync_dir(before)
    files.after_power_loss(after, None)
    segment = Segment.open(OS_FILES, after / "s", meta.with_late(late, pending=0, signals_pending=False))
    segment.verify()
    assert segment.column("score").to_pylist() == [0.5, None, 1.0]
