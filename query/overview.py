"""What is in a store: its fields with types and fill rates, its shards and their balance, its size on disk."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from treering.indexer.signals import SIGNALS
from treering.storage.batch import ModelInfo
from treering.storage.part import NO_SHARD, Part
from treering.storage.schema import FIELDS, split_physical
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

_EXAMPLES = 3
_EXAMPLE_CHARS = 60


@dataclass(slots=True)
class FieldInfo:
    """One field.

    types: events by type. fill: share of all events that hold a value. source: original, canonical, signal or system.
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
        for physical, stats in part.fields.items():
            path, code = split_physical(physical)
            source, kind, unit = _describe(path, code, signals)
            info = infos.setdefault((source, path), FieldInfo(path, {}, 0, 0.0, unit, source))
            info.types[kind] = info.types.get(kind, 0) + stats.n
            info.n += stats.n
            if len(info.examples) < _EXAMPLES:
                _add_examples(info, part, physical)
    for info in infos.values():
        info.fill = info.n / snapshot.n_rows if snapshot.n_rows else 0.0
    order = {"original": 0, "canonical": 1, "signal": 2, "system": 3}
    return sorted(infos.values(), key=lambda i: (order[i.source], i.name))


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


def store_stats(snapshot: Snapshot, path: Path, model: ModelInfo | None) -> dict[str, Any]:
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
        "vectors": sum(len(p.vectors()) for p in parts),
        "templates": len({k.tobytes() for p in parts for k in p.template_keys()}),
        "pending": snapshot.pending,
        "rejected": snapshot.n_rejected,
        "shards": shards,
        "largest_shard_share": max((s["share"] for s in shards if s["shard"] is not None), default=None),
        "effective_shards": _effective([s["rows"] for s in shards if s["shard"] is not None]),
        "bytes": file_bytes(path),
        "model": None if model is None else model.model_id,
        "manifest_version": snapshot.version,
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


def file_bytes(path: Path) -> dict[str, int]:
    """Bytes on disk by kind of file."""
    sizes: dict[str, int] = defaultdict(int)
    for file in path.rglob("*"):
        if file.is_file():
            kind = file.name if file.suffix == ".arrow" and "-" not in file.stem else file.parent.name
            if file.suffix == ".arrow" and "-" in file.stem:
                kind = file.stem.partition("-")[0] + "-*.arrow"
            sizes[kind] += file.stat().st_size
    return dict(sorted(sizes.items()))
