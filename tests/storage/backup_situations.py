"""Stores and backups as they can stand when the next backup is made, set up again and again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.storage.aged_store import add, content, fill_one, reader, writer
from tests.storage.faults import FaultyFiles
from tests.storage.records import MODEL, fill
from treering.storage.files import Files


def nothing_yet(root: Path) -> None:
    with writer(root / "ring") as ring:
        add(ring, 4)
        ring.flush()
        fill_one(ring)
        add(ring, 9)


def only_the_log_grew(root: Path) -> None:
    with writer(root / "ring") as ring:
        add(ring, 4)
        ring.backup(root / "copy")
        add(ring, 9)
        add(ring, 12)


def one_flush_later(root: Path) -> None:
    with writer(root / "ring") as ring:
        add(ring, 4)
        ring.backup(root / "copy")
        add(ring, 9)
        ring.flush()
        add(ring, 12)


def many_versions_later(root: Path) -> None:
    with writer(root / "ring") as ring:
        ring.set_model(MODEL)
        for end in (4, 6):
            add(ring, end)
            ring.flush()
        add(ring, 11)
        ring.backup(root / "copy")
        for end in (14, 16):
            add(ring, end)
            ring.flush()
        fill(ring)
        add(ring, 22)
        add(ring, 23)


SITUATIONS = (nothing_yet, only_the_log_grew, one_flush_later, many_versions_later)


@dataclass
class Bench:
    """A situation that can be set up again and again; n_before: events in the backup, None: there is none."""

    home: Path
    n_before: int | None
    n_all: int

    def set_up(self, name: str) -> Path:
        shutil.copytree(self.home / "start", self.home / name)
        return self.home / name


def bench(tmp_path: Path, situation: Callable[[Path], None]) -> Bench:
    start = tmp_path / "start"
    start.mkdir()
    situation(start)
    n_before = len(content(start / "copy").numbers) if (start / "copy").exists() else None
    return Bench(tmp_path, n_before, len(content(start / "ring").numbers))


def run(root: Path, files: Files) -> None:
    with reader(root / "ring", files) as ring:
        ring.backup(root / "copy")


def changes_of(bench: Bench, among: tuple[str, ...]) -> list[str]:
    root = bench.set_up("count")
    files = FaultyFiles(root)
    run(root, files)
    return [call for call in files.calls if not among or call in among]


def restore(root: Path, files: Files) -> None:
    with reader(root / "ring", files) as ring:
        ring.restore(root / "copy")
