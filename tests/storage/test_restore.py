"""A restored store is the store that was backed up, in a place that was empty."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.storage.aged_store import add, content, damage_one, names, reader, writer
from treering.storage.errors import DamageError, StoreError


def test_a_restored_store_is_the_same_store_and_no_backup(aged: Path, tmp_path: Path) -> None:
    copy, again = tmp_path / "copy", tmp_path / "again"
    with reader(aged) as ring:
        ring.backup(copy)
    shutil.rmtree(aged)
    with reader(copy) as ring:
        report = ring.restore(again)
        assert report.events == 30
    assert content(again) == content(copy)
    assert names(again) == names(copy) - {"backup.json"}
    with writer(again) as ring:
        add(ring, 33)
        ring.flush()
        ring.backup(copy)
    assert content(copy).numbers == list(range(33))


@pytest.mark.parametrize("kind", ["store", "backup", "letter"])
def test_restoring_needs_an_empty_place(aged: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with reader(aged) as ring:
        if kind == "store":
            writer(target).close()
        elif kind == "backup":
            ring.backup(target)
        else:
            (target / "letter.txt").write_text("dear")
        before = names(target)
        with pytest.raises(StoreError, match="give an empty or a new directory"):
            ring.restore(target)
    assert names(target) == before


def test_a_damaged_backup_is_not_restored(aged: Path, tmp_path: Path) -> None:
    copy, rng = tmp_path / "copy", random.Random(3)
    with reader(aged) as ring:
        ring.backup(copy)
    for number, name in enumerate(sorted(names(copy) - {"backup.json", "LOCK"})):
        whole = (copy / name).read_bytes()
        damage_one(copy / name, "flipped", rng)
        target = tmp_path / f"target-{number}"
        if name.startswith("wal/"):
            continue  # its last frame may be torn: that is no damage
        with pytest.raises(DamageError, match=Path(name).name), reader(copy) as ring:
            ring.restore(target)
        with pytest.raises(StoreError):
            reader(target)
        (copy / name).write_bytes(whole)
