"""A segment without its deleted events: what a query sees between a deletion and the rewrite of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .batch import Int32s, Keys
from .columns import code_view, compact_codes, number_view, plain
from .deletion import Derived, Gone
from .errors import DamageError
from .memory import MemoryPart, select
from .meta import SegmentMeta
from .part import FieldStats, Postings, Slice, VectorTable
from .patt import build_tree
from .payloads import Payloads
from .postings import PartsTable
from .rows import RowIndex, Rows
from .segment import Segment
from .tree import Tree

Bools = npt.NDArray[np.bool_]


class Survivors(Rows):
    """The events of a segment that are left, in the order of the segment, as a part of the store.

    Each look reads of the segment what it asks for and no more, and takes the deleted rows out of that: what does
    not need a damaged file, answers. Where the deletion file is damaged nobody knows which rows are left, and
    every look at one raises DamageError. What is known of the segment without a look at rows (bounds of columns,
    partitions, filters) holds for what is left of it, if not as narrowly.

    n_gone: how many rows are gone; read: gives which.
    """

    def __init__(
        self, segment: Segment, n_gone: int, read: Callable[[], Gone], qls_scale: tuple[float, ...] | None
    ) -> None:
        super().__init__(segment.id, segment.n_rows - n_gone, ())
        self.segment = segment
        self._read = read
        self._qls_scale = qls_scale

    @cached_property
    def gone(self) -> Gone:
        """What of the segment is gone. Raises DamageError."""
        return self._read()

    def read_deletion(self) -> None:
        """Read which rows are gone, now and not when that is asked for. Raises DamageError."""
        _ = self.gone

    @property
    def meta(self) -> SegmentMeta:
        """What the manifest says of the segment."""
        return self.segment.meta

    @property
    def is_stored(self) -> bool:
        """Whether this is a segment of the store: yes."""
        return True

    def verify(self) -> None:
        """Read the segment's files whole. Raises DamageError for the first whose checksum is not right."""
        self.segment.verify()

    def rows_of_segment(self, rows: RowIndex | None = None) -> Int32s:
        """Give where these rows (None: all) lie in the segment, in their order."""
        places = self._places if rows is None else self._places[rows]
        return places.astype(np.int32)

    def selected(self, part_id: str) -> MemoryPart:
        """Give the events that are left as a young part of another name; reads the segment whole."""
        return select(
            self.segment,
            self._places,
            part_id,
            qls_scale=self._qls_scale,
            vectors=self.vectors(),
            columns=self._signals if self.gone.derived else {},
            signals_pending=self.signals_pending,
        )

    @property
    def t_min(self) -> int:
        """First event time; that of the segment where the times cannot be read."""
        try:
            return super().t_min
        except DamageError:
            return self.meta.t_min

    @property
    def t_max(self) -> int:
        """Last event time, inclusive; that of the segment where the times cannot be read."""
        try:
            return super().t_max
        except DamageError:
            return self.meta.t_max

    @property
    def slices(self) -> Sequence[Slice]:
        """Row runs of the shards that have rows left, ascending."""
        return self._left_slices

    @property
    def pending(self) -> int:
        """Number of distinct vectors still to come."""
        return self.meta.pending

    @property
    def signals_pending(self) -> bool:
        """Whether signals that need vectors are still to come."""
        return self.meta.signals_pending

    @cached_property
    def fields(self) -> Mapping[str, FieldStats]:
        """Physical columns of the segment: perhaps some that have no value left, and then say so."""
        return _LeftFields(self)

    @property
    def partitions(self) -> Mapping[str, tuple[str, ...] | None]:
        """All values of text columns that have few, those of deleted events included."""
        return self.segment.partitions

    def may_hold(self, name: str, value: str) -> bool:
        """Whether a text column may hold this value, by what is known of the whole segment."""
        return self.segment.may_hold(name, value)

    @property
    def tree(self) -> Tree:
        """PATT without a node: nothing is left out by it. Few segments are ever in this state, and none for long."""
        none = np.empty(0, np.int64)
        return build_tree(none, none, (), numbers={})

    def vectors(self) -> VectorTable:
        """Give the dictionary of the segment; the vectors that were forgotten are still to come."""
        return self._keep("vectors", lambda: remembered(self.segment.vectors(), self.gone))

    @property
    def n_vectors(self) -> int:
        """Number of distinct vectors that events use, those to come included; where that cannot be read, of all."""
        try:
            return len(np.unique(self.parts_table().vec))
        except DamageError:
            return self.segment.n_vectors

    def vec_of_row(self) -> Int32s:
        """Give the vector of each row's primary text, -1 where it has none."""
        return self._keep("vec_of_row", lambda: self.segment.vec_of_row()[self._places])

    def postings(self) -> Postings:
        """Give where each vector is used, those that are not used any more included."""
        return self._keep("postings", self._left_postings)

    def parts_table(self) -> PartsTable:
        """Give every embedded text with its vector."""
        return self._keep("parts", self._left_parts)

    def vector_keys(self) -> Keys:
        """Give the keys of the vector dictionary, ascending by (hi, lo)."""
        return self.segment.vector_keys()

    def template_of_row(self) -> Int32s:
        """Give the template of each row's body as index into `template_keys`, -1 where it has none."""
        return self._keep("template_of_row", self._left_templates)

    def template_keys(self) -> Keys:
        """Give the distinct template keys of the rows that are left, ascending by (hi, lo); else of all rows."""
        keys, used = self.segment.template_keys(), self._used_templates
        return keys if used is None else keys[used]

    def residual(self) -> pa.Array | None:
        """Give the rarest original fields by row, None where there are none."""
        whole = self.segment.residual()
        return None if whole is None else whole.take(pa.array(self._places))

    def overflow(self) -> frozenset[str]:
        """Name the rarest original fields."""
        return self.segment.overflow()

    @property
    def is_cut(self) -> bool:
        """Whether payloads were cut out of records of the segment."""
        return self.segment.is_cut

    def payloads(self) -> Payloads:
        """Give the payloads of the records of the segment."""
        return self.segment.payloads()

    def owners(self) -> Mapping[str, str]:
        """Name, for each column, the one of its equals that is stored."""
        cleared = {name for one in self.gone.derived for name in one.columns}
        owners = self.segment.owners().items()
        return {name: owner for name, owner in owners if not cleared & {name, owner}}

    def n_values(self, name: str) -> int:
        """Give how many rows that are left have a value in a column of the segment.

        Where its file is damaged, a number that is not too small, and neither none nor all. Raises DamageError for
        a damaged file where no such number is.
        """
        n_of_segment = self.segment.fields[name].n
        try:
            if n_of_segment == self.segment.n_rows and not self._is_derived(name):
                return self.n_rows
            array = self.raw(name)
            return len(array) - int(array.null_count)
        except DamageError:
            if self.n_rows < 2:
                raise
            return min(n_of_segment, self.n_rows - 1)

    @cached_property
    def _places(self) -> RowIndex:
        return kept_rows(self.segment.n_rows, self.gone)

    @cached_property
    def _row_now(self) -> Int32s:
        """Row of each row of the segment, -1 where it is gone."""
        now = np.full(self.segment.n_rows, -1, np.int32)
        now[self._places] = np.arange(len(self._places), dtype=np.int32)
        return now

    @cached_property
    def _left_slices(self) -> tuple[Slice, ...]:
        bounds = [
            (s.shard, *np.searchsorted(self._places, (s.lo, s.hi)).tolist()) for s in self.segment.slices
        ]
        return tuple(Slice(shard, lo, hi) for shard, lo, hi in bounds if lo < hi)

    def _left_postings(self) -> Postings:
        whole = self.segment.postings()
        row = self._row_now[whole.row]
        is_left = row >= 0
        n_before = np.concatenate([[0], np.cumsum(is_left, dtype=np.int64)])
        return Postings(n_before[whole.offsets], row[is_left], whole.field[is_left])

    def _left_parts(self) -> PartsTable:
        whole = self.segment.parts_table()
        row = self._row_now[whole.row]
        left = row >= 0
        columns = (whole.field[left], whole.chunk[left], whole.vec[left], whole.primary[left])
        return PartsTable(row[left], *columns)

    @cached_property
    def _used_templates(self) -> Int32s | None:
        """Which templates of the segment rows have that are left, None where that cannot be read; found out once."""
        try:
            of_row = self.segment.template_of_row()[self._places]
        except DamageError:
            return None
        return np.unique(of_row[of_row >= 0])

    def _left_templates(self) -> Int32s:
        of_row, used = self.segment.template_of_row()[self._places], self._used_templates
        if used is None:
            return of_row
        return np.where(of_row < 0, -1, np.searchsorted(used, of_row)).astype(np.int32)

    def _is_derived(self, name: str) -> bool:
        return any(name in one.columns for one in self.gone.derived)

    @cached_property
    def _signals(self) -> Mapping[str, pa.Array]:
        """Columns of the segment that may be made of vectors which are to be made again, without what is."""
        # All signals of the segment are computed again then, and what stands in a column is taken as it is.
        if not wanted_again(self.segment, self.gone).any():
            return {}
        return {
            name: array for one in self.gone.derived for name, array in _cleared(self.segment, one).items()
        }

    def _hot(self) -> Mapping[str, pa.Array]:
        return {}

    def _has_cold(self, name: str) -> bool:
        # The segment is asked for every column, and says which it lacks.
        return True

    def _cold(self, name: str, rows: RowIndex | None) -> pa.Array:
        places = self._places if rows is None else self._places[rows]
        cleared = self._signals.get(name) if self._is_derived(name) else None
        array = self.segment.raw(name, places) if cleared is None else cleared.take(pa.array(places))
        # A dictionary must not tell what only deleted events had.
        return compact_codes(array) if pa.types.is_dictionary(array.type) else array

    def _unpacked_codes(self, name: str) -> tuple[Int32s, pa.Array] | None:
        if self.segment.codes(name) is None:
            return None
        array = self.raw(name)
        return (code_view(array), array.dictionary) if pa.types.is_dictionary(array.type) else None


