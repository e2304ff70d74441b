"""A catalog put together from what is left of it, also where whole directories are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.storage.faults import FaultyFiles
from tests.storage.records import MODEL, decode, fill, raw_batch, reject, stored_numbers
from treering.query.check import embedded_texts
from treering.storage.check import check_store
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout
from treering.storage.ring import Ring
from treering.storage.salvage import salvage


@pytest.mark.parametrize(
    "lost", [("rejects",), ("_manifest",), ("_manifest", "rejects"), ("_manifest", "meta", "wal")]
)
def test_directories_that_a_salvage_makes_anew_are_on_the_disk(tmp_path: Path, lost: tuple[str, ...]) -> None:
    live, left = tmp_path / "live", tmp_path / "left"
    for place in (live, left):
        place.mkdir()
    with Ring.open(live / "ring", decoder=decode) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(5)), rejects=[reject(1)])
        ring.flush()
        fill(ring)
    for name in lost:
        shutil.rmtree(live / "ring" / name)
    files = FaultyFiles(live)
    salvage(files, Layout(live / "ring"), decode, embedded_texts)
    files.after_power_loss(left, None)
    assert check_store(OS_FILES, Layout(left / "ring"), deep=True).is_clean
    with Ring.open(left / "ring", decoder=decode) as ring:
        assert stored_numbers(ring) == list(range(5))
