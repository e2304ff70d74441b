"""The record in a backup tells which states of its store it can be in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.aged_store import reader
from treering.storage.backup_record import BackupRecord, LogFile, StateRecord
from treering.storage.document import pack
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout
from treering.storage.manifest import root_path


def test_the_record_of_a_backup_comes_back(tmp_path: Path) -> None:
    states = (
        StateRecord(7, 0xDEADBEEF, (LogFile(3, 24, 1), LogFile(4, 1000, 2))),
        StateRecord(6, 5, ()),
    )
    record = BackupRecord("ab" * 16, states)
    layout = Layout(tmp_path)
    assert BackupRecord.read(OS_FILES, layout) is None
    layout.backup.write_bytes(record.packed())
    assert BackupRecord.read(OS_FILES, layout) == record
    layout.backup.write_bytes(pack("model", {}))
    with pytest.raises(DamageError, match=r"backup\.json"):
        BackupRecord.read(OS_FILES, layout)


@pytest.mark.parametrize(
    ("found", "is_known"),
    [
        (LogFile(3, 24, 1), True),
        (LogFile(3, 24, 9), False),
        (LogFile(4, 500, 9), True),  # on the way to 1000
        (LogFile(4, 1000, 2), True),
        (LogFile(4, 1000, 3), False),
        (LogFile(4, 1001, 2), False),
        (LogFile(5, 24, 1), False),
    ],
)
def test_the_record_knows_the_logs_that_a_backup_can_have_made(found: LogFile, is_known: bool) -> None:
    record = BackupRecord("", (StateRecord(7, 0, (LogFile(3, 24, 1), LogFile(4, 1000, 2))),))
    assert record.has_log([found]) is is_known


def test_a_root_is_known_by_version_and_checksum(aged: Path, tmp_path: Path) -> None:
    with reader(aged) as ring:
        ring.backup(tmp_path / "copy")
    layout = Layout(tmp_path / "copy")
    record = BackupRecord.read(OS_FILES, layout)
    assert record is not None
    (state,) = record.states
    assert root_path(layout.manifest, state.version).exists()
    assert record.has_root(state.version, state.crc32c)
    assert not record.has_root(state.version, state.crc32c ^ 1)
    assert not record.has_root(state.version + 1, state.crc32c)