class _LeftFields(Mapping[str, FieldStats]):
    """The columns of a segment with the statistics of what is left; bounds are those of the segment."""

    def __init__(self, part: Survivors) -> None:
        self._part = part
        self._of_segment = part.segment.fields
        self._known: dict[str, FieldStats] = {}

    def __getitem__(self, name: str) -> FieldStats:
        if name not in self._known:
            self._known[name] = replace(self._of_segment[name], n=self._part.n_values(name))
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._of_segment

    def __iter__(self) -> Iterator[str]:
        return iter(self._of_segment)

    def __len__(self) -> int:
        return len(self._of_segment)


def kept_rows(n_rows: int, gone: Gone) -> RowIndex:
    """Give the rows of a segment that are left, ascending."""
    is_kept = np.ones(n_rows, np.bool_)
    is_kept[gone.rows] = False
    return np.flatnonzero(is_kept)


def remembered(table: VectorTable, gone: Gone) -> VectorTable:
    """Give a dictionary in which the vectors that were forgotten are not to be had."""
    have = table.have.copy()
    have[gone.vectors] = False
    return replace(table, have=have)


def waiting(segment: Segment, gone: Gone) -> Bools:
    """Give which vectors of the segment the events that are left wait for, bool (u)."""
    parts = segment.parts_table()
    is_kept = np.ones(segment.n_rows, np.bool_)
    is_kept[gone.rows] = False
    used = np.zeros(len(segment.vectors()), np.bool_)
    used[parts.vec[is_kept[parts.row]]] = True
    return used & ~remembered(segment.vectors(), gone).have


