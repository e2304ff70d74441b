"""Files that grow, in an object store: each sync is one more object, named by where it begins in the file.

`wal/000017.wal` is the concatenation of `wal/000017.wal/<offset, 20 digits>`. A part is put under a name that was
free, so of two writers at the same end one fails. A part without bytes is the **seal**: it has the name that the
next part would need.
"""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .blame import past_damage
from .bucket import Bucket, Found, side_by_side
from .errors import DamageError
from .files import Data

HELD_BYTES = 32 << 20
"""Parts up to this size are held in memory once taken: a header is read before what stands behind it."""

MAX_GAP_BYTES = 1 << 30
"""A part that begins farther behind the one before is none: a file of the log is flushed long before."""

_PART = re.compile(r"\d{20}")


@dataclass(slots=True)
class Parts:
    """The parts of one file as last seen: offset and size of each, in order.

    is_whole: a later file of the log was seen before these were listed, so that nothing is added any more.
    """

    places: list[tuple[int, int]] = field(default_factory=list)
    is_whole: bool = False

    @property
    def is_sealed(self) -> bool:
        """Whether the file was ended for ever."""
        return bool(self.places) and self.places[-1][1] == 0

    @property
    def end(self) -> int:
        """Size of the file in bytes."""
        return sum(self.places[-1]) if self.places else 0


