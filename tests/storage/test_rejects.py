from __future__ import annotations

from pathlib import Path

import pytest

from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.rejects import Reject, RejectFile, read_rejects, write_rejects

REJECTS = [
    Reject("a.jsonl", 1, 0, "no JSON", b"{"),
    Reject("odd \udcff name", 2**62, 2**62, "Zeichen \ud800 geht nicht", bytes(range(256))),
    Reject("", 0, 0, "", b""),
]


@pytest.mark.parametrize("rejects", [REJECTS, REJECTS * 4000])
def test_rejects_come_back_as_they_were(tmp_path: Path, rejects: list[Reject]) -> None:
    path = tmp_path / "00000001.arrow"
    file = write_rejects(OS_FILES, path, rejects)
    assert file.n == len(rejects)
    assert list(read_rejects(OS_FILES, path, RejectFile.from_json(file.to_json()).file)) == rejects


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "00000001.arrow"
    file = write_rejects(OS_FILES, path, REJECTS)
    data = path.read_bytes()
    for bad in (data[:-1], data[:200] + bytes([data[200] ^ 1]) + data[201:], b""):
        path.write_bytes(bad)
        with pytest.raises(DamageError, match=r"00000001\.arrow: \d+ bytes with checksum"):
            list(read_rejects(OS_FILES, path, file.file))
