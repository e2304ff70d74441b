"""A segment without its deleted events: what a query sees between a deletion and the rewrite of the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .agreement import Kinds, plain_type
from .batch import Int32s, Keys
from .columns import number_view, plain
from .deletion import Derived, Gone
from .memory import MemoryPart, select
from .meta import SegmentMeta
from .part import NO_SHARD, FieldStats, Postings, Slice, VectorTable
from .postings import PartsTable
from .rows import RowIndex, Rows
from .segment import Segment
from .tree import Tree

Bools = npt.NDArray[np.bool_]


class Survivors(Rows):
    """The events of a segment that are left, in (ts, seq) order, as a part of the store.

    Its id, size and the like cost nothing; the first look at an event reads the segment whole and keeps what
    is left of it in memory. Few segments are ever in this state, and none for long.
    """

    def __init__(self, segment: Segment, gone: Gone, qls_scale: tuple[float, ...] | None) -> None:
        n_rows = segment.n_rows - len(gone.rows)
        super().__init__(segment.id, n_rows, (Slice(NO_SHARD, 0, n_rows),))
        self.segment = segment
        self.gone = gone
        self._qls_scale = qls_scale

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

    def kinds(self) -> Kinds:
        """Give the plain types of all columns that hold a value."""
        return {name: plain_type(self.raw(name).type) for name in self.fields}

    def rows_of_segment(self, rows: RowIndex | None = None) -> Int32s:
        """Give where these rows (None: all) lie in the segment, in their order."""
        places = self._places if rows is None else self._places[rows]
        return places.astype(np.int32)

    def selected(self, part_id: str) -> MemoryPart:
        """Give the events that are left as a young part of another name."""
        return _selected(self.segment, self.gone, part_id, self._qls_scale)

    @property
    def pending(self) -> int:
        """Number of distinct vectors still to come."""
        return self.meta.pending

    @property
    def signals_pending(self) -> bool:
        """Whether signals that need vectors are still to come."""
        return self.meta.signals_pending

    @property
    def fields(self) -> Mapping[str, FieldStats]:
        """Physical columns that hold at least one value."""
        return self._left.fields

    @property
    def partitions(self) -> Mapping[str, tuple[str, ...] | None]:
        """All values of text columns that have few, those of deleted events included."""
        return self.segment.partitions

    def may_hold(self, name: str, value: str) -> bool:
        """Whether a text column may hold this value, by what is known of the whole segment."""
        return self.segment.may_hold(name, value)

    @property
    def tree(self) -> Tree:
        """PATT over the events that are left."""
        return self._left.tree

    def vectors(self) -> VectorTable:
        """Give the dictionary of distinct vectors; those that were forgotten are still to come."""
        return self._left.vectors()

    def vec_of_row(self) -> Int32s:
        """Give the vector of each row's primary text, -1 where it has none."""
        return self._left.vec_of_row()

    def postings(self) -> Postings:
        """Give where each vector is used."""
        return self._left.postings()

    def parts_table(self) -> PartsTable:
        """Give every embedded text with its vector."""
        return self._left.parts_table()

    def vector_keys(self) -> Keys:
        """Give the keys of the vector dictionary, ascending by (hi, lo)."""
        return self._left.vector_keys()

    def template_of_row(self) -> Int32s:
        """Give the template of each row's body as index into `template_keys`, -1 where it has none."""
        return self._left.template_of_row()

    def template_keys(self) -> Keys:
        """Give the distinct template keys, ascending by (hi, lo)."""
        return self._left.template_keys()

    def residual(self) -> pa.Array | None:
        """Give the rarest original fields by row, None where there are none."""
        return self._left.residual()

    def overflow(self) -> frozenset[str]:
        """Name the rarest original fields."""
        return self._left.overflow()

    def owners(self) -> Mapping[str, str]:
        """Name, for each column, the one of its equals that is stored."""
        return self._left.owners()

    @cached_property
    def _left(self) -> MemoryPart:
        return self.selected(self.id)

    @cached_property
    def _places(self) -> RowIndex:
        kept = kept_rows(self.segment.n_rows, self.gone)
        return kept[np.lexsort((self.segment.seq[kept], self.segment.ts[kept]))]

    def _hot(self) -> Mapping[str, pa.Array]:
        return self._left.placed.hot

    def _has_cold(self, name: str) -> bool:
        return name in self._left.placed.cold or name in self._left.overflow()

    def _cold(self, name: str, rows: RowIndex | None) -> pa.Array:
        return self._left.raw(name, rows)


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


def _selected(segment: Segment, gone: Gone, part_id: str, qls_scale: tuple[float, ...] | None) -> MemoryPart:
    columns: dict[str, pa.Array] = {}
    if gone.derived and wanted_again(segment, gone).any():
        # All signals of the segment are computed again, and what stands in a column is taken as it is then.
        columns = {name: array for one in gone.derived for name, array in _cleared(segment, one).items()}
    return select(
        segment,
        kept_rows(segment.n_rows, gone),
        part_id,
        qls_scale=qls_scale,
        vectors=remembered(segment.vectors(), gone),
        columns=columns,
        signals_pending=segment.signals_pending,
    )


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
