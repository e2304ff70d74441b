"""Of a damaged log a salvage keeps every frame that is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.account import check_account, salvaged
from tests.storage.faults import Fault, FaultyFiles, PowerLoss
from tests.storage.records import position, reject
from tests.storage.whole_store import open_store, records, stored_rows
from treering.storage.check import check_store
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout


@pytest.fixture
def log_store(tmp_path: Path) -> Path:
    """A store whose log has ten frames of ten events, and no segment."""
    path = tmp_path / "ring"
    with open_store(path) as ring:
        for first in range(0, 100, 10):
            numbers = range(first, first + 10)
            ring.append(records(numbers), positions=[position(first)], rejects=[reject(first)])
    return path


@pytest.mark.parametrize("lost", [[0], [5], [9], [0, 1, 5], [3, 4, 8], list(range(9))])
def test_frames_behind_damaged_ones_are_kept(log_store: Path, lost: list[int]) -> None:
    before = stored_rows(log_store)
    (log,) = log_store.glob("wal/*.wal")
    whole = bytearray(log.read_bytes())
    frame = (len(whole) - 24) // 10
    for number in lost:
        whole[24 + number * frame + frame // 2] ^= 1
    log.write_bytes(whole)
    if lost == [9]:
        # A last frame cannot be told from one that was never acknowledged.
        assert check_store(OS_FILES, Layout(log_store)).is_clean
        return
    report = salvaged(log_store)
    gone = {seq for number in lost if number != 9 for seq in range(10 * number, 10 * number + 10)}
    assert check_account(log_store, report, before).keys() == before.keys() - gone
    with open_store(log_store, "r") as ring:
        assert [one.line for one in ring.rejects()] == [n for n in range(0, 100, 10) if n not in gone]
        at = ring.position("source")
        assert at is not None and at.offset == 90


def test_a_missing_file_of_the_log_is_told_by_the_numbers_behind_it(log_store: Path, tmp_path: Path) -> None:
    files = FaultyFiles(log_store)
    ring = open_store(log_store, files=files)
    files.n_calls, files.fault = 0, Fault(0, among=("link",))
    with pytest.raises(PowerLoss):
        ring.flush()
    (tmp_path / "left").mkdir()
    log_store = files.after_power_loss(tmp_path / "left", None)
    with open_store(log_store) as ring:
        ring.append(records(range(100, 110)))
    before = stored_rows(log_store)
    first = min(log_store.glob("wal/*.wal"))
    first.unlink()
    report = salvaged(log_store)
    assert check_account(log_store, report, before).keys() == set(range(100, 110))
    (loss,) = report.losses
    assert (loss.file, loss.n, loss.seqs) == (f"wal/{first.name}", 100, ((0, 100),))
