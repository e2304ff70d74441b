"""Who writes to a store in a bucket: the writer of the newest manifest; any other finds out before it says "done".

A lock in a bucket could outlive its holder, or be lost by one who sleeps. So nobody is kept away: a new writer seals
the log and commits a manifest, and the old one is stopped by what it finds. Each write that is to be acknowledged
is made under a name that was free, and then the manifests are looked at: if there is none above the writer's own,
its write came before any other writer's, and is what that one finds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from .bucket import Bucket, Found
from .document import unpack
from .errors import StoreError

TRUSTED_S = 2.0
"""Before something is removed, the manifests are looked at unless that was done so recently, in seconds."""

_ROOT = re.compile(r"\d{20}\.json")


class Fence:
    """Finds out whether another writer took the store over. Raises StoreError from then on."""

    def __init__(self, bucket: Bucket, directory: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._bucket = bucket
        self._directory = directory
        self._now_s = now_s
        self._own: str | None = None
        self._committed_s = 0.0
        self._looked_s: float | None = None
        self._lost: str | None = None

    @property
    def is_writer(self) -> bool:
        """Whether a manifest was committed here, so that the store is ours until another one comes."""
        return self._own is not None

    def begin(self) -> None:
        """Say that the store is being taken over: until the next commit nothing is ours."""
        self._own = None

    def committed(self, key: str) -> None:
        """Say that the manifest `key` was committed here; it counts only if it is the newest."""
        self._own, self._committed_s = key, self._now_s()
        self.check()

    def age_s(self, key: str) -> float:
        """Give how long ago the manifest `key` was committed at least; 0 where that was not done here."""
        return self._now_s() - self._committed_s if key == self._own else 0.0

    def check(self) -> None:
        """Look whether there is a newer manifest than our own."""
        self.check_known()
        if self._own is None:
            return
        self._looked_s = self._now_s()
        listed = self._bucket.below(self._directory, after=self._own)
        newer = [found for found in listed if _ROOT.fullmatch(found.key.rpartition("/")[2])]
        if newer:
            self._lose(newer[-1])

    def check_recent(self) -> None:
        """Look, unless that was done a moment ago."""
        self.check_known()
        if self._looked_s is None or self._now_s() - self._looked_s > TRUSTED_S:
            self.check()

    def check_known(self) -> None:
        """Raise StoreError if it was found out before."""
        if self._lost is not None:
            raise StoreError(self._lost)

    def collided(self) -> None:
        """Say that a name was taken that should have been free: somebody else writes, or did until now."""
        if not self.is_writer:
            return
        self.check()
        self._looked_s = None

    def log_taken(self) -> None:
        """Say that another writer ended the log, or began its next file; it may not have committed yet."""
        if not self.is_writer:
            return
        self.check()
        self._lost = self._message("")
        self.check_known()

    def _lose(self, newest: Found) -> None:
        epoch: int = unpack("manifest", self._bucket.read(newest.key), newest.key)["epoch"]
        self._lost = self._message(f" (epoch {epoch})")
        self.check_known()

    def _message(self, epoch: str) -> str:
        return f"{self._bucket.root}: another writer took over{epoch}; open the store again"
