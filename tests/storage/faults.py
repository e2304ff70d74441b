"""A disk that fails, tears or loses its power at a chosen call.

It works on real files, which it never syncs, and keeps beside them what a disk would still have after a power
loss: the contents of each file at its last sync, and the entries of each directory at its last sync.
"""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from treering.storage.files import OS_FILES, Data, Handle, Lock, SyncError

CHANGES = (
    "create",
    "append",
    "write",
    "truncate",
    "sync",
    "mkdir",
    "fsync_dir",
    "link",
    "rename",
    "unlink",
    "rmtree",
)
"""Calls that change the disk: a power loss can come between any two of them."""


def error_of(call: str) -> int:
    """The number of the error that a call is made to fail with: no room where it needs some, else a bad disk."""
    return errno.ENOSPC if call in ("create", "write", "link", "mkdir") else errno.EIO


class PowerLoss(Exception):
    """The machine is off; every further call raises this as well."""


@dataclass(eq=False)
class Inode:
    """A file: what it holds, and what it held when it was last synced."""

    live: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


@dataclass
class Fault:
    """What happens at call `at` (counted from 0) among the calls named `among` (all of them if empty).

    With an `error` number the call fails, with `is_interrupt` the user presses Ctrl-C, else the power goes.
    """

    at: int
    error: int = 0
    is_torn: bool = False
    among: tuple[str, ...] = ()
    is_interrupt: bool = False


@dataclass(frozen=True)
class Moment:
    """A moment in the life of a disk, at which the power might go.

    number: how many changes were made before. call: the next one. is_torn: the next one, a write, is half done.
    """

    number: int
    call: str
    is_torn: bool = False


@dataclass(frozen=True)
class Remains:
    """What a disk holds after a power loss: directories, and files with their bytes, by their place below its root."""

    directories: frozenset[str]
    files: frozenset[tuple[str, bytes]]

    def lay_out(self, target: Path) -> Path:
        """Write all of it below a directory, which is made; gives it."""
        for place in sorted(self.directories):
            (target / place).mkdir(exist_ok=True)
        for place, data in self.files:
            (target / place).write_bytes(data)
        return target


