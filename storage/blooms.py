"""Bloom filters over ids: whether a segment may hold a value, told by 32 bytes of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_file import ArrowFile, read_lists
from .columns import FREE_TEXTS, Placed, find_owners, is_text
from .partitions import PARTITION_FIELDS, Partitions
from .schema import CANONICAL, FIELDS, split_physical
from .text_hash import MASK, hash_text
from .vectors import flat_view

UInt32s = npt.NDArray[np.uint32]

ID_FIELDS = frozenset(
    (*(f.name for f in CANONICAL if f.group == "identity" and f.type == "text"), *PARTITION_FIELDS)
)
"""Canonical fields that say which one: of traces, requests, sessions, machines, tenants."""

ID_BYTES = (8, 64)
"""Mean length of values that look like ids: shorter ones are words or counts, longer ones are sentences."""

BITS_PER_VALUE = 12
"""Six in a thousand other values pass (measured); 10.5 bits would let pass one in a hundred."""

SALTS = (
    *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
    *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
)
"""Odd factors, one a word of a block, that make 8 places out of one hash."""

BLOCK_WORDS = len(SALTS)

CHUNK_WORDS = 1024
"""Words that are checked together before one of them is read: a page of 4 KiB."""

BLOOM = "bloom."
"""Prefix of the columns of post.arrow that hold the words of a filter."""


def make_filter(texts: pa.Array) -> UInt32s:
    """Give the filter of some texts: uint32 (8 * blocks), 32 bytes a block; duplicates and nulls are left out.

    The high half of a value's hash (XXH64 of its UTF-8 bytes, seed 0) picks the block, high * blocks >> 32; the
    low half sets one bit in each word, (low * salt mod 2**32) >> 27. Source: Apache Parquet, BloomFilter.md
    (split-block Bloom filters); there the number of bytes is a power of two, here any number of blocks.
    """
    from .bloom_kernels import fill_blocks, fill_hashes

    distinct = pc.unique(texts).drop_null().cast(pa.large_string())
    hashes = np.empty(len(distinct), np.uint64)
    n_blocks = max(1, -(-len(distinct) * BITS_PER_VALUE // (32 * BLOCK_WORDS)))
    words = np.zeros(n_blocks * BLOCK_WORDS, np.uint32)
    if len(distinct):
        _, offsets, data = distinct.buffers()
        starts = np.frombuffer(offsets, np.int64, len(distinct) + 1, 8 * distinct.offset)
        fill_hashes(np.frombuffer(data or b"", np.uint8), starts, hashes)
        fill_blocks(hashes, np.array(SALTS, np.uint32), words)
    return words


@dataclass(frozen=True, slots=True)
class Probe:
    """Where a value would have left its bits. high: upper half of its hash. bits: one for each word of a block."""

    high: int
    bits: tuple[int, ...]


@lru_cache(maxsize=256)  # one query asks hundreds of segments for the same few values
def probe_of(value: str) -> Probe:
    """Give where a value would have left its bits."""
    hashed = hash_text(value)
    low = hashed & (MASK >> 32)
    return Probe(hashed >> 32, tuple(1 << ((low * salt & (MASK >> 32)) >> 27) for salt in SALTS))


def passes(words: UInt32s | memoryview, probe: Probe) -> bool:
    """Whether a filter may hold a value; false is certain. words: a view of memory is read faster than an array."""
    return all(words[place] & bit for place, bit in enumerate(probe.bits, start_of(words, probe)))


def start_of(words: UInt32s | memoryview, probe: Probe) -> int:
    """Give the first word of the block that a value falls on."""
    return BLOCK_WORDS * (probe.high * (len(words) // BLOCK_WORDS) >> 32)


class Blooms:
    """The filters of an open segment, views of its map: a question looks at the words that it falls on."""

    def __init__(self, file: ArrowFile) -> None:
        self._file = file
        self._owners: Mapping[str, str] = file.facts.get("blooms", {})
        self._filters: dict[str, memoryview] = {}
        self._known: set[tuple[str, int]] = set()

    def may_hold(self, name: str, value: str) -> bool:
        """Whether a text column may hold this value; true where it has no filter. Raises DamageError."""
        owner = self._owners.get(name)
        if owner is None:
            return True
        words, probe = self._words(owner), probe_of(value)
        self._check(owner, start_of(words, probe), len(words))
        return passes(words, probe)

    def _check(self, owner: str, start: int, n_words: int) -> None:
        # A flipped bit would hide events that nobody looks at then.
        chunk = start // CHUNK_WORDS
        if (owner, chunk) not in self._known:
            end = min((chunk + 1) * CHUNK_WORDS, n_words)
            self._file.check_items(BLOOM + owner, chunk * CHUNK_WORDS, end)
            self._known.add((owner, chunk))

    def _words(self, owner: str) -> memoryview:
        if owner not in self._filters:
            columns = read_lists(self._file)
            n_words = len(columns[BLOOM + owner]) if BLOOM + owner in columns else 0
            if not n_words or n_words % BLOCK_WORDS:
                raise self._file.damage(f"the filter of {owner} has {n_words} words")
            self._filters[owner] = flat_view(columns[BLOOM + owner], np.uint32).data
        return self._filters[owner]


def bloom_columns(placed: Placed, partitions: Partitions) -> tuple[dict[str, pa.Array], dict[str, str]]:
    """Give the filters of a part as columns of post.arrow, and by physical column the one whose filter it has.

    Columns of ids have one, unless the manifest lists their values: canonical ones by their name (`ID_FIELDS`),
    original ones by theirs, or since they look so (more than half of the values differ). Equal columns share it.
    """
    columns: dict[str, pa.Array] = {}
    owners: dict[str, str] = {}
    placed_columns = {**placed.cold, **placed.hot}
    for owner, names in _equal_texts(placed_columns).items():
        array = placed_columns[owner]
        is_listed = any(partitions.get(name) is not None for name in names)
        if is_listed or not _are_ids(names, array):
            continue
        columns[BLOOM + names[0]] = pa.array(make_filter(_values(array)))
        owners |= dict.fromkeys(names, names[0])
    return columns, owners


def _equal_texts(columns: Mapping[str, pa.Array]) -> dict[str, list[str]]:
    """Name the text columns that hold a value by the owner of their values."""
    groups: dict[str, list[str]] = {}
    for name, owner in sorted(find_owners(columns).items()):
        array = columns[name]
        if _is_text_field(name) and is_text(_values(array).type) and array.null_count < len(array):
            groups.setdefault(owner, []).append(name)
    return groups


def _is_text_field(name: str) -> bool:
    path, code = split_physical(name)
    return code == "s" or (not code and path in FIELDS and FIELDS[path].type == "text")


def _are_ids(names: Collection[str], array: pa.Array) -> bool:
    if not ID_FIELDS.isdisjoint(split_physical(name)[0] for name in names):
        return True
    is_original = any(split_physical(name)[1] for name in names)
    return is_original and set(FREE_TEXTS).isdisjoint(names) and _look_like_ids(array)


def _look_like_ids(array: pa.Array) -> bool:
    values, n_values = _values(array), len(array) - array.null_count
    mean_bytes = pc.mean(pc.binary_length(values)).as_py() or 0
    if not ID_BYTES[0] <= mean_bytes <= ID_BYTES[1]:
        return False
    n_distinct = len(values) if values is not array else pc.count_distinct(values).as_py()
    return bool(2 * n_distinct > n_values)


def _values(array: pa.Array) -> pa.Array:
    return array.dictionary if pa.types.is_dictionary(array.type) else array
