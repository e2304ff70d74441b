"""`Files` over the objects of a bucket: the layout of a store is the same as on a disk.

What differs: a file exists from its first `sync` on, whole; directories need not be made; files of the log grow by
parts (`object_log.py`); no lock keeps a writer away (`fence.py`), and readers hold nothing, so that what they may
still need stays for a while (`GRACE_S`).
"""

from __future__ import annotations

import errno
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from .bucket import Bucket, side_by_side
from .errors import DamageError, StoreError
from .fence import Fence
from .files import Data, Handle, Lock, crc32c
from .layout import Layout
from .object_cache import FileCache
from .object_handles import LogHandle, ObjectHandle
from .object_log import GrowingFiles
from .probe import probe
from .stored_file import StoredFile

GRACE_S = 900.0
"""How long a manifest, and what only it names, stays after the next one was committed, in seconds."""


class ObjectLock:
    """Stands for a lock; it keeps nobody away. The writer's gives up the fence."""

    def __init__(self, files: ObjectFiles | None = None) -> None:
        self._files = files

    def release(self) -> None:
        """Let go; twice is once."""
        if self._files is not None:
            self._files.give_up()
            self._files = None

    def is_at(self, path: Path) -> bool:
        """Say yes: who writes is found out by the fence."""
        return True


