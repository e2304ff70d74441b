"""Stores in a bucket that lies in memory, whose requests can be counted, stopped, interleaved or given a hook."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from obstore.store import MemoryStore, ObjectStore

from treering.storage.address import object_path
from treering.storage.bucket import Bucket
from treering.storage.object_cache import FileCache
from treering.storage.objects import GRACE_S, ObjectFiles

T = TypeVar("T")
ROOT = object_path("s3://bucket/store")


class Stopped(Exception):
    """The process was killed; every further request of it raises this as well."""


class StoppingBucket(Bucket):
    """Stops before its request `at`, counted from 0."""

    def __init__(self, store: ObjectStore, at: int | None = None) -> None:
        super().__init__(store, ROOT)
        self._at = at
        self.n_asked = 0
        self.is_stopped = False

    def ask(self, kind: str, key: str, request: Callable[[], T]) -> T:
        if self.is_stopped:
            raise Stopped
        self.n_asked += 1
        if self._at is None or self.n_asked <= self._at:
            return super().ask(kind, key, request)
        self.is_stopped = True
        raise Stopped


class HookedBucket(Bucket):
    """Calls `before` once, before the first request that it wants."""

    def __init__(
        self, store: ObjectStore, wants: Callable[[str, str], bool], before: Callable[[], None]
    ) -> None:
        super().__init__(store, ROOT)
        self._wants = wants
        self._before: Callable[[], None] | None = before

    def ask(self, kind: str, key: str, request: Callable[[], T]) -> T:
        if self._before is not None and self._wants(kind, key):
            before, self._before = self._before, None
            before()
        return super().ask(kind, key, request)


class Turns:
    """Lets one of two parties at a time make its next request, in a given order; one alone goes on freely."""

    def __init__(self, order: Iterator[int]) -> None:
        self._order = order
        self._going = {0, 1}
        self._changed = threading.Condition()
        self._next = next(order, 0)

    def take(self, party: int, request: Callable[[], T]) -> T:
        with self._changed:
            # Before Python 3.12 a cached property locks all objects of its class: the other may wait for this one.
            self._changed.wait_for(lambda: self._next == party or len(self._going) == 1, timeout=0.2)
            try:
                return request()
            finally:
                self._next = next(self._order, 1 - party)
                self._changed.notify_all()

    def leave(self, party: int) -> None:
        with self._changed:
            self._going.discard(party)
            self._changed.notify_all()


class TurnBucket(Bucket):
    """Makes its requests when it is its turn."""

    def __init__(self, store: ObjectStore, turns: Turns, party: int) -> None:
        super().__init__(store, ROOT)
        self._turns = turns
        self._party = party

    def ask(self, kind: str, key: str, request: Callable[[], T]) -> T:
        return self._turns.take(self._party, lambda: super(TurnBucket, self).ask(kind, key, request))


def object_files(
    bucket: Bucket | MemoryStore,
    cache: Path | None = None,
    *,
    grace_s: float = GRACE_S,
    now_s: Callable[[], float] = time.monotonic,
) -> ObjectFiles:
    """Files over a bucket, with a cache of their own; without a directory nothing is kept."""
    own = bucket if isinstance(bucket, Bucket) else Bucket(bucket, ROOT)
    kept = FileCache(Path("/nonexistent"), 0) if cache is None else FileCache(cache)
    return ObjectFiles(own, kept, grace_s=grace_s, now_s=now_s)


def keys(store: MemoryStore) -> list[str]:
    """All keys of a bucket."""
    return [found.key for found in Bucket(store, ROOT).below("")]