class FaultyFiles:
    """Files with a fault in them.

    watch: called before each change and once more in the middle of each write (see `watched`).
    """

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        self.fault = fault
        self.watch: Callable[[Moment], None] | None = None
        self.n_changes = 0
        self.n_calls = 0
        self.is_off = False
        self.calls: list[str] = []
        there = [root, *root.rglob("*")]
        self._files = {p: Inode(bytearray(p.read_bytes()), p.read_bytes()) for p in there if p.is_file()}
        self._directories = {p for p in there if p.is_dir()}
        self._durable_files = dict(self._files)
        self._durable_directories = set(self._directories)
        self._root = root

    def create(self, path: Path) -> Handle:
        self._step("create")
        handle = OS_FILES.create(path)
        self._files[path] = Inode()
        return FaultyHandle(self, handle, self._files[path])

    def append(self, path: Path) -> Handle:
        self._step("append")
        return FaultyHandle(self, OS_FILES.append(path), self._files[path])

    def mkdir(self, path: Path) -> None:
        self._step("mkdir")
        OS_FILES.mkdir(path)
        self._directories.add(path)

    def fsync_dir(self, path: Path) -> None:
        self._step("fsync_dir")
        elsewhere = {p: inode for p, inode in self._durable_files.items() if p.parent != path}
        here = {p: inode for p, inode in self._files.items() if p.parent == path}
        self._durable_files = elsewhere | here
        kept = {p for p in self._durable_directories if p.parent != path or p == self._root}
        self._durable_directories = kept | {p for p in self._directories if p.parent == path}

    def link(self, source: Path, target: Path) -> None:
        self._step("link")
        OS_FILES.link(source, target)
        self._files[target] = self._files[source]

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename")
        OS_FILES.rename(source, target)
        self._files[target] = self._files.pop(source)

    def unlink(self, path: Path) -> None:
        self._step("unlink")
        OS_FILES.unlink(path)
        del self._files[path]

    def rmtree(self, path: Path) -> None:
        self._step("rmtree")
        OS_FILES.rmtree(path)
        self._files = {p: inode for p, inode in self._files.items() if path not in p.parents}
        self._directories = {p for p in self._directories if p != path and path not in p.parents}

    def listdir(self, path: Path) -> list[str]:
        self._step("listdir")
        return OS_FILES.listdir(path)

    def size(self, path: Path) -> int:
        self._step("size")
        return OS_FILES.size(path)

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        self._step("read")
        return OS_FILES.read(path, start, n_bytes)

    def map(self, path: Path) -> pa.Buffer:
        self._step("map")
        return OS_FILES.map(path)

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        self._step("lock")
        return OS_FILES.lock(path, exclusive=exclusive)

    def after_power_loss(self, target: Path, rng: random.Random | None) -> Path:
        """Lay out what the disk holds when power comes back, below `target`."""
        return self.remains(rng).lay_out(target)

    def remains(self, rng: random.Random | None) -> Remains:
        """Give what a power loss now would leave.

        Without `rng` only what was synced; with it, each change since may have reached the disk or not, and
        new bytes of a file up to any place, or as zeros.
        """
        directories = {self._root}
        for path in sorted(_pick_keys(self._directories, self._durable_directories, rng)):
            if path.parent in directories:
                directories.add(path)
        files = {
            self._place(path): _contents(inode, rng)
            for path, inode in self._pick_files(rng).items()
            if path.parent in directories
        }
        return Remains(frozenset(map(self._place, directories)), frozenset(files.items()))

    def _place(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def _pick_files(self, rng: random.Random | None) -> dict[Path, Inode]:
        picked = {}
        for path in sorted({*self._files, *self._durable_files}):
            sides = [self._durable_files.get(path), self._files.get(path)]
            inode = sides[rng.randrange(2)] if rng else sides[0]
            if inode is not None:
                picked[path] = inode
        return picked

    def is_durable(self, path: Path) -> bool:
        """Whether a power loss now would leave a file under this name."""
        return path in self._durable_files

    def check_power(self) -> None:
        if self.is_off:
            raise PowerLoss

    def _step(self, call: str) -> None:
        self.check_power()
        self.calls.append(call)
        if self.fault is not None and (not self.fault.among or call in self.fault.among):
            self.n_calls += 1
            if self.n_calls - 1 == self.fault.at:
                self._fail(call)
        if call in CHANGES:
            self.n_changes += 1
            self.show(call)

    def show(self, call: str, *, is_torn: bool = False) -> None:
        """Let whoever watches see the disk as it is before a change, or in the middle of it."""
        if self.watch is not None:
            self.watch(Moment(self.n_changes - 1, call, is_torn))

    def is_due(self, call: str, *, is_torn: bool) -> bool:
        """Whether the next call will fail, in that manner."""
        fault = self.fault
        counts = fault is not None and (not fault.among or call in fault.among)
        return fault is not None and counts and self.n_calls == fault.at and fault.is_torn == is_torn

    def _fail(self, call: str) -> None:
        assert self.fault is not None
        if self.fault.is_interrupt:
            raise KeyboardInterrupt
        if self.fault.error == 0:
            self.is_off = True
            raise PowerLoss
        kind = SyncError if call in ("sync", "fsync_dir") else OSError
        raise kind(self.fault.error, f"made to fail: {errno.errorcode[self.fault.error]}")


@contextmanager
def watched(files: FaultyFiles, look: Callable[[Moment], None]) -> Iterator[list[Moment]]:
    """Let `look` see the disk at every moment from here on; gives the moments that were seen.

    One life shows so what a power loss at any moment of it would leave (`FaultyFiles.after_power_loss`).
    """
    moments: list[Moment] = []
    failures: list[BaseException] = []

    def watch(moment: Moment) -> None:
        moments.append(moment)
        try:
            look(moment)
        except BaseException as error:
            failures.append(error)
            raise

    files.watch = watch
    try:
        yield moments
    finally:
        files.watch = None
    for error in failures:  # the store may have taken it for a failure of its disk
        raise error


@contextmanager
def losing_power(
    files: FaultyFiles,
    place: Path,
    check: Callable[[Path], None],
    *,
    expected: Callable[[], Hashable] = lambda: None,
    every: int = 1,
) -> Iterator[list[Moment]]:
    """Check what a power loss at every moment from here on would leave; gives the moments.

    check: gets what is left, laid out in a directory that is removed after it: what was synced, and at every other
    moment that and any of what was not. The same is not checked twice, unless something else is `expected` of it.
    every: how manieth of the changes are looked at, where a check takes long.
    """
    seen: set[Hashable] = set()

    def look(moment: Moment) -> None:
        if moment.number % every:
            return
        has_dice = moment.number // every % 2 == 1 and moment.is_torn == (moment.call == "write")
        for rng in (None, random.Random(moment.number)) if has_dice else (None,):
            remains = files.remains(rng)
            if (remains, expected()) not in seen:
                seen.add((remains, expected()))
                left = remains.lay_out(place / f"left-{len(seen)}")
                check(left)
                shutil.rmtree(left)

    with watched(files, look) as moments:
        yield moments


class FaultyHandle:
    """An open file of a `FaultyFiles`."""

    def __init__(self, files: FaultyFiles, handle: Handle, inode: Inode) -> None:
        self._files = files
        self._handle = handle
        self._inode = inode
        self._is_writing = False

    def write(self, data: Data) -> None:
        data = pa.py_buffer(data).to_pybytes()
        # Only the first write after a sync counts as a call: the disk may keep any prefix of what follows it.
        if not self._is_writing:
            if self._files.is_due("write", is_torn=True):
                self._write(data[: len(data) // 2])
            self._files._step("write")
            self._show_torn(data)
        self._files.check_power()
        self._is_writing = True
        self._write(data)

    def _show_torn(self, data: bytes) -> None:
        n_bytes = len(self._inode.live)
        self._inode.live += data[: len(data) // 2]
        self._files.show("write", is_torn=True)
        del self._inode.live[n_bytes:]

    def truncate(self, n_bytes: int) -> None:
        self._files._step("truncate")
        self._handle.truncate(n_bytes)
        del self._inode.live[n_bytes:]

    def sync(self) -> None:
        self._files._step("sync")
        self._inode.durable = bytes(self._inode.live)
        self._is_writing = False

    def close(self) -> None:
        self._handle.close()

    def _write(self, data: bytes) -> None:
        self._handle.write(data)
        self._inode.live += data


def _pick_keys(live: set[Path], durable: set[Path], rng: random.Random | None) -> set[Path]:
    if rng is None:
        return set(durable)
    return {p for p in sorted(live | durable) if (p in live and p in durable) or rng.randrange(2)}


def _contents(inode: Inode, rng: random.Random | None) -> bytes:
    live, durable = bytes(inode.live), inode.durable
    if rng is None:
        return durable
    if not live.startswith(durable):
        return rng.choice([live, durable])
    fresh = live[len(durable) :]
    kept = fresh[: rng.randint(0, len(fresh))]
    # Some file systems lengthen a file before its bytes arrive.
    return durable + kept + (bytes(len(fresh) - len(kept)) if rng.randrange(2) else b"")
