"""A disk that fails, tears or loses its power at a chosen call.

It works on real files, which it never syncs, and keeps beside them what a disk would still have after a power
loss: the contents of each file at its last sync, and the entries of each directory at its last sync.
"""

from __future__ import annotations

import errno
import random
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


class FaultyFiles:
    """Files with a fault in them."""

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        self.fault = fault
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
        """Lay out what the disk holds when power comes back, below `target`.

        Without `rng` only what was synced; with it, each change since may have reached the disk or not, and
        new bytes of a file up to any place, or as zeros.
        """
        directories = _pick_keys(self._directories, self._durable_directories, rng)
        files = self._pick_files(rng)
        for path in sorted(directories, key=lambda p: len(p.parts)):
            place = target / path.relative_to(self._root)
            if place == target or place.parent.exists():
                place.mkdir(exist_ok=True)
        for path, inode in files.items():
            place = target / path.relative_to(self._root)
            if place.parent.exists():
                place.write_bytes(_contents(inode, rng))
        return target

    def _pick_files(self, rng: random.Random | None) -> dict[Path, Inode]:
        picked = {}
        for path in {*self._files, *self._durable_files}:
            sides = [self._durable_files.get(path), self._files.get(path)]
            inode = sides[rng.randrange(2)] if rng else sides[0]
            if inode is not None:
                picked[path] = inode
        return picked

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
        self._files.check_power()
        self._is_writing = True
        self._write(data)

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
