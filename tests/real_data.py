"""Where the public logs and labelled sets are, for tests that run when they are there."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def real(*parts: str) -> Path:
    """A file or folder of the public data; skips the test where it is absent."""
    place = DATA.joinpath(*parts)
    if not place.exists():
        pytest.skip("the public data is not here")
    return place
