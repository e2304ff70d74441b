"""What is in a store: its fields with types and fill rates, its shards and their balance, its size on disk."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from treering.indexer.signals import SIGNALS
from treering.storage.amplification import Amplification
from treering.storage.batch import ModelInfo
from treering.storage.part import NO_SHARD, Part
from treering.storage.partitions import PARTITION_FIELDS
from treering.storage.schema import FIELDS, split_physical
from treering.storage.shadow import ShadowState
from treering.storage.snapshot import Snapshot

TYPE_WORDS = {
    "i": "int",
    "f": "float",
    "b": "bool",
    "s": "text",
    "z": "big int",
    "o": "empty object",
    "[i]": "list of int",
    "[f]": "list of float",
    "[b]": "list of bool",
    "[s]": "list of text",
    "[z]": "list of big int",
}
"""Type code of an original column, in words."""

MAX_PARTITIONS = 20
"""Values of a partition field that are shown, those of the most segments."""

_OF_SEGMENT = ("hot", "text", "vec", "parts", "post", "patt", "blobs", "late", "del", "segment")
_DIRECTORIES = {
    "wal": "wal",
    "meta": "meta",
    "_manifest": "manifest",
    "rejects": "rejects",
    "reembed": "reembed",
    "salvaged": "salvaged",
}

FILE_KINDS = (*_OF_SEGMENT, *_DIRECTORIES.values(), "other")
"""Kinds of the files of a store, in the order in which they are told; `docs/format/layout.md` draws them."""

_EXAMPLES = 3
_EXAMPLE_CHARS = 60


@dataclass(slots=True)
class FieldInfo:
    """One field.

    types: events by type; an event counts in each type of its list. n, fill: number of events that hold a value, and
    their share of all. source: original, canonical, signal or system.
    """

    name: str
    types: dict[str, int]
    n: int
    fill: float
    unit: str
    source: str
    examples: list[Any] = field(default_factory=list)


def field_infos(snapshot: Snapshot) -> list[FieldInfo]:
    """Every field that holds a value somewhere: originals first in alphabetical order, then canonical, then signals."""
    infos: dict[tuple[str, str], FieldInfo] = {}
    signals = SIGNALS
    for part in snapshot.parts:
        columns: dict[tuple[str, str], list[str]] = defaultdict(list)
        for physical, stats in part.fields.items():
            if not stats.n:  # only events that are deleted had a value
                continue
            path, code = split_physical(physical)
            source, kind, unit = _describe(path, code, signals)
            info = infos.setdefault((source, path), FieldInfo(path, {}, 0, 0.0, unit, source))
            info.types[kind] = info.types.get(kind, 0) + stats.n
            columns[source, path].append(physical)
            if len(info.examples) < _EXAMPLES:
                _add_examples(info, part, physical)
        for key, held in columns.items():
            infos[key].n += _n_events(part, held)
    for info in infos.values():
        info.fill = info.n / snapshot.n_rows if snapshot.n_rows else 0.0
    order = {"original": 0, "canonical": 1, "signal": 2, "system": 3}
    return sorted(infos.values(), key=lambda i: (order[i.source], i.name))


def _n_events(part: Part, columns: Sequence[str]) -> int:
    """Events with a value in one of the columns of a path: a list of several types is in several of them."""
    counts = [part.fields[name].n for name in columns]
    if len(columns) == 1 or not any(split_physical(name)[1].startswith("[") for name in columns):
        return sum(counts)
    has = [part.column(name).is_valid().to_numpy(zero_copy_only=False) for name in columns]
    return int(np.count_nonzero(np.logical_or.reduce(has)))


def _describe(path: str, code: str, signals: Mapping[str, Any]) -> tuple[str, str, str]:
    if code:
        return "original", TYPE_WORDS[code], ""
    if path in signals:
        return "signal", str(signals[path].type), str(signals[path].unit)
    known = FIELDS.get(path)
    if known is None:
        return "system", "bytes" if path == "record" else "int", ""
    return (
        ("system" if known.group == "provenance" or known.name == "ts" else "canonical"),
        known.type,
        known.unit,
    )


def _add_examples(info: FieldInfo, part: Part, physical: str) -> None:
    rows = np.linspace(0, part.n_rows - 1, num=min(part.n_rows, 64), dtype=np.intp)
    for value in part.column(physical, np.unique(rows)).to_pylist():
        shown = value[:_EXAMPLE_CHARS] if isinstance(value, str) else value
        if isinstance(shown, list):
            shown = shown[:4]
        if shown is None or isinstance(shown, bytes) or shown in info.examples:
            continue
        info.examples.append(shown)
        if len(info.examples) >= _EXAMPLES:
            return


def store_stats(
    snapshot: Snapshot, path: Path, sizes: Mapping[Path, int], model: ModelInfo | None
) -> dict[str, Any]:
    """Facts about a store as plain values."""
    parts = snapshot.parts
    shards = shard_table(parts)
    return {
        "path": str(path),
        "rows": snapshot.n_rows,
        "segments": sum(p.is_stored for p in parts),
        "rows_in_memory": sum(p.n_rows for p in parts if not p.is_stored),
        "t_min_ns": min((p.t_min for p in parts), default=None),
        "t_max_ns": max((p.t_max for p in parts), default=None),
        "vectors": sum(p.n_vectors for p in parts),
        "templates": len({k.tobytes() for p in parts for k in p.template_keys()}),
        "pending": snapshot.pending,
        "rejected": snapshot.n_rejected,
        "shards": shards,
        "largest_shard_share": max((s["share"] for s in shards if s["shard"] is not None), default=None),
        "effective_shards": _effective([s["rows"] for s in shards if s["shard"] is not None]),
        "partition_fields": partition_fields(parts),
        "partitions": partition_table(parts),
        "bytes": file_bytes(path, sizes),
        "model": None if model is None else model.model_id,
        "manifest_version": snapshot.version,
    }


def compaction_stats(amplification: Amplification, error: Exception | None) -> dict[str, Any]:
    """What was written for what was acknowledged, and what compaction has left."""
    return {
        "bytes_acknowledged": amplification.log,
        "bytes_written": amplification.total,
        "written": dict(amplification.by),
        "write_amplification": None if amplification.factor is None else round(amplification.factor, 3),
        "segments_by_tier": {str(tier): n for tier, n in amplification.tiers.items()},
        "segments_pending": amplification.n_pending,
        "compaction_error": None if error is None else str(error),
    }


def move_stats(state: ShadowState | None, n_rows: int) -> dict[str, Any] | None:
    """How far a move to another model is, None while there is none."""
    if state is None:
        return None
    return {
        "model": state.model.model_id,
        "events": state.n_rows,
        "events_in_all": n_rows,
        "texts_waiting": state.pending,
    }


def shard_table(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Rows and share of each shard; shard None: the head is not known (yet)."""
    rows: Counter[int] = Counter()
    for part in parts:
        for s in part.slices:
            rows[s.shard] += s.hi - s.lo
    total = sum(rows.values())
    return [
        {"shard": None if shard == NO_SHARD else shard, "rows": n, "share": n / total}
        for shard, n in sorted(rows.items())
        if n
    ]


