"""The rows of a segment whose files are whole: their order, and what the manifest says of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_file import ArrowFile, map_file, read_lists
from .batch import Int64s
from .check_files import cell_bounds
from .columns import field_stats, number_view
from .files import Files
from .hot_file import TEMPLATE_ID, VEC_ID, HotFile
from .late import SIGNAL
from .layout import Layout
from .meta import SegmentMeta
from .part import FieldStats
from .partitions import MAX_VALUES
from .payloads import CUTS
from .residual import RESIDUAL
from .segment_files import SegmentFiles
from .vectors import flat_view

BLOCK_ROWS = 4096
"""Rows of compressed columns that are read at once: whole batches, whatever their size."""

MANIFEST = ""
"""Stands for the manifest's entry of the segment, where that and the rows disagree."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong in a file of a segment, or with what the manifest says of it (`MANIFEST`)."""

    file: str
    what: str


@dataclass(frozen=True, slots=True)
class RowsCheck:
    """Compares the rows of a segment with its entry in the manifest. opened: its files, all of them whole."""

    files: Files
    layout: Layout
    meta: SegmentMeta
    opened: SegmentFiles

    def order(self) -> Iterator[Wrong]:
        """Compare times and sequence numbers with slices, bounds and cell."""
        meta, name = self.meta, self._name("hot")
        arrays = [self.opened.hot.column(column) for column in ("ts", "seq")]
        if any(array.null_count for array in arrays):
            yield Wrong(name, "an event has no time or no sequence number")
            return
        ts, seq = (number_view(array)[0] for array in arrays)
        for one in meta.slices:
            if not _is_sorted(ts[one.lo : one.hi], seq[one.lo : one.hi]):
                yield Wrong(name, f"rows [{one.lo}, {one.hi}) are not in the order of time")
        if len(np.unique(seq)) != len(seq):
            yield Wrong(name, "two events have one sequence number")
        found = int(ts.min()), int(ts.max()), int(seq.min()), int(seq.max())
        if found != (meta.t_min, meta.t_max, meta.seq_min, meta.seq_max):
            yield Wrong(MANIFEST, "it says other times or sequence numbers of the segment than its rows have")
        first, last = cell_bounds(meta.level, meta.cell)
        if not first <= found[0] <= found[1] < last:
            yield Wrong(name, f"times from {found[0]} to {found[1]} are not in the segment's cell")

    def columns(self) -> Iterator[Wrong]:
        """Compare every column with the manifest's statistics, and look at codes, spans and partitions."""
        found: dict[str, FieldStats] = {}
        distinct: dict[str, pa.Array] = {}
        yield from self._hot(found, distinct)
        yield from self._cold(found, distinct)
        yield from _compare(found, self.meta.fields)
        yield from self._late()
        for name, values in self.meta.partitions.items():
            if values is not None and set(values) != set(distinct.get(name, pa.array([])).to_pylist()):
                yield Wrong(MANIFEST, f"it says other values of {name} than the segment's rows have")

    def _hot(self, found: dict[str, FieldStats], distinct: dict[str, pa.Array]) -> Iterator[Wrong]:
        hot = self.opened.hot
        owned: dict[str, FieldStats] = {}
        for name in hot:
            owner = hot.aliases.get(name, name)
            if owner not in owned:
                array = hot.column(owner)
                yield from self._codes(owner, array)
                owned[owner] = field_stats(array)
            found[name] = owned[owner]
            if name in self.meta.partitions:
                distinct[name] = _values_of(hot.column(owner))
        yield from self._internal(hot)

    def _codes(self, name: str, array: pa.Array) -> Iterator[Wrong]:
        if not pa.types.is_dictionary(array.type):
            return
        codes, mask = number_view(array.indices)
        codes = codes if mask is None else codes[mask]
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(array.dictionary):
            yield Wrong(
                self._name("hot"), f"column {name} has codes beyond its {len(array.dictionary)} texts"
            )

    def _internal(self, hot: HotFile) -> Iterator[Wrong]:
        limits = {VEC_ID: len(self.opened.own_vectors)}
        for name, limit in limits.items():
            values = number_view(hot.column(name))[0]
            if len(values) and not -1 <= int(values.min()) <= int(values.max()) < limit:
                yield Wrong(self._name("hot"), f"column {name} has values beyond the {limit} there are")
        if hot.column(TEMPLATE_ID).null_count:
            yield Wrong(self._name("hot"), f"column {TEMPLATE_ID} has missing values")

    def _cold(self, found: dict[str, FieldStats], distinct: dict[str, pa.Array]) -> Iterator[Wrong]:
        text, file = self.opened.text, self.opened.of("text")
        spans = file.facts["spans"]
        names = {*file.schema.names, *text.aliases, *spans, *text.overflow} - {RESIDUAL, CUTS}
        names -= {f"{name}~{side}" for name in spans for side in ("start", "length")}
        owners = {name: text.aliases.get(name, name) for name in sorted(names)}
        pieces: dict[str, list[FieldStats]] = {owner: [] for owner in owners.values()}
        seen: dict[str, pa.Array] = {}
        for start in range(0, self.meta.n_rows, BLOCK_ROWS):
            rows = np.arange(start, min(start + BLOCK_ROWS, self.meta.n_rows))
            for owner, stats in pieces.items():
                array = text.column(owner, rows)
                stats.append(field_stats(array))
                for name in self.meta.partitions.keys() & {n for n, o in owners.items() if o == owner}:
                    seen[name] = _joined(seen.get(name), array)
        found |= {name: _sum(pieces[owner]) for name, owner in owners.items() if name not in found}
        distinct |= {name: array for name, array in seen.items() if name not in distinct}
        yield from self._spans(file)

    def _spans(self, file: ArrowFile) -> Iterator[Wrong]:
        for name, owner in file.facts["spans"].items():
            for number in range(file.n_batches):
                start, n_bytes, whole = (
                    file.batch_column(number, column) for column in (f"{name}~start", f"{name}~length", owner)
                )
                if not _lie_inside(start, n_bytes, whole):
                    yield Wrong(self._name("text"), f"a {name} of batch {number} is not inside its {owner}")
        if RESIDUAL in file.schema.names and not file.facts["overflow"]:
            yield Wrong(self._name("text"), f"it has a column {RESIDUAL} and names no fields in it")

    def _late(self) -> Iterator[Wrong]:
        for late in self.meta.late:
            directory = self.layout.segment(self.meta.id)
            buffer = map_file(self.files, directory, late.file)
            columns = read_lists(ArrowFile(directory / late.file.name, buffer, "late"))
            signals = {
                name.removeprefix(SIGNAL): field_stats(columns[name])
                for name in columns
                if name.startswith(SIGNAL)
            }
            if signals != dict(late.fields):
                yield Wrong(
                    MANIFEST, f"it says other things of the columns in {late.file.name} than they hold"
                )
            n_vectors = len(columns["vector.key"]) if "vector.key" in columns else 0
            if n_vectors != late.n_vectors:
                yield Wrong(late.file.name, f"it has {n_vectors} vectors, the manifest says {late.n_vectors}")

    def _name(self, kind: str) -> str:
        stored = self.opened.stored(kind)
        return f"{kind}.arrow" if stored is None else stored.name


