"""A part over plain arrays, made from events that are plain dicts, to test queries without storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.storage.batch import KEY, Int32s, Int64s, Keys, TextParts
from treering.storage.fixed_point import quantise, restore
from treering.storage.part import NO_SHARD, FieldStats, Postings, Slice, VectorTable
from treering.storage.postings import PartsTable
from treering.storage.schema import ARROW_TYPES, FIELDS, PATH_TYPES, split_physical
from treering.storage.tree import Tree

DIM = 64


@dataclass(slots=True)
class Event:
    """One event. values: by physical column. texts: (field, vector index, None: pending), primary first."""

    ts: int
    seq: int
    values: dict[str, Any] = field(default_factory=dict)
    texts: list[tuple[int, int | None]] = field(default_factory=list)
    shard: int = 0


def arrow_type(name: str) -> pa.DataType:
    path, code = split_physical(name)
    if code in PATH_TYPES:
        return PATH_TYPES[code]
    if name == "record":
        return pa.binary()
    return ARROW_TYPES[FIELDS[path].type] if path in FIELDS else pa.float64()


class PlainPart:
    """Events as a part. vectors: float32 (v, DIM), as stored. leaf_rows: how many rows a leaf may hold."""

    def __init__(
        self,
        events: Sequence[Event],
        vectors: npt.NDArray[np.float32] | None = None,
        *,
        part_id: str = "plain",
        dictionary: Sequence[str] = (),
        leaf_rows: int = 4,
        signals_pending: bool = False,
    ) -> None:
        self.events = sorted(events, key=lambda e: (e.shard, e.ts, e.seq))
        self.id = part_id
        self.is_stored = False
        self.n_rows = len(self.events)
        self.ts: Int64s = np.array([e.ts for e in self.events], np.int64)
        self.seq: Int64s = np.array([e.seq for e in self.events], np.int64)
        self.t_min = int(self.ts.min()) if self.n_rows else 0
        self.t_max = int(self.ts.max()) if self.n_rows else -1
        self.signals_pending = signals_pending
        self.slices = self._make_slices()
        self._columns = self._make_columns(set(dictionary))
        self.fields: Mapping[str, FieldStats] = {
            n: _stats(n, a) for n, a in self._columns.items() if a.null_count < len(a)
        }
        self.partitions: Mapping[str, tuple[str, ...] | None] = {}
        self._vectors = np.zeros((0, DIM), np.float32) if vectors is None else vectors
        self._texts, self._table = self._make_vectors()
        self.pending = int(np.count_nonzero(~self._table.have))
        self.tree = self._make_tree(leaf_rows)

    def may_hold(self, name: str, value: str) -> bool:
        return True

    def numbers(self, name: str) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_] | None]:
        if name in ("ts", "seq"):
            return (self.ts if name == "ts" else self.seq), None
        array = self._columns[name]
        valid = np.array(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
        return filled.to_numpy(zero_copy_only=False), None if valid.all() else valid

    def codes(self, name: str) -> tuple[Int32s, pa.Array] | None:
        array = self._columns[name]
        if not pa.types.is_dictionary(array.type):
            return None
        return np.asarray(array.indices.fill_null(-1), np.int32), array.dictionary

    def column(self, name: str, rows: npt.NDArray[np.intp] | None = None) -> pa.Array:
        own = {"ts": self.ts, "seq": self.seq}
        array = pa.array(own[name]) if name in own else self._columns[name]
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return array if rows is None else array.take(pa.array(rows, pa.int64()))

    def vectors(self) -> VectorTable:
        return self._table

    @property
    def n_vectors(self) -> int:
        return len(self._table)

    def vec_of_row(self) -> Int32s:
        out = np.full(self.n_rows, -1, np.int32)
        out[self._texts.row[self._texts.primary]] = self._texts.vec[self._texts.primary]
        return out

    def postings(self) -> Postings:
        texts = self._texts
        order = np.lexsort((self.seq[texts.row], self.ts[texts.row], texts.vec))
        counts = (
            np.bincount(texts.vec, minlength=len(self._table))
            if len(texts)
            else np.zeros(len(self._table), int)
        )
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Postings(offsets, texts.row[order], texts.field[order])

    def parts_table(self) -> PartsTable:
        return self._texts

    def parts(self) -> TextParts:
        return self._texts.with_keys(self._table.key)

    def template_of_row(self) -> Int32s:
        return np.full(self.n_rows, -1, np.int32)

    def template_keys(self) -> Keys:
        return np.empty(0, KEY)

    # -- how it is made -------------------------------------------------------------------------------------

    def _make_slices(self) -> list[Slice]:
        shards = [e.shard for e in self.events]
        kinds = sorted(set(shards))
        only = [Slice(NO_SHARD, 0, self.n_rows)]
        return (
            only
            if len(kinds) <= 1
            else [Slice(s, shards.index(s), shards.index(s) + shards.count(s)) for s in kinds]
        )

    def _make_columns(self, dictionary: set[str]) -> dict[str, pa.Array]:
        names = list(dict.fromkeys(name for e in self.events for name in e.values))
        out = {}
        for name in names:
            code = split_physical(name)[1]
            values = [_stored(code, e.values.get(name)) for e in self.events]
            array = pa.array(values, arrow_type(name), from_pandas=False)
            out[name] = (
                array.dictionary_encode() if name in dictionary and pa.types.is_string(array.type) else array
            )
        return out

    def _make_vectors(self) -> tuple[PartsTable, VectorTable]:
        rows: list[tuple[int, int, int, int, bool]] = []
        used = sorted({v for e in self.events for _, v in e.texts if v is not None})
        ids = {v: i for i, v in enumerate(used)}
        n_vectors = len(used)
        for row, event in enumerate(self.events):
            texts = []
            for place, (kind, vector) in enumerate(event.texts):
                if vector is None:
                    vec, n_vectors = n_vectors, n_vectors + 1
                else:
                    vec = ids[vector]
                texts.append((row, kind, place, vec, place == 0))
            rows.extend(sorted(texts, key=lambda t: (t[1], t[2])))
        exact = np.zeros((n_vectors, DIM), np.float32)
        exact[: len(used)] = self._vectors[used]
        have = np.arange(n_vectors) < len(used)
        columns = list(zip(*rows, strict=True)) if rows else [()] * 5
        texts_table = PartsTable(
            np.array(columns[0], np.int32),
            np.array(columns[1], np.uint8),
            np.array(columns[2], np.int16),
            np.array(columns[3], np.int32),
            np.array(columns[4], np.bool_),
        )
        return texts_table, vector_table(exact, have)

    def _make_tree(self, leaf_rows: int) -> Tree:
        names = [n for n, a in self._columns.items() if _is_number(a.type)]
        order = np.lexsort((self.seq, self.ts))
        nodes: list[tuple[npt.NDArray[np.intp], int, int]] = []

        def build(rows: npt.NDArray[np.intp]) -> int:
            at = len(nodes)
            nodes.append((rows, -1, -1))
            times = self.ts[rows]
            if len(rows) <= leaf_rows or times[0] == times[-1]:
                return at
            middle = int(np.searchsorted(times, (int(times[0]) + int(times[-1]) + 1) // 2))
            left, right = build(rows[:middle]), build(rows[middle:])
            nodes[at] = (rows, left, right)
            return at

        build(order)
        return _tree(self, names, nodes)


def _tree(part: PlainPart, names: list[str], nodes: list[tuple[Any, int, int]]) -> Tree:
    n, s = len(nodes), len(part.slices)
    lo, hi = np.zeros((n, s), np.int32), np.zeros((n, s), np.int32)
    low, high = np.full((n, len(names)), np.nan), np.full((n, len(names)), np.nan)
    count = np.zeros((n, len(names)), np.int32)
    for i, (rows, _, _) in enumerate(nodes):
        for j, one in enumerate(part.slices):
            mine = rows[(rows >= one.lo) & (rows < one.hi)]
            lo[i, j], hi[i, j] = (mine.min(), mine.max() + 1) if len(mine) else (one.lo, one.lo)
        for j, name in enumerate(names):
            values, valid = part.numbers(name)
            mine_values = np.asarray(values[rows if valid is None else rows[valid[rows]]], np.float64)
            mine_values = mine_values[~np.isnan(mine_values)]
            count[i, j] = len(mine_values)
            if len(mine_values):
                low[i, j], high[i, j] = mine_values.min(), mine_values.max()
    zeros = np.zeros(n, np.int64)
    return Tree(
        level=np.zeros(n, np.uint8),
        cell=zeros,
        t_min=np.array([part.ts[r].min() if len(r) else 0 for r, _, _ in nodes]),
        t_max=np.array([part.ts[r].max() if len(r) else 0 for r, _, _ in nodes]),
        count=np.array([len(r) for r, _, _ in nodes], np.int32),
        left=np.array([left for _, left, _ in nodes], np.int32),
        right=np.array([right for _, _, right in nodes], np.int32),
        lo=lo,
        hi=hi,
        signals=tuple(names),
        minimum=low,
        maximum=high,
        total=np.zeros((n, len(names))),
        n=count,
        levels=np.zeros((n, 7), np.int32),
        shards=hi - lo,
        signature=np.full((n, 136), np.nan, np.float32),
    )


def stored(vectors: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
    """Vectors as a store has them: 16 bits a number, and quantising them again changes nothing."""
    return restore(*quantise(vectors))


def unit(raw: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
    """Vectors of unit length, as a store has them."""
    return stored(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def vector_table(vectors: npt.NDArray[np.float32], have: npt.NDArray[np.bool_]) -> VectorTable:
    """A table of stored vectors, coded a number at a time, with their true error norms, rounded up."""
    u, dim = vectors.shape
    values, step = quantise(vectors)
    high = np.floor(values / 256 + 0.5)
    codes = np.zeros((u, -(-dim // 64) * 64), np.int8)
    codes[:, :dim] = high
    coded = high * 256.0 * step[:, None].astype(np.float64)
    err = np.linalg.norm(vectors.astype(np.float64) - coded, axis=1)
    keys = np.zeros(u, KEY)
    keys["lo"] = np.arange(1, u + 1)
    return VectorTable(
        key=keys,
        have=have,
        codes=codes,
        rest=(values - 256 * high).astype(np.int8),
        scale=step * np.float32(256),
        err=np.nextafter(err.astype(np.float32), np.float32(np.inf)),
        heads=np.zeros((u, 0), np.uint8),
        n_tokens=np.zeros(u, np.uint16),
        head=np.full(u, 255, np.uint8),
        second=np.full(u, 255, np.uint8),
        qls=np.zeros((u, 136), np.int8),
    )


def _stored(code: str, value: Any) -> Any:
    if value is None:
        return None
    if code == "z":
        return str(value)
    return [None if v is None else str(v) for v in value] if code == "[z]" else value


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type))


def _stats(name: str, array: pa.Array) -> FieldStats:
    n = len(array) - array.null_count
    if not _is_number(array.type):
        return FieldStats(n)
    values = [v for v in array.to_pylist() if v is not None and v == v]
    return FieldStats(n, min(values, default=None), max(values, default=None))


@dataclass
class PlainSnapshot:
    """Parts as one state of a store."""

    parts: list[Any]
    n_rejected: int = 0

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    @property
    def pending(self) -> int:
        return sum(part.pending for part in self.parts)
