"""The requests that a store in a bucket is made of: counted, and failing as a disk would."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import obstore
from obstore.store import ObjectStore

from .address import ObjectPath
from .files import Data
from .object_errors import RangeError, as_os_error
from .owner import Owner

S = TypeVar("S")
T = TypeVar("T")

PIECE_BYTES = 8 << 20
"""A larger object is taken in pieces of this size, side by side."""

SIDE_BY_SIDE = 8
"""Most requests at a time."""

_PAGE = 1000
_WRITER = "treering-writer"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Found:
    """An object in a listing: its key below the root, its size, and when it was made by the server's clock."""

    key: str
    n_bytes: int
    modified: datetime


class Bucket:
    """Objects below a root, by key.

    requests: how many of each kind (`get`, `put`, `list`, `head`, `delete`) were made, retries not counted.
    Raises FileNotFoundError, FileExistsError, and OSError with one line that says what to do; StoreError in a
    forked process, in which the threads that make the requests do not exist.
    """

    def __init__(self, store: ObjectStore, root: ObjectPath) -> None:
        self._store = store
        self._owner = Owner(root)
        self._mutex = threading.Lock()
        self._writer = uuid.uuid4().hex
        self._n_created = 0
        self.root = root
        self.requests: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0

    def create(self, key: str, data: Data) -> None:
        """Put a new object. Raises FileExistsError where the key is taken, whoever took it."""
        for _ in range(_TRIES):
            mark = self._next_mark()
            try:
                self._put(key, data, mark)
                return
            except FileExistsError:
                # A first attempt whose answer was lost makes the repeated one fail; its mark tells it apart.
                found = self._mark_of(key)
                if found == mark:
                    return
                if found is not None:
                    raise
        raise FileExistsError(f"{self.root / key}: was taken and given back while it was being written")

    def replace(self, key: str, data: Data) -> None:
        """Put an object over whatever is there."""
        self._count_written(data)
        self.ask("put", key, lambda: obstore.put(self._store, key, data, use_multipart=False))

    def read(self, key: str, start: int = 0, n_bytes: int = -1) -> bytes:
        """Give an object from byte `start` on: at most `n_bytes`, or all (-1); nothing behind its end."""
        if n_bytes == 0:
            self.size(key)
            return b""
        try:
            data = bytes(self.ask("get", key, lambda: self._get(key, start, n_bytes)))
        except RangeError:
            return b""
        with self._mutex:
            self.bytes_read += len(data)
        return data

    def read_large(self, key: str, n_bytes: int) -> bytes:
        """Give an object of known size, large ones in pieces side by side."""
        if n_bytes <= PIECE_BYTES:
            return self.read(key)
        starts = range(0, n_bytes, PIECE_BYTES)
        return b"".join(side_by_side(lambda start: self.read(key, start, PIECE_BYTES), starts))

    def size(self, key: str) -> int:
        """Give the size of an object in bytes."""
        return self.ask("head", key, lambda: obstore.head(self._store, key))["size"]

    def below(self, prefix: str, after: str | None = None) -> Sequence[Found]:
        """Give all objects below `prefix`, by key, those with keys above `after`."""
        stream = self.ask(
            "list",
            prefix,
            lambda: obstore.list(self._store, prefix or None, offset=after, chunk_size=_PAGE).collect(),
        )
        return self._found(stream)

    def directory(self, prefix: str) -> tuple[Sequence[Found], Sequence[str]]:
        """Give the objects that lie directly below `prefix`, and the prefixes there."""
        listed = self.ask("list", prefix, lambda: obstore.list_with_delimiter(self._store, prefix or None))
        return self._found(listed["objects"]), list(listed["common_prefixes"])

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are gone already as well."""
        if keys:
            self.ask("delete", keys[0], lambda: obstore.delete(self._store, list(keys)))

    def ask(self, kind: str, key: str, request: Callable[[], T]) -> T:
        """Make one request, count it, and give its answer."""
        self._owner.check()
        with self._mutex:
            self.requests[kind] += 1
        with as_os_error(self.root / key, kind):
            return request()

    def _get(self, key: str, start: int, n_bytes: int) -> obstore.Bytes:
        if n_bytes >= 0:
            return obstore.get_range(self._store, key, start=start, length=n_bytes)
        if start == 0:
            return obstore.get(self._store, key).bytes()
        return obstore.get(self._store, key, options={"range": {"offset": start}}).bytes()

    def _put(self, key: str, data: Data, mark: str) -> None:
        self._count_written(data)
        self.ask(
            "put",
            key,
            lambda: obstore.put(
                self._store, key, data, mode="create", use_multipart=False, attributes={_WRITER: mark}
            ),
        )

    def _mark_of(self, key: str) -> str | None:
        """Give who made an object, None where there is none."""
        try:
            return self.ask("get", key, lambda: obstore.get(self._store, key)).attributes.get(_WRITER, "")
        except FileNotFoundError:
            return None

    def _next_mark(self) -> str:
        with self._mutex:
            self._n_created += 1
            return f"{self._writer}-{self._n_created}"

    def _count_written(self, data: Data) -> None:
        with self._mutex:
            self.bytes_written += memoryview(data).nbytes

    def _found(self, objects: Iterable[obstore.ObjectMeta]) -> Sequence[Found]:
        found = [Found(one["path"], one["size"], one["last_modified"]) for one in objects]
        with self._mutex:
            self.requests["list"] += max(0, len(found) - 1) // _PAGE
        return sorted(found, key=lambda one: one.key)


def side_by_side(task: Callable[[S], T], values: Sequence[S]) -> list[T]:
    """Give `task` of each value, in order, several at a time."""
    if len(values) < 2:
        return [task(value) for value in values]
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(values))) as pool:
        return list(pool.map(task, values))