class ObjectFiles:
    """The files below the root of a bucket, as one process of a reader or a writer sees them."""

    is_remote = True

    def __init__(
        self,
        bucket: Bucket,
        cache: FileCache,
        *,
        grace_s: float = GRACE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bucket = bucket
        self.cache = cache
        self._own = Layout(bucket.root)
        self._now_s = now_s
        self.fence = Fence(bucket, self.key(self._own.manifest), now_s)
        self._is_locked = False
        self._grace = timedelta(seconds=grace_s)
        self._log = GrowingFiles(bucket)
        self._staged: dict[Path, bytes] = {}
        self._manifests: dict[str, datetime] = {}

    def create(self, path: Path) -> Handle:
        """Begin a new file. Its name is taken at the first `sync`, which raises FileExistsError."""
        return LogHandle(self, path, 0) if self._grows(path) else ObjectHandle(path, self._put_new)

    def append(self, path: Path) -> Handle:
        """Open a file of the log for writing at its end. What is written to `LOCK` is not kept."""
        if path == self._own.lock:
            return ObjectHandle(path, self._put_new)
        if not self._grows(path):
            raise StoreError(f"{path}: is no file of the log, it cannot grow in an object store")
        return LogHandle(self, path, self._log.parts(self.key(path)).end)

    def mkdir(self, path: Path) -> None:
        """Do nothing: a directory is there as soon as a file is in it."""

    def fsync_dir(self, path: Path) -> None:
        """Do nothing: an object that was put is durable with its name."""

    def link(self, source: Path, target: Path) -> None:
        """Put what `source` holds under another name, unless that is taken: raises FileExistsError.

        For a manifest that is the commit. Raises StoreError where another writer took over.
        """
        self._put_new(target, self._staged[source] if source in self._staged else self.read(source))
        if target.parent == self._own.manifest:
            self.fence.committed(self.key(target))

    def rename(self, source: Path, target: Path) -> None:
        """Move a file over `target`; a stop in between leaves both."""
        data = self._staged[source] if source in self._staged else self.read(source)
        put = self._log.replace if self._grows(target) else self.bucket.replace
        put(self.key(target), data)
        self.unlink(source)

    def unlink(self, path: Path) -> None:
        """Remove a file; one that is not there as well."""
        if self._is_staged(path):
            self._staged.pop(path, None)
            return
        self.fence.check_recent()
        if self._grows(path):
            self._log.remove(self.key(path))
            return
        self.bucket.delete([self.key(path)])
        self.cache.drop(self._folder, _cache_name(self.key(path)))

    def rmtree(self, path: Path) -> None:
        """Remove all files below a directory."""
        self.fence.check_recent()
        self.bucket.delete([found.key for found in self.bucket.below(self.key(path))])
        self.cache.drop(self._folder, _cache_name(self.key(path) + "/"))

    def listdir(self, path: Path) -> list[str]:
        """Give the names in a directory, sorted; none where there is none."""
        if path == self._own.wal:
            return self._log.refresh(self.key(path))
        objects, prefixes = self.bucket.directory(self.key(path))
        if path == self._own.manifest:
            self._manifests = {_name(found.key): found.modified for found in objects}
        staged = [one.name for one in self._staged if one.parent == path]
        return sorted([*(_name(found.key) for found in objects), *map(_name, prefixes), *staged])

    def size(self, path: Path) -> int:
        """Give the size of a file in bytes."""
        if path in self._staged:
            return len(self._staged[path])
        return self._log.parts(self.key(path)).end if self._grows(path) else self.bucket.size(self.key(path))

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        """Give the contents of a file from byte `start` on."""
        if path in self._staged:
            return self._staged[path][start : None if n_bytes < 0 else start + n_bytes]
        if self._grows(path):
            return self._log.read(self.key(path), start, n_bytes)
        return self.bucket.read(self.key(path), start, n_bytes)

    def map(self, path: Path) -> pa.Buffer:
        """Give the contents of an immutable file, whose checksum is not known; it is not kept."""
        return pa.py_buffer(self.read(path))

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        """Give what stands for a lock.

        Exclusive on `LOCK`: None only where this object has it already; probes what the endpoint does. Exclusive
        on a manifest: None until the grace period after the next one's commit is over. Shared: always.
        """
        if path == self._own.lock and exclusive:
            return self._become_writer()
        if path.parent == self._own.manifest and exclusive and not self._is_expired(path):
            return None
        return ObjectLock()

    def fetch(self, path: Path, stored: StoredFile) -> pa.Buffer:
        """Give an immutable file, taken once, checked, and kept in the cache."""
        return self.cache.get(
            self._folder,
            self._cached(path, stored),
            stored.n_bytes,
            lambda: self._take(path, stored),
            lambda kept: crc32c(kept) == stored.crc32c,
        )

    def prefetch(self, directory: Path, stored: Iterable[StoredFile]) -> None:
        """Take files of a directory side by side into the cache."""
        missing = [
            file
            for file in stored
            if not self.cache.has(self._folder, self._cached(directory / file.name, file), file.n_bytes)
        ]
        if len(missing) > 1:
            side_by_side(lambda file: self._prefetch(directory / file.name, file), missing)

    def seal(self, path: Path) -> None:
        """End a file of the log for ever; its writer is whoever commits next, perhaps here."""
        self.fence.begin()
        self._log.seal(self.key(path))

    def n_parts(self, path: Path) -> int:
        """Give of how many parts a file of the log consists, as far as it is known here."""
        return self._log.n_parts(self.key(path))

    def sizes(self, path: Path) -> Mapping[Path, int]:
        """Give the bytes of every file below a directory, parts of the log together."""
        sizes: dict[Path, int] = {}
        for found in self.bucket.below(self.key(path)):
            place = self.bucket.root / found.key
            place = place.parent if self._grows(place.parent) else place
            sizes[place] = sizes.get(place, 0) + found.n_bytes
        return sizes

    def plain_pieces(self, path: Path, n_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Give a file as it is, with zeros where a part of the log is missing."""
        if self._grows(path):
            yield from self._log.plain_pieces(self.key(path))
        else:
            yield self.bucket.read_large(self.key(path), n_bytes), 0

    def key(self, path: Path) -> str:
        """Give the key of a file or a directory below the root."""
        return "/".join(path.relative_to(self.bucket.root).parts)

    def add_to_log(self, path: Path, offset: int, data: Data) -> None:
        """Acknowledge what is added to a file of the log at its end. Raises StoreError if it is another's now."""
        self.fence.check_known()
        try:
            self._log.add(self.key(path), offset, data)
        except FileExistsError:
            self.fence.log_taken()
            raise
        self.fence.check()

    def cut_log(self, path: Path, n_bytes: int) -> None:
        """Cut a file of the log to its first bytes."""
        self.fence.check_recent()
        self._log.cut(self.key(path), n_bytes)

    def give_up(self) -> None:
        """Stop being the writer."""
        self.fence = Fence(self.bucket, self.key(self._own.manifest), self._now_s)
        self._is_locked = False

    @property
    def _folder(self) -> str:
        return hashlib.sha256(str(self.bucket.root).encode()).hexdigest()[:16]

    def _cached(self, path: Path, stored: StoredFile) -> str:
        return f"{_cache_name(self.key(path))}.{stored.crc32c:08x}"

    def _take(self, path: Path, stored: StoredFile) -> bytes:
        data = self.bucket.read_large(self.key(path), stored.n_bytes)
        if (len(data), crc32c(data)) != (stored.n_bytes, stored.crc32c):
            what = (
                f"it has {len(data)} bytes with checksum {crc32c(data):08x}, expected {stored.n_bytes} with "
                f"{stored.crc32c:08x}"
            )
            raise DamageError(f"{path}: {what}; restore the file from a copy", path=path, what=what)
        return data

    def _prefetch(self, path: Path, stored: StoredFile) -> None:
        # Whoever reads it meets the same failure, and can say what it was needed for.
        with suppress(OSError):
            self.fetch(path, stored)

    def _put_new(self, path: Path, data: bytes) -> None:
        """Make an immutable file. Raises FileExistsError."""
        if self._is_staged(path):
            if path in self._staged:
                raise FileExistsError(f"{path}: is there already")
            self._staged[path] = data
            return
        self.fence.check_known()
        try:
            self.bucket.create(self.key(path), data)
        except FileExistsError:
            self.fence.collided()
            raise

    def _grows(self, path: Path) -> bool:
        return path.parent == self._own.wal

    def _is_staged(self, path: Path) -> bool:
        return path.suffix == ".tmp" and path.parent == self._own.manifest

    def _become_writer(self) -> Lock | None:
        if self._is_locked:
            return None
        probe(self.bucket, self.key(self._own.manifest / "probe"))
        self._is_locked = True
        return ObjectLock(self)

    def _is_expired(self, path: Path) -> bool:
        """Whether the manifest was replaced long enough ago.

        That is the time to the newest commit by the server's clock, and since then by our own, which only measures:
        no clock has to be right.
        """
        made = self._manifests
        if path.name not in made:
            raise FileNotFoundError(errno.ENOENT, "No such object", str(path))
        successor = min((name for name in made if path.name < name), default=None)
        if successor is None:
            return False
        newest = max(made)
        since = timedelta(seconds=self.fence.age_s(self.key(self._own.manifest / newest)))
        return made[newest] - made[successor] + since >= self._grace


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _cache_name(key: str) -> str:
    return key.replace("/", ".")
