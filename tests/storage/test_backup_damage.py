"""Damage of a store or of its backup is named, and nothing whole is lost to it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.storage.aged_store import add, content, damage_one, files_of, fill_one, names, reader, writer
from tests.storage.records import stored_numbers
from treering.storage.errors import DamageError, StoreError


@pytest.mark.parametrize("how", ["flipped", "short", "long", "missing"])
def test_a_damaged_file_is_named_and_the_backup_stays_as_it_was(aged: Path, tmp_path: Path, how: str) -> None:
    """The store is open while it is damaged, so that only the copying can find it."""
    copy, rng = tmp_path / "copy", random.Random(how)
    with writer(aged) as ring:
        ring.backup(copy)
        shutil.copytree(copy, tmp_path / "first")
        before = content(copy)
        add(ring, 35)
        ring.flush()
        fill_one(ring)
        add(ring, 36)
        victims = sorted(names(aged) - names(copy))
        kinds = {Path(name).name.partition("-")[0] for name in victims}
        assert kinds >= {"hot.arrow", "text.arrow", "late", "segments", "ledger", "rejects", "segment.json"}
        for name in victims:
            if (name.startswith("wal/") and how == "long") or (
                name.endswith("segment.json") and how == "missing"
            ):
                continue  # that is a torn end, and a file that no manifest names
            whole = (aged / name).read_bytes()
            shutil.rmtree(copy)  # it has what the run before brought
            shutil.copytree(tmp_path / "first", copy)
            damage_one(aged / name, how, rng)
            with pytest.raises(StoreError) as caught:
                ring.backup(copy)
            assert Path(name).name in str(caught.value), name
            assert "\n" not in str(caught.value)
            with reader(copy) as backup:
                assert stored_numbers(backup) == before.numbers
            (aged / name).unlink(missing_ok=True)
            (aged / name).write_bytes(whole)
        assert content(copy) == before
        ring.backup(copy)
    assert content(copy) == content(aged)


def test_reading_a_backup_whole_mends_what_is_damaged_in_it(aged: Path, tmp_path: Path) -> None:
    copy, rng = tmp_path / "copy", random.Random(5)
    with reader(aged) as ring:
        ring.backup(copy)
        victims = [n for n in files_of(copy) if n.endswith(".arrow")]
        for name in victims:
            damage_one(copy / name, "flipped", rng)
        careless = ring.backup(copy)
        assert (careless.files_copied, careless.files_mended) == (0, 0)
        report = ring.backup(copy, verify=True)
    assert report.files_mended == report.files_copied == len(victims)
    assert all((copy / name).read_bytes() == (aged / name).read_bytes() for name in victims)


def test_a_file_that_vanished_from_a_backup_is_brought_again(aged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with reader(aged) as ring:
        ring.backup(copy)
        victims = [n for n in files_of(copy) if n.startswith("seg/")][:2]
        for name in victims:
            (copy / name).unlink()
        assert ring.backup(copy).files_mended == len(victims)
    assert content(copy) == content(aged)


def test_a_damaged_backup_is_named_and_not_built_upon(aged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for place in ("_manifest", "meta", "wal", "backup.json"):
        with reader(aged) as ring:
            ring.backup(copy)
            victim = next(n for n in files_of(copy) if n.startswith(place))
            data = bytearray((copy / victim).read_bytes())
            data[30] ^= 1
            (copy / victim).write_bytes(data)
            with pytest.raises(DamageError, match=Path(victim).name):
                ring.backup(copy)
        shutil.rmtree(copy)
