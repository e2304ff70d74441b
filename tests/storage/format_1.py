"""The store that a version before the format of today wrote."""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parent / "data" / "format-1.tar.xz"


def unpacked(place: Path) -> Path:
    """Unpack it below a directory; gives where it lies."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(place, filter="data")
    (path,) = (root.parent for root in place.rglob("_manifest"))
    return path
