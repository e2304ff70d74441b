"""What every part does alike, wherever its bytes lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .batch import Int32s, Int64s, Keys, TextParts
from .columns import code_view, is_number, number_view
from .damage import of_records
from .errors import DamageError
from .part import FieldStats, Postings, Slice, VectorTable
from .payloads import CUTS, NO_PAYLOADS, RECORD, Payloads
from .postings import PartsTable, group
from .record_cuts import rows_without, stitch
from .remote import GoneError
from .tree import Tree

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]
RowIndex = npt.NDArray[np.intp]
T = TypeVar("T")


class Rows(ABC):
    """A part over hot columns (held, numbers and coded texts) and cold ones (fetched).

    Unpacked masks, bools and codes are kept after their first use; everything else is a view.
    """

    def __init__(self, part_id: str, n_rows: int, slices: Sequence[Slice]) -> None:
        self._id = part_id
        self._n_rows = n_rows
        self._slices = tuple(slices)
        self._kept: dict[Hashable, Any] = {}

    @property
    def id(self) -> str:
        """Name of the part."""
        return self._id

    @property
    @abstractmethod
    def is_stored(self) -> bool:
        """Whether this is a segment of the store, and not events that only the log holds."""

    @property
    def n_rows(self) -> int:
        """Number of events."""
        return self._n_rows

    @property
    def slices(self) -> Sequence[Slice]:
        """Row runs of the shards, ascending."""
        return self._slices

    @property
    def t_min(self) -> int:
        """First event time; 0 without events."""
        return int(min((self.ts[s.lo] for s in self.slices), default=0))

    @property
    def t_max(self) -> int:
        """Last event time, inclusive; -1 without events."""
        return int(max((self.ts[s.hi - 1] for s in self.slices), default=-1))

    @property
    @abstractmethod
    def pending(self) -> int:
        """Number of distinct vectors still to come."""

    @property
    @abstractmethod
    def signals_pending(self) -> bool:
        """Whether signals that need vectors are still to come."""

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, FieldStats]:
        """Physical columns that hold at least one value."""

    @property
    def partitions(self) -> Mapping[str, tuple[str, ...] | None]:
        """All values of text columns that have few; None: too many to list, absent: not known."""
        return {}

    def may_hold(self, name: str, value: str) -> bool:
        """Whether a text column may hold this value; here nothing is known of values."""
        return True

    @property
    @abstractmethod
    def tree(self) -> Tree:
        """PATT over the part's rows."""

    @property
    def ts(self) -> Int64s:
        """Event times by row."""
        return np.asarray(self.numbers("ts")[0], np.int64)

    @property
    def seq(self) -> Int64s:
        """Arrival numbers by row."""
        return np.asarray(self.numbers("seq")[0], np.int64)

    def numbers(self, name: str) -> tuple[Numbers, Bools | None]:
        """Values of a number, bool or level column by row, and which rows have one (None: all).

        Raises KeyError for a column that this part lacks, TypeError for one that holds no numbers.
        """
        return self._keep(("numbers", name), lambda: self._unpacked_numbers(name))

    def codes(self, name: str) -> tuple[Int32s, pa.Array] | None:
        """Codes by row (-1: missing) and the dictionary of a dictionary-encoded text column, else None."""
        return self._keep(("codes", name), lambda: self._unpacked_codes(name))

    def column(self, name: str, rows: RowIndex | None = None) -> pa.Array:
        """Any column, whole or at `rows` in that order; dictionary columns come decoded, records whole."""
        if name == RECORD and self.is_cut:
            return self._records(rows)
        array = self.raw(name, rows)
        return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array

    def raw(self, name: str, rows: RowIndex | None = None) -> pa.Array:
        """Give a column as it is kept: texts may come dictionary-encoded, records cut. Raises KeyError."""
        array = self._hot().get(name)
        if array is not None:
            return array if rows is None else array.take(pa.array(np.asarray(rows, np.int64)))
        if not self._has_cold(name):
            raise KeyError(self._lacks(name))
        return self._cold(name, rows)

    @abstractmethod
    def vectors(self) -> VectorTable:
        """Give the dictionary of distinct vectors."""

    @property
    def n_vectors(self) -> int:
        """Number of distinct vectors that events use, those to come included."""
        return len(self.vectors())

    @abstractmethod
    def vec_of_row(self) -> Int32s:
        """Give the vector of each row's primary text, -1 where it has none."""

    @abstractmethod
    def postings(self) -> Postings:
        """Give where each vector is used."""

    @abstractmethod
    def parts_table(self) -> PartsTable:
        """Give every embedded text with its vector."""

    @abstractmethod
    def vector_keys(self) -> Keys:
        """Give the keys of the vector dictionary, ascending by (hi, lo)."""

    def parts(self) -> TextParts:
        """Give every embedded text with its key, ordered by (row, field, chunk)."""
        return self.parts_table().with_keys(self.vector_keys())

    @abstractmethod
    def template_of_row(self) -> Int32s:
        """Give the template of each row's body as index into `template_keys`, -1 where it has none."""

    @abstractmethod
    def template_keys(self) -> Keys:
        """Give the distinct template keys, ascending by (hi, lo)."""

    def template_rows(self) -> tuple[Int64s, Int32s]:
        """Give offsets int64 (templates + 1) and the rows of each template, in (ts, seq) order."""
        templates = self.template_of_row()
        by_time = self.time_order()
        in_time = templates if by_time is None else templates[by_time]
        offsets, order = group(in_time, len(self.template_keys()))
        rows = order if by_time is None else by_time[order]
        return offsets, rows.astype(np.int32)

    def time_order(self) -> RowIndex | None:
        """Give the rows in (ts, seq) order, or None where they lie so."""
        return None if len(self.slices) <= 1 else np.lexsort((self.seq, self.ts))

    @abstractmethod
    def residual(self) -> pa.Array | None:
        """Give the rarest original fields, a JSON object a row, None where there are none."""

    @abstractmethod
    def overflow(self) -> frozenset[str]:
        """Name the fields in `residual`."""

    @property
    def is_cut(self) -> bool:
        """Whether payloads were cut out of records: then there is a column `CUTS`."""
        return False

    def payloads(self) -> Payloads:
        """Give the payloads that were cut out of records. Raises DamageError."""
        return NO_PAYLOADS

    @abstractmethod
    def owners(self) -> Mapping[str, str]:
        """Name, for columns that equal another, that one; other columns may be left out."""

    @abstractmethod
    def _hot(self) -> Mapping[str, pa.Array]: ...

    @abstractmethod
    def _has_cold(self, name: str) -> bool: ...

    @abstractmethod
    def _cold(self, name: str, rows: RowIndex | None) -> pa.Array: ...

    def _records(self, rows: RowIndex | None) -> pa.Array:
        residue, cuts = self.raw(RECORD, rows), self.raw(CUTS, rows)
        if cuts.null_count == len(cuts):
            return residue
        try:
            return stitch(residue, cuts, self.payloads())
        except GoneError:
            raise
        except DamageError as error:
            lost = rows_without(cuts, self.payloads)
            if not len(lost):
                raise
            places = lost if rows is None else np.asarray(rows, np.int64)[lost]
            raise of_records(error, places.tolist()) from error

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Give what was made before under this key, or make it."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def _unpacked_numbers(self, name: str) -> tuple[Numbers, Bools | None]:
        array = self.raw(name)
        if not is_number(array.type) and not pa.types.is_boolean(array.type):
            raise TypeError(f"column {name} holds {array.type}, no numbers")
        return number_view(array)

    def _unpacked_codes(self, name: str) -> tuple[Int32s, pa.Array] | None:
        array = self._hot().get(name)
        if array is None and not self._has_cold(name):
            raise KeyError(self._lacks(name))
        if array is None or not pa.types.is_dictionary(array.type):
            return None
        return code_view(array), array.dictionary

    def _postings_of_parts(self) -> Postings:
        """Make the postings from the parts table."""
        order = self.time_order()
        rank = None if order is None else inverse(order)
        return self.parts_table().postings(len(self.vector_keys()), rank)

    def _lacks(self, name: str) -> str:
        return f"part {self._id} has no column {name}"


def inverse(order: RowIndex) -> RowIndex:
    """Give the place of each row in an order of all rows."""
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    return place
