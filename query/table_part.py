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
from treering.storage.signature import N_VALUES
from treering.storage.tree import Tree
from treering.storage.vectors import empty_table

from .bound import Column
from .pieces import piece_name

LEVEL_NAMES = pa.array(["", *LEVELS])
"""Name by stored code of a severity."""


class TablePart:
    """An aggregate as a `Part`: columns by output name, no index, no vectors; seq is the row number.

    outputs: the physical columns behind each name, where a column of several types has one for each. Times of
    the column `ts` are the event times where it holds times (bucket starts), else all are zero.
    """

    def __init__(
        self, table: pa.Table, kinds: Mapping[str, str], outputs: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._columns = {name: _flat(table.column(name)) for name in table.column_names}
        self._kinds = dict(kinds)
        self._outputs = {n: (n,) for n in self._columns} if outputs is None else dict(outputs)
        self.id = "table"
        self.n_rows: int = table.num_rows
        self.pending = 0
        self.signals_pending = False
        self.is_stored = False
        self.seq: Int64s = np.arange(self.n_rows, dtype=np.int64)
        self.ts: Int64s = self._times()
        self.t_min = int(self.ts.min()) if self.n_rows else 0
        self.t_max = int(self.ts.max()) if self.n_rows else 0
        self.fields: Mapping[str, FieldStats] = {
            name: FieldStats(len(a) - a.null_count)
            for name, a in self._columns.items()
            if a.null_count < len(a)
        }
        self.partitions: Mapping[str, tuple[str, ...] | None] = {}
        self.slices: Sequence[Slice] = (Slice(NO_SHARD, 0, self.n_rows),)

    def _times(self) -> Int64s:
        if self._kinds.get("ts") != "ts":
            return np.zeros(self.n_rows, np.int64)
        return np.asarray(self._columns["ts"].cast(pa.int64()).fill_null(0), np.int64)

    @property
    def names(self) -> list[str]:
        """Output names, in order."""
        return list(self._outputs)

    def column_of(self, name: str) -> Column:
        """The column of an output name."""
        physical = tuple(self._outputs[name])
        return Column(name, physical, self.kind(name) if physical == (name,) else "mixed")

    def take(self, rows: npt.NDArray[np.intp] | slice) -> TablePart:
        """The table with these rows only, in that order."""
        table = pa.table(self._columns)
        taken = (
            table.slice(rows.start, rows.stop - rows.start)
            if isinstance(rows, slice)
            else table.take(pa.array(rows))
        )
        return TablePart(taken, self._kinds, self._outputs)

    def chosen(self, outputs: Mapping[str, Column]) -> TablePart:
        """The table with these columns of it under new names; one that it lacks is null."""
        columns: dict[str, pa.Array] = {}
        kinds: dict[str, str] = {}
        names: dict[str, list[str]] = {}
        for name, column in outputs.items():
            known = next((n for n in (column.name, *column.physical) if n in self._outputs), None)
            held = () if known is None else self._outputs[known]
            names[name] = [name if p == known else piece_name(name, self._kinds[p]) for p in held] or [name]
            kinds |= dict(zip(names[name], (self.kind(p) for p in held), strict=False))
            columns |= dict(zip(names[name], (self._columns[p] for p in held), strict=False))
            columns.setdefault(names[name][0], pa.nulls(self.n_rows))
        return TablePart(pa.table(columns), kinds, names)

    def shown(self, name: str) -> pa.Array:
        """A physical column as it is shown: severities by name."""
        array = self._columns[name]
        return LEVEL_NAMES.take(array) if self._kinds.get(name) == "level" else array

    def kind(self, name: str) -> str:
        """What a physical column holds (see `kinds.kind_of`)."""
        return self._kinds.get(name, {"ts": "ts", "seq": "int"}.get(name, "text"))

    def may_hold(self, name: str, value: str) -> bool:
        """Nothing is known of values."""
        return True

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
            signature=np.full((1, N_VALUES), np.nan, np.float32),
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
        return empty_table(np.empty(0, KEY), 64, 0, 136)

    @property
    def n_vectors(self) -> int:
        """No vectors."""
        return 0

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
