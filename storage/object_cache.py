"""Objects that were taken once, kept on the local disk and shared by the processes of a user.

It holds immutable files only, by name, size and checksum; what lies there can always be taken again.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .errors import ConfigError
from .files import OS_FILES

Check = Callable[[pa.Buffer], bool]
"""Whether a file is as it should be."""

DEFAULT_LIMIT_BYTES = 10 << 30
"""Size up to which a cache grows, unless `TREERING_CACHE_LIMIT` says otherwise."""

_KEPT = 0.9
"""Share of the limit that is left when a cache was thinned."""

_SCAN = 16
"""A cache is looked through when a process has added a part of the limit: 1 / this."""

_LIMIT = re.compile(r"(\d+)\s*([KMGT]?)i?B?", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(slots=True)
class FileCache:
    """Files below `directory`, in a folder a store; the least recently used go when all exceed `limit_bytes`.

    Nothing here fails for want of a disk: then files are held in memory. A limit of 0 keeps nothing on disk.
    """

    directory: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    hits: int = 0
    misses: int = 0
    _unscanned: int | None = None

    def get(
        self,
        folder: str,
        name: str,
        n_bytes: int,
        make: Callable[[], bytes],
        is_right: Check = lambda _: True,
    ) -> pa.Buffer:
        """Give a file as a memory map, made with `make` where it is not kept, or not as it should be."""
        path = self.directory / folder / name
        if (kept := _mapped(path, n_bytes, is_right)) is not None:
            self.hits += 1
            return kept
        self.misses += 1
        data = make()
        return self._keep(path, data) if len(data) == n_bytes and self.limit_bytes else pa.py_buffer(data)

    def has(self, folder: str, name: str, n_bytes: int) -> bool:
        """Whether a file is kept."""
        try:
            return OS_FILES.size(self.directory / folder / name) == n_bytes
        except OSError:
            return False

    def drop(self, folder: str, beginning: str) -> None:
        """Forget the files whose names begin so."""
        with suppress(OSError):
            for name in OS_FILES.listdir(self.directory / folder):
                if name.startswith(beginning):
                    OS_FILES.unlink(self.directory / folder / name)

    def _keep(self, path: Path, data: bytes) -> pa.Buffer:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept = _written(path, data)
        except OSError:
            return pa.py_buffer(data)
        self._count(len(data))
        return kept

    def _count(self, n_bytes: int) -> None:
        # A process that begins does not know how much others left.
        self._unscanned = self.limit_bytes if self._unscanned is None else self._unscanned + n_bytes
        if self._unscanned * _SCAN >= self.limit_bytes:
            self._unscanned = 0
            self._thin()

    def _thin(self) -> None:
        files = sorted(_kept_files(self.directory))
        excess = sum(size for _, size, _ in files) - self.limit_bytes
        if excess <= 0:
            return
        excess += int((1 - _KEPT) * self.limit_bytes)
        for _, size, path in files:
            if excess <= 0:
                return
            excess -= size
            # Whoever mapped it keeps it.
            with suppress(OSError):
                path.unlink()


def cache_from(environ: Mapping[str, str] = os.environ) -> FileCache:
    """Give the user's cache: `$TREERING_CACHE`, else `treering` below `$XDG_CACHE_HOME` or `~/.cache`.

    Raises ConfigError for a `$TREERING_CACHE_LIMIT` that is no size.
    """
    own, base = environ.get("TREERING_CACHE"), environ.get("XDG_CACHE_HOME")
    folder = Path(own) if own else (Path(base) if base else Path.home() / ".cache") / "treering"
    limit = environ.get("TREERING_CACHE_LIMIT")
    return FileCache(folder / "objects", DEFAULT_LIMIT_BYTES if not limit else read_size(limit))


def read_size(text: str) -> int:
    """Read a size: bytes, or with K, M, G or T (powers of 1024). Raises ConfigError."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"TREERING_CACHE_LIMIT={text!r}: no size, expected a number of bytes or e.g. 20G")
    return int(found[1]) * _FACTORS[found[2].upper()]


def _mapped(path: Path, n_bytes: int, is_right: Check) -> pa.Buffer | None:
    try:
        kept = OS_FILES.map(path)
        if kept.size != n_bytes or not is_right(kept):
            path.unlink()
            return None
        os.utime(path)
    except OSError:
        return None
    return kept


def _written(path: Path, data: bytes) -> pa.Buffer:
    """Give a file that appears under its name only whole, also after a power loss; mapped before others see it."""
    draft = path.with_name(f"{uuid.uuid4().hex}.tmp")
    handle = OS_FILES.create(draft)
    try:
        handle.write(data)
        handle.sync()
        handle.close()
        kept = OS_FILES.map(draft)
        OS_FILES.rename(draft, path)
    except OSError:
        handle.close()
        with suppress(OSError):
            draft.unlink()
        raise
    return kept


def _kept_files(directory: Path) -> list[tuple[int, int, Path]]:
    """Give when each file was last used (ns), its size and its path."""
    found = []
    for path in directory.glob("*/*"):
        with suppress(OSError):
            told = path.stat()
            found.append((told.st_mtime_ns, told.st_size, path))
    return found