def _effective(counts: Iterable[int]) -> float | None:
    """Effective number of shards: 2 to the entropy of their shares."""
    shares = np.asarray([c for c in counts if c], np.float64)
    if not len(shares):
        return None
    shares /= shares.sum()
    return float(2 ** -(shares * np.log2(shares)).sum())


def partition_fields(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Values and segments of each partition field; not_listed: segments with too many values, or of format 1."""
    return [
        {"field": name, "values": len(counts), "segments": n_segments, "not_listed": n_unlisted}
        for name, counts, n_segments, n_unlisted in _partitions(parts)
    ]


def partition_table(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Segments that hold each value of the partition fields, the most first; at most MAX_PARTITIONS a field."""
    return [
        {"field": name, "value": value, "segments": n}
        for name, counts, _, _ in _partitions(parts)
        for value, n in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_PARTITIONS]
    ]


def _partitions(parts: Sequence[Part]) -> Iterator[tuple[str, Counter[str], int, int]]:
    """Each partition field that is stored: segments by value, segments that hold it, those that list no values."""
    for name in PARTITION_FIELDS:
        listings = [part.partitions.get(name) for part in parts if part.is_stored and name in part.fields]
        counts = Counter(value for values in listings if values is not None for value in values)
        if listings:
            yield name, counts, len(listings), listings.count(None)


def file_bytes(path: Path, files: Mapping[Path, int]) -> dict[str, int]:
    """Bytes by kind of file of the store at `path`, of the bytes of each file."""
    sizes: Counter[str] = Counter()
    for file, n_bytes in files.items():
        sizes[_kind_of_file(file.parts[len(path.parts) :])] += n_bytes
    return {kind: sizes[kind] for kind in FILE_KINDS if kind in sizes}


def _kind_of_file(place: Sequence[str]) -> str:
    """Kind of a file by where it lies in its store."""
    head, name = place[0], place[-1]
    if head != "seg":
        return _DIRECTORIES.get(head, "other")
    kind = name.partition(".")[0].partition("-")[0]
    return kind if kind in _OF_SEGMENT else "other"
