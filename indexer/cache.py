"""The directory of things that treering can make again, and writing to it without ever failing for it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Give `$TREERING_CACHE`, else `treering` below `$XDG_CACHE_HOME`, else below `~/.cache`."""
    own = os.environ.get("TREERING_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "treering"


def write_quietly(path: Path, data: bytes) -> bool:
    """Replace a cache file in one step; give False where the directory cannot be written.

    A cache that cannot be kept costs time and nothing else, so this is no error.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        Path(file.name).replace(path)
    except OSError:
        return False
    return True
