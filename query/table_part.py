"""A table in memory as a part, so that a stage can follow an aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.storage.batch import KEY, Int32s, Int64s, Keys, TextParts
from treering.storage.part import NO_SHARD, FieldStats, Postings, Slice, VectorTable
from treering.storage.postings import PartsTable
from treering.storage.schema import LEVELS
from treering.storage.tree import Tree

LEVEL_NAMES = pa.array(["", *LEVELS])
"""Name by stored code of a severity."""


class TablePart:
    """An aggregate as a `Part`: columns by output name, no index, no vectors; seq is the row number.

    Times of the column `ts` (bucket starts) are the event times where there is one, else all are zero.
    """

    def __init__(self, table: pa.Table, kinds: Mapping[str, str]) -> None:
        self._columns = {name: _flat(table.column(name)) for name in table.column_names}
        self._kinds = dict(kinds)
        self.id = "table"
        self.n_rows: int = table.num_rows
        self.pending = 0
        self.signals_pending = False
        self.seq: Int64s = np.arange(self.n_rows, dtype=np.int64)
        self.ts: Int64s = self._times()
        self.t_min = int(self.ts.min()) if self.n_rows else 0
        self.t_max = int(self.ts.max()) if self.n_rows else 0
        self.fields: Mapping[str, FieldStats] = {
            name: FieldStats(len(a) - a.null_count)
            for name, a in self._columns.items()
            if a.null_count < len(a)
        }
        self.slices: Sequence[Slice] = (Slice(NO_SHARD, 0, self.n_rows),)

    def _times(self) -> Int64s:
        if "ts" not in self._columns:
            return np.zeros(self.n_rows, np.int64)
        return np.asarray(self._columns["ts"].cast(pa.int64()).fill_null(0), np.int64)

    @property
    def names(self) -> list[str]:
        """Output names, in order."""
        return list(self._columns)

    @property
    def kinds(self) -> Mapping[str, str]:
        """Kind of each column (see `kinds.kind_of`)."""
        return self._kinds

    def table(self) -> pa.Table:
        """The table as it is kept: severities by code."""
        return pa.table(self._columns)

    def shown(self) -> pa.Table:
        """The table as it is shown: severities by name."""
        return pa.table(
            {n: LEVEL_NAMES.take(a) if self._kinds.get(n) == "level" else a for n, a in self._columns.items()}
        )

    def kind(self, name: str) -> str:
        """What a column holds (see `kinds.kind_of`)."""
        return "ts" if name == "ts" else self._kinds.get(name, "int" if name == "seq" else "text")

    @property
    def tree(self) -> Tree:
        """One leaf with all rows, nothing summarised."""
        one = np.ones(1, np.int32)
        n_rows = np.full((1, 1), self.n_rows, np.int32)
        none = np.empty((1, 0))
        return Tree(
            level=np.zeros(1, np.uint8),
            cell=np.zeros(1, np.int64),
            t_min=np.array([self.t_min]),
            t_max=np.array([self.t_max]),
            count=n_rows[0],
            left=-one,
            right=-one,
            lo=np.zeros((1, 1), np.int32),
            hi=n_rows,
            signals=(),
            minimum=none,
            maximum=none,
            total=none,
            n=np.empty((1, 0), np.int32),
            levels=np.zeros((1, 7), np.int32),
            shards=n_rows,
            signature=np.full((1, 136), np.nan, np.float32),
        )

    def numbers(self, name: str) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_] | None]:
        """Values of a number or bool column and which rows have one."""
        if name in ("ts", "seq") and name not in self._columns:
            return (self.ts if name == "ts" else self.seq), None
        array = self._columns[name]
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())
        valid = None if not array.null_count else np.asarray(array.is_valid(), np.bool_)
        filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
        return filled.to_numpy(zero_copy_only=False), valid

    def codes(self, name: str) -> tuple[Int32s, pa.Array] | None:
        """No column is dictionary-encoded."""
        return None

    def column(self, name: str, rows: npt.NDArray[np.intp] | None = None) -> pa.Array:
        """A column, whole or at `rows`."""
        array = self._columns.get(name)
        if array is None:
            array = pa.array(self.ts if name == "ts" else self.seq)
        return array if rows is None else array.take(pa.array(rows))

    def vectors(self) -> VectorTable:
        """No vectors."""
        none32 = np.empty(0, np.float32)
        bytes_ = np.empty(0, np.uint8)
        return VectorTable(
            key=np.empty(0, KEY),
            have=np.empty(0, np.bool_),
            codes=np.empty((0, 64), np.int8),
            scale=none32,
            err=none32,
            exact=np.empty((0, 64), np.float16),
            heads=np.empty((0, 0), np.uint8),
            n_tokens=np.empty(0, np.uint16),
            head=bytes_,
            second=bytes_,
            qls=np.empty((0, 136), np.int8),
        )

    def vec_of_row(self) -> Int32s:
        """No row has a vector."""
        return np.full(self.n_rows, -1, np.int32)

    def postings(self) -> Postings:
        """Nothing is posted."""
        return Postings(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8))

    def parts(self) -> TextParts:
        """No embedded texts."""
        return TextParts.empty()

    def parts_table(self) -> PartsTable:
        """No embedded texts."""
        none = TextParts.empty()
        return PartsTable(none.row, none.field, none.chunk, np.empty(0, np.int32), none.primary)

    def template_of_row(self) -> Int32s:
        """No templates."""
        return np.full(self.n_rows, -1, np.int32)

    def template_keys(self) -> Keys:
        """No templates."""
        return np.empty(0, KEY)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