class GrowingFiles:
    """The growing files of a bucket, by key.

    What is read is the state of the last `refresh` of the directory, which readers of a log begin with, and of the
    changes made here since; of a file that was never seen, the state when it is first asked for.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._known: dict[str, Parts] = {}
        self._listed: dict[str, list[Found]] = {}
        self._last: str | None = None
        self._held: dict[str, bytes] = {}
        # A part that came while a directory is listed would be known to neither side.
        self._mutex = threading.RLock()

    def refresh(self, directory: str) -> list[str]:
        """Look at a directory anew, and give the names of the files in it."""
        with self._mutex:
            self._listed = {}
            for found in self._bucket.below(directory):
                key, _, name = found.key.rpartition("/")
                if _PART.fullmatch(name):
                    self._listed.setdefault(key, []).append(found)
            self._last = max(self._listed, default=None)
            known = self._known.items()
            self._known = {k: parts for k, parts in known if parts.is_whole and k in self._listed}
            return [key.rpartition("/")[2] for key in sorted(self._listed)]

    def parts(self, key: str) -> Parts:
        """Give the parts of a file. Raises FileNotFoundError, DamageError where one is missing."""
        with self._mutex:
            parts = self._known.get(key) or self._look(key)
            if not parts.places:
                raise FileNotFoundError(errno.ENOENT, "No such object", str(self._bucket.root / key))
            self._known[key] = parts
            return parts

    def n_parts(self, key: str) -> int:
        """Give the number of parts as far as it is known here."""
        return len(self._known[key].places) if key in self._known else 0

    def read(self, key: str, start: int, n_bytes: int) -> bytes:
        """Give bytes of a file; nothing behind its end. Raises FileNotFoundError, DamageError."""
        parts = self.parts(key)
        end = parts.end if n_bytes < 0 else min(parts.end, start + n_bytes)
        wanted = [(o, n) for o, n in list(parts.places) if o < end and o + n > start]
        data = b"".join(side_by_side(lambda place: self._part(key, *place), wanted))
        first = wanted[0][0] if wanted else start
        return data[start - first : max(start, end) - first]

    def add(self, key: str, offset: int, data: Data) -> None:
        """Put a part at the end, which is at `offset`. Raises FileExistsError where another part begins there."""
        with self._mutex:
            self._bucket.create(_part_key(key, offset), data)
            if key in self._known or offset == 0:
                self._known.setdefault(key, Parts()).places.append((offset, memoryview(data).nbytes))
                return
            # What stands before it has to be looked at, and what was listed before it does not count.
            self._forget(key)
            self.parts(key)

    def seal(self, key: str) -> None:
        """End a file for ever; whoever adds to it now fails, and what was added before can be read."""
        while True:
            parts = self._known[key] = Parts(_chained(self._bucket, key, self._bucket.below(key)))
            if parts.is_sealed:
                return
            try:
                return self.add(key, parts.end, b"")
            except FileExistsError:
                continue

    def cut(self, key: str, n_bytes: int) -> None:
        """Cut a file to its first bytes. A stop in between leaves a longer beginning of it."""
        parts = self.parts(key)
        gone = [place for place in parts.places if place[0] >= n_bytes]
        for place in reversed(gone):
            self._bucket.delete([_part_key(key, place[0])])
            parts.places.remove(place)
        if parts.end > n_bytes:
            offset, _ = parts.places[-1]
            kept = self._bucket.read(_part_key(key, offset), 0, n_bytes - offset)
            self._bucket.replace(_part_key(key, offset), kept)
            parts.places[-1] = (offset, n_bytes - offset)
        self._drop(key)

    def replace(self, key: str, data: Data) -> None:
        """Put a file of one part over whatever is there."""
        old = [found.key for found in self._bucket.below(key)]
        self._bucket.replace(_part_key(key, 0), data)
        self._bucket.delete([part for part in old if part != _part_key(key, 0)])
        self._forget(key)

    def remove(self, key: str) -> None:
        """Remove a file with all its parts."""
        self._bucket.delete([found.key for found in self._bucket.below(key)])
        self._forget(key)

    def plain_pieces(self, key: str) -> Iterator[tuple[bytes, int]]:
        """Give the parts of a file one after the other, zeros where one is missing, each with how many these are.

        Raises FileNotFoundError where there is none.
        """
        places = _plain_places(self._bucket.below(key))
        if not places:
            raise FileNotFoundError(errno.ENOENT, "No such object", str(self._bucket.root / key))
        for (offset, n_bytes), (end, _) in zip(places, [*places[1:], (sum(places[-1]), 0)], strict=True):
            data = b""
            with past_damage():
                # One that is too long ends where the next one begins.
                data = self._bucket.read(_part_key(key, offset), 0, min(n_bytes, end - offset))
            n_missing = end - offset - len(data)
            yield data + bytes(n_missing), n_missing

    def _look(self, key: str) -> Parts:
        if key == self._last:
            return Parts(_chained(self._bucket, key, self._listed[key]))
        # A listing is no snapshot: parts may have come behind it, before the next file was begun.
        return Parts(_chained(self._bucket, key, self._bucket.below(key)), is_whole=key in self._listed)

    def _part(self, key: str, offset: int, n_bytes: int) -> bytes:
        place = _part_key(key, offset)
        data = self._held.get(place)
        if data is None:
            data = self._bucket.read(place)
            self._hold(place, data)
        if len(data) != n_bytes:
            raise DamageError(
                f"{self._bucket.root / place}: has {len(data)} bytes, was listed with {n_bytes}; "
                "restore it from a copy"
            )
        return data

    def _forget(self, key: str) -> None:
        self._known.pop(key, None)
        self._listed.pop(key, None)
        self._last = None if self._last == key else self._last
        self._drop(key)

    def _drop(self, key: str) -> None:
        with self._mutex:
            self._held = {
                place: data for place, data in self._held.items() if not place.startswith(f"{key}/")
            }

    def _hold(self, place: str, data: bytes) -> None:
        with self._mutex:
            if sum(map(len, self._held.values())) + len(data) > HELD_BYTES:
                self._held.clear()
            if len(data) <= HELD_BYTES:
                self._held[place] = data


def _part_key(key: str, offset: int) -> str:
    return f"{key}/{offset:020d}"


def _plain_places(found: Sequence[Found]) -> list[tuple[int, int]]:
    """Give offset and size of each part; an empty one comes first where the beginning is missing."""
    places: list[tuple[int, int]] = []
    for part in found:
        name = part.key.rpartition("/")[2]
        end = sum(places[-1]) if places else 0
        if _PART.fullmatch(name) and int(name) <= end + MAX_GAP_BYTES:
            places.append((int(name), part.n_bytes))
    return [(0, 0), *places] if places and places[0][0] else places


def _chained(bucket: Bucket, key: str, found: Sequence[Found]) -> list[tuple[int, int]]:
    """Give offset and size of each part. Raises DamageError where one is missing."""
    places: list[tuple[int, int]] = []
    end = 0
    for part in found:
        offset = int(part.key.rpartition("/")[2])
        if offset != end:
            raise DamageError(
                f"{bucket.root / key} at byte {end}: a part is missing, the next begins at {offset}; "
                "restore it from a copy"
            )
        places.append((offset, part.n_bytes))
        end += part.n_bytes
    return places
