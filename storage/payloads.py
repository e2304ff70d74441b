"""Payloads that were cut out of records: each once, under the SHA-256 of its bytes, read a few at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import Int64s

RECORD = "record"
"""Column that holds the bytes of an event as they came, or what is left of them."""

CUTS = "record~cuts"
"""Column that says where payloads were cut out of records: list of int64, null where none was.

Two numbers a payload, in the order in which they stood: place in what is left, number of the payload.
"""

Hashes = npt.NDArray[np.bytes_]
"""Array of dtype `HASH`. An element by itself loses the zeros at its end: take the bytes of the array."""

HASH = np.dtype("S32")
"""A SHA-256; it sorts as its bytes do."""


class Payloads(ABC):
    """Payloads, numbered from 0 in ascending order of their hashes; no two are the same."""

    @property
    @abstractmethod
    def hashes(self) -> Hashes:
        """Their hashes, ascending."""

    @property
    @abstractmethod
    def n_bytes(self) -> Int64s:
        """Their sizes."""

    @abstractmethod
    def read(self, numbers: Int64s) -> Iterator[pa.Buffer]:
        """Give payloads one after the other; ascending ones are read with little more than one in memory.

        Raises DamageError where one comes that cannot be read.
        """

    def __len__(self) -> int:
        return len(self.hashes)


class HeldPayloads(Payloads):
    """Payloads in memory."""

    def __init__(self, hashes: Hashes, values: Sequence[pa.Buffer]) -> None:
        self._hashes = hashes
        self._values = values

    @property
    def hashes(self) -> Hashes:
        """Their hashes, ascending."""
        return self._hashes

    @property
    def n_bytes(self) -> Int64s:
        """Their sizes."""
        return np.array([value.size for value in self._values], np.int64)

    def read(self, numbers: Int64s) -> Iterator[pa.Buffer]:
        """Give payloads one after the other."""
        return (self._values[number] for number in numbers.tolist())


NO_PAYLOADS = HeldPayloads(np.empty(0, HASH), ())
"""None at all."""


class ChosenPayloads(Payloads):
    """Payloads that lie in others: payload i is number `number[i]` of `sources[source[i]]`."""

    def __init__(
        self, hashes: Hashes, n_bytes: Int64s, sources: Sequence[Payloads], source: Int64s, number: Int64s
    ) -> None:
        self._hashes = hashes
        self._n_bytes = n_bytes
        self._sources = sources
        self._source = source
        self._number = number

    @property
    def hashes(self) -> Hashes:
        """Their hashes, ascending."""
        return self._hashes

    @property
    def n_bytes(self) -> Int64s:
        """Their sizes."""
        return self._n_bytes

    def read(self, numbers: Int64s) -> Iterator[pa.Buffer]:
        """Give payloads one after the other; each source is read in its own order."""
        asked, places = self._source[numbers], self._number[numbers]
        streams = {
            source: self._sources[source].read(places[asked == source])
            for source in np.unique(asked).tolist()
        }
        for source in asked.tolist():
            yield next(streams[source])


def hold(values: Sequence[pa.Buffer]) -> tuple[HeldPayloads, Int64s]:
    """Give the distinct ones of some payloads, and the number of each that was given."""
    if not values:
        return NO_PAYLOADS, np.empty(0, np.int64)
    digests = np.frombuffer(b"".join(sha256(value).digest() for value in values), HASH)
    hashes, first, number = np.unique(digests, return_index=True, return_inverse=True)
    return HeldPayloads(hashes, [values[place] for place in first.tolist()]), number.astype(np.int64)


def join_payloads(sources: Sequence[Payloads], used: Sequence[Int64s]) -> tuple[Payloads, list[Int64s]]:
    """Put the payloads that are used together; nothing is read but hashes and sizes.

    used: numbers of each source, ascending. Gives also the new number of each payload of each source, -1 where it
    is not used.
    """
    hashes = np.concatenate(
        [np.empty(0, HASH), *(s.hashes[own] for s, own in zip(sources, used, strict=True))]
    )
    kept, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    moved, start = [], 0
    for one, own in zip(sources, used, strict=True):
        to = np.full(len(one), -1, np.int64)
        to[own] = place[start : start + len(own)]
        moved.append(to)
        start += len(own)
    if not len(kept):
        return NO_PAYLOADS, moved
    source = np.repeat(np.arange(len(sources)), [len(own) for own in used])[first]
    number = np.concatenate(used)[first]
    n_bytes = np.concatenate([one.n_bytes[own] for one, own in zip(sources, used, strict=True)])[first]
    return ChosenPayloads(kept, n_bytes, sources, source, number), moved
