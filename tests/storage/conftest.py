"""Stores that several files of tests look at: each is made once in a process, and who changes one gets a copy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.storage import aged_store, format_1, whole_store
from tests.storage.slow_files import SlowFiles


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "ring"


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every kind of file (`whole_store.build_store`); only to be read."""
    path = tmp_path_factory.mktemp("base") / "ring"
    whole_store.build_store(path)
    return path


@pytest.fixture(scope="session")
def before(base: Path) -> dict[int, whole_store.Row]:
    """All events of that store; only to be read."""
    return whole_store.stored_rows(base)


@pytest.fixture
def store(base: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    return Path(shutil.copytree(base, tmp_path / "ring"))


@pytest.fixture(scope="session")
def aged_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store that has lived a while (`aged_store.age`); only to be read."""
    path = tmp_path_factory.mktemp("aged") / "ring"
    with aged_store.writer(path) as ring:
        aged_store.age(ring)
    return path


@pytest.fixture
def aged(aged_base: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    return Path(shutil.copytree(aged_base, tmp_path / "ring"))


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A store of format 1: no checksums of blocks, and nothing in its directories that tells of segments."""
    return format_1.unpacked(tmp_path / "old")


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each look at a whole `rich_segment` sees; only to be read."""
    from tests.storage import rich_segment

    directory = tmp_path_factory.mktemp("whole") / "s"
    segment = rich_segment.opened(directory, rich_segment.rich_segment(directory))
    return {name: look(segment) for name, look in rich_segment.LOOKS.items()}


@pytest.fixture
def slow() -> Iterator[SlowFiles]:
    """Files that can be made to wait; who waits goes on in the end."""
    files = SlowFiles()
    yield files
    files.may_go_on.set()
