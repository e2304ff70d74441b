from __future__ import annotations

import os
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from treering.storage.files import OS_FILES, SyncError, crc32c, write_file


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    OS_FILES.mkdir(tmp_path / "d")
    write_file(OS_FILES, tmp_path / "d" / "f", [b"x"])
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "d" / "f").stat().st_mode & 0o777 == 0o600


def test_written_file_is_described_by_size_and_checksum(tmp_path: Path) -> None:
    chunks = [b"one", memoryview(b"two"), np.arange(5, dtype="<i8"), b""]
    stored = write_file(OS_FILES, tmp_path / "f", chunks)
    data = b"onetwo" + np.arange(5, dtype="<i8").tobytes()
    assert OS_FILES.read(tmp_path / "f") == data
    assert (stored.name, stored.n_bytes, stored.crc32c) == ("f", len(data), google_crc32c.value(data))


def test_checksum_is_castagnoli_and_goes_on_from_a_seed() -> None:
    # The check value of CRC-32C in RFC 3720, appendix B.4, and the common check string.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_a_new_file_and_a_link_never_take_a_name_that_is_taken(tmp_path: Path) -> None:
    write_file(OS_FILES, tmp_path / "a", [b"a"])
    write_file(OS_FILES, tmp_path / "b", [b"b"])
    with pytest.raises(FileExistsError):
        OS_FILES.create(tmp_path / "a")
    with pytest.raises(FileExistsError):
        OS_FILES.link(tmp_path / "b", tmp_path / "a")
    assert OS_FILES.read(tmp_path / "a") == b"a"


def test_a_map_outlives_its_file(tmp_path: Path) -> None:
    write_file(OS_FILES, tmp_path / "f", [b"abc"])
    mapped = OS_FILES.map(tmp_path / "f")
    OS_FILES.unlink(tmp_path / "f")
    assert mapped.to_pybytes() == b"abc"
    write_file(OS_FILES, tmp_path / "empty", [])
    assert OS_FILES.map(tmp_path / "empty").size == 0


def test_reading_a_range_gives_what_is_there(tmp_path: Path) -> None:
    write_file(OS_FILES, tmp_path / "f", [b"0123456789"])
    assert OS_FILES.read(tmp_path / "f", 3, 4) == b"3456"
    assert OS_FILES.read(tmp_path / "f", 8, 4) == b"89"
    assert OS_FILES.read(tmp_path / "f", 20) == b""


def test_locks_exclude_each_other_also_in_one_process(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_file(OS_FILES, path, [])
    first, second = OS_FILES.lock(path, exclusive=False), OS_FILES.lock(path, exclusive=False)
    assert first is not None and second is not None
    assert OS_FILES.lock(path, exclusive=True) is None
    first.release()
    assert OS_FILES.lock(path, exclusive=True) is None
    second.release()
    alone = OS_FILES.lock(path, exclusive=True)
    assert alone is not None
    assert OS_FILES.lock(path, exclusive=False) is None
    alone.release()
    alone.release()


def test_locking_a_file_that_vanished_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    write_file(OS_FILES, path, [])
    real_open = os.open

    def open_then_lose(*arguments: object, **more: object) -> int:
        fd = real_open(*arguments, **more)  # type: ignore[arg-type]
        path.unlink()
        return fd

    monkeypatch.setattr(os, "open", open_then_lose)
    with pytest.raises(FileNotFoundError):
        OS_FILES.lock(path, exclusive=False)


def test_a_failed_fsync_is_an_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    handle = OS_FILES.create(tmp_path / "f")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SyncError, match="fsync failed"):
        handle.sync()
    with pytest.raises(SyncError, match="fsync failed"):
        OS_FILES.fsync_dir(tmp_path)
    handle.close()
    handle.close()
