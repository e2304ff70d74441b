"""Empty stores of logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.indexer.moves import Loader, Make
from treering.indexer.decode import Decoder
from treering.storage.ring import Ring


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    """An empty store."""
    with Ring.open(tmp_path / "ring", "w", decoder=Decoder()) as opened:
        yield opened


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes empty stores, which are closed at the end."""
    rings: list[Ring] = []

    def _make(name: str) -> Loader:
        rings.append(Ring.open(tmp_path / name, "w", decoder=Decoder()))
        return Loader(rings[-1], tmp_path)

    yield _make
    for ring in rings:
        ring.close()
