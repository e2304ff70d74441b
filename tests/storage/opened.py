"""A ring of numbered records, opened in a few ways, and small changes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.storage.records import decode
from treering.storage.files import OS_FILES, Files
from treering.storage.ring import Ring

Changes = tuple[Callable[[], object], ...]


def open_ring(path: Path, mode: str = "w", flush_bytes: int = 1 << 20, files: Files = OS_FILES) -> Ring:
    return Ring.open(path, mode, decoder=decode, flush_bytes=flush_bytes, files=files)  # type: ignore[arg-type]


def nothing() -> None:
    """Change nothing."""
