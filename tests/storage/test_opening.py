"""What opening a store refuses, names, leaves alone and sweeps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.storage.opened import Changes, open_ring
from tests.storage.records import fill, position, raw_batch, reject, stored_numbers
from treering.storage.document import pack
from treering.storage.entry import Entry
from treering.storage.errors import ConfigError, DamageError, StoreError
from treering.storage.upgrade import FORMAT
from treering.storage.wal import make_frame


def test_only_one_process_writes_and_it_is_named(path: Path) -> None:
    with open_ring(path), pytest.raises(StoreError, match=f"process {os.getpid()} writes to it"):
        open_ring(path)
    open_ring(path).close()


def test_a_reader_needs_a_store_and_changes_nothing(path: Path) -> None:
    with pytest.raises(StoreError, match="no treering store there"):
        open_ring(path, "r")
    assert not path.exists()
    open_ring(path).close()
    with open_ring(path, "r") as reader:
        changes: Changes = (reader.flush, reader.fold, lambda: reader.append(raw_batch([1])))
        for change in changes:
            with pytest.raises(StoreError, match="open it with mode 'w'"):
                change()
    with pytest.raises(StoreError, match="is closed"):
        reader.snapshot()
    with pytest.raises(ConfigError, match="mode 'a': unknown"):
        open_ring(path, "a")


def test_a_directory_with_other_things_is_left_alone(path: Path) -> None:
    path.mkdir()
    (path / "letter.txt").write_text("dear")
    with pytest.raises(StoreError, match=r"holds 'letter\.txt' and is no treering store"):
        open_ring(path)
    assert [p.name for p in path.iterdir()] == ["letter.txt"]
    with pytest.raises(StoreError, match="is a file"):
        open_ring(path / "letter.txt")


def test_missing_parents_are_made(tmp_path: Path) -> None:
    open_ring(tmp_path / "a" / "b" / "ring").close()
    assert (tmp_path / "a" / "b" / "ring" / "LOCK").exists()


def test_a_store_of_a_newer_format_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ring(path).close()
    with monkeypatch.context() as patch:
        patch.setattr("treering.storage.document.FORMAT", FORMAT + 1)
        newer = pack("manifest", {"version": 2})
    (path / "_manifest" / f"{2:020d}.json").write_bytes(newer)
    for mode in ("w", "r"):
        with pytest.raises(
            StoreError, match=rf"store format {FORMAT + 1}, this treering reads 1 to {FORMAT};"
        ):
            open_ring(path, mode)


def test_the_newest_manifest_is_never_stepped_over(path: Path) -> None:
    with open_ring(path) as ring:
        keep = open_ring(path, "r").snapshot()
        ring.append(raw_batch([0]))
        ring.flush()
    newest = max((path / "_manifest").iterdir())
    newest.write_bytes(newest.read_bytes()[:-3])
    for mode in ("w", "r"):
        with pytest.raises(DamageError, match=newest.name):
            open_ring(path, mode)
    keep.close()


def test_lost_files_are_named(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch([0]), positions=[position(1)])
        ring.flush()
        ring.append(raw_batch([1]))
    for lost in [*(path / "meta").iterdir(), *(path / "wal").iterdir(), *(path / "seg").rglob("*.arrow")]:
        data = lost.read_bytes()
        lost.unlink()
        for mode in ("w", "r"):
            with pytest.raises(DamageError, match=lost.name), open_ring(path, mode) as ring:
                for part in ring.snapshot().parts:
                    part.column("record"), part.parts(), part.vectors()
                ring.position("source")
        lost.write_bytes(data)
    for manifest in (path / "_manifest").iterdir():
        manifest.unlink()
    with pytest.raises(DamageError, match="no manifest, yet the store has events"):
        open_ring(path)


def test_frames_that_are_in_segments_already_are_left_out(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(3)))
        ring.append(raw_batch(range(3, 5)))
        ring.flush()
        ring.append(raw_batch([5]))
    [log] = (path / "wal").iterdir()
    data = log.read_bytes()
    old = make_frame(Entry(0, raw=raw_batch(range(3)))) + make_frame(Entry(3, raw=raw_batch(range(3, 5))))
    log.write_bytes(data[:24] + old + data[24:])
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(6))
    log.write_bytes(data[:24] + make_frame(Entry(9, raw=raw_batch([9]))) + data[24:])
    with pytest.raises(DamageError, match="goes on at seq 9, expected 5"):
        open_ring(path)


def test_leftovers_of_a_crash_are_swept_at_the_next_opening(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(4)), rejects=[reject(1)])
        ring.flush()
        [segment] = ring.unfinished()
    (path / "seg" / "22-0-dead").mkdir()
    left = ["seg/22-0-dead/hot.arrow", f"seg/{segment.id}/late-0007.arrow", "meta/segments-00000999.json"]
    left += ["rejects/00000998.arrow", "_manifest/00000000000000000009.tmp"]
    for name in left:
        (path / name).write_bytes(b"half")
    with open_ring(path) as ring:
        assert stored_numbers(ring) == list(range(4))
        assert list(ring.rejects()) == [reject(1)]
        fill(ring)
    assert not [name for name in left if (path / name).exists()]