def wanted_again(segment: Segment, gone: Gone) -> Bools:
    """Give which vectors of the segment were forgotten although events that are left use them, bool (u)."""
    return waiting(segment, gone) & segment.vectors().have


def _cleared(segment: Segment, derived: Derived) -> dict[str, pa.Array]:
    """Give the columns that may be made of vectors, without the values that are."""
    if derived.label not in segment.fields:
        return {}
    labels = plain(segment.raw(derived.label))
    is_made = pc.fill_null(pc.equal(labels, derived.value), False).to_numpy(zero_copy_only=False)
    names = [name for name in derived.columns if name in segment.fields]
    return {name: _without(segment.raw(name), is_made) for name in names}


def _without(array: pa.Array, rows: Bools) -> pa.Array:
    """Give a column without the values at `rows`; their bytes are gone as well."""
    if pa.types.is_dictionary(array.type) or not pa.types.is_floating(array.type):
        kept = np.flatnonzero(~rows)
        places = np.full(len(array), -1, np.int64)
        places[kept] = kept
        return plain(array).take(pa.array(places, mask=places < 0))
    values, mask = number_view(array)
    is_missing = rows if mask is None else rows | ~mask
    return pa.array(np.where(rows, values.dtype.type(0), values), array.type, mask=is_missing)