def _is_sorted(ts: Int64s, seq: Int64s) -> bool:
    ahead = (ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (seq[1:] > seq[:-1]))
    return bool(ahead.all())


def _compare(found: Mapping[str, FieldStats], told: Mapping[str, FieldStats]) -> Iterator[Wrong]:
    held = {name: stats for name, stats in found.items() if stats.n}
    given = {name: stats for name, stats in told.items() if stats.n}
    for name in sorted(held.keys() | given.keys()):
        one, other = held.get(name), given.get(name)
        if one != other:
            yield Wrong(MANIFEST, f"it says {_words(other)} of column {name}, its rows have {_words(one)}")


def _words(stats: FieldStats | None) -> str:
    if stats is None:
        return "nothing"
    bounds = "" if stats.minimum is None else f" from {stats.minimum} to {stats.maximum}"
    return f"{stats.n} values{bounds}"


def _sum(pieces: list[FieldStats]) -> FieldStats:
    lows = [piece.minimum for piece in pieces if piece.minimum is not None]
    highs = [piece.maximum for piece in pieces if piece.maximum is not None]
    n = sum(piece.n for piece in pieces)
    return FieldStats(n, min(lows), max(highs)) if lows and highs else FieldStats(n)


def _values_of(array: pa.Array) -> pa.Array:
    texts = array.dictionary if pa.types.is_dictionary(array.type) else array
    return pc.unique(texts).drop_null()


def _joined(seen: pa.Array | None, array: pa.Array) -> pa.Array:
    fresh = _values_of(array)
    if seen is None or len(seen) > MAX_VALUES:
        return fresh if seen is None else seen
    return pc.unique(pa.concat_arrays([seen, fresh.cast(seen.type)]))


def _lie_inside(start: pa.Array, n_bytes: pa.Array, whole: pa.Array) -> bool:
    has_text = start.is_valid().to_numpy(zero_copy_only=False)
    if not np.array_equal(has_text, n_bytes.is_valid().to_numpy(zero_copy_only=False)):
        return False
    starts, lengths = (flat_view(array, np.int32)[has_text].astype(np.int64) for array in (start, n_bytes))
    sizes = pc.fill_null(pc.binary_length(whole), -1).to_numpy(zero_copy_only=False)[has_text]
    return bool(((starts >= 0) & (lengths >= 0) & (starts + lengths <= sizes)).all())
