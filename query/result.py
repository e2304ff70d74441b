"""The answer of a query: rows as dicts, Arrow, pandas or polars; its plan and its account."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from treering.storage.batch import Int64s
from treering.storage.errors import ConfigError

from .bound import BOutput, Column
from .columns_out import Columns
from .field_values import arrow_values, python_values
from .originals import Record, json_safe, originals, spelt
from .plan import Plan
from .rows import Rows
from .table_part import TablePart
from .times_out import format_times

CHUNK_ROWS = 2048
"""Rows turned into dicts at a time, so that a long answer never lies in memory as Python objects."""

HTML_ROWS, HTML_CHARS = 20, 200
"""Rows and characters a cell that a notebook shows."""

SCORE = "_score"
"""Name of the meaning score in an answer."""


@dataclass(slots=True)
class Result:
    """The rows of an answer, read from the store when they are asked for.

    plan: how it was found. meta: `n_returned` rows here; `n_matched` rows (or groups) that satisfied the
    query before limit and offset, None where the search stopped before it could know; `exact`; `complete` and
    `pending` (texts in reach without a vector yet); `hints`.

    A row is a dict that strict JSON can hold: `ts`, then the original fields, then what the query names, then
    `_score`; or the fields that the query asks for, or groups and statistics.
    """

    source: Rows | TablePart
    plan: Plan
    meta: dict[str, Any]
    outputs: Sequence[BOutput] = ()
    shown: Sequence[Column] = ()
    zone: str = "UTC"
    _kept: list[Any] = field(default_factory=list)
    _columns: list[str] | None = None

    def keep_alive(self, *owners: Any) -> None:
        """Hold on to what the rows are read from, for as long as this answer lives."""
        self._kept.extend(owners)

    def __len__(self) -> int:
        return self.source.n_rows if isinstance(self.source, TablePart) else len(self.source)

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), CHUNK_ROWS):
            yield from self._chunk(start, min(start + CHUNK_ROWS, len(self)))

    def times_ns(self) -> Int64s:
        """Event times of the rows (starts of buckets), int64 nanoseconds since 1970 UTC."""
        return self.source.ts

    def to_list(self) -> list[Record]:
        """All rows as dicts."""
        return list(self)

    @property
    def columns(self) -> list[str]:
        """Every name that a row has, in order of first appearance; reads the records once."""
        if self._columns is None:
            self._columns = self._names()
        return list(self._columns)

    def to_arrow(self) -> pa.Table:
        """All rows as a table with typed columns; `ts` is a UTC timestamp in nanoseconds.

        Original fields that hold one type keep it; fields of several types and nested ones are JSON text.
        """
        if isinstance(self.source, TablePart):
            return pa.table({name: _table_column(self.source, name) for name in self.source.names})
        if self.outputs:
            return pa.table([arrow_values(self.source, o.column) for o in self.outputs], self.columns)
        return self._record_table(self.source)

    def to_pandas(self) -> Any:
        """All rows as a pandas frame. Raises ConfigError when pandas is not installed."""
        try:
            import pandas  # noqa: F401 - pyarrow needs it and says so less clearly
        except ImportError:
            raise ConfigError("to_pandas needs pandas: pip install 'treering[pandas]'") from None
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars frame. Raises ConfigError when polars is not installed."""
        try:
            import polars
        except ImportError:
            raise ConfigError("to_polars needs polars: pip install 'treering[polars]'") from None
        return polars.from_arrow(self.to_arrow())

    def __repr__(self) -> str:
        return f"<Result: {len(self):,} rows, {'exact' if self.plan.exact else 'approximate'}>"

    def _repr_html_(self) -> str:
        rows = self._chunk(0, min(HTML_ROWS, len(self)))
        names = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(row.get(n))}</td>" for n in names) + "</tr>" for row in rows
        )
        note = html.escape(f"{len(rows):,} of {len(self):,} rows; {self.plan.lines[0]}")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{note}</p>"

    # -- inside ---------------------------------------------------------------------------------------------

    def _chunk(self, start: int, stop: int) -> list[Record]:
        if isinstance(self.source, TablePart):
            return self._table_rows(self.source, start, stop)
        rows = self.source.take(slice(start, stop))
        return self._selected(rows) if self.outputs else self._records(rows)

    def _table_rows(self, part: TablePart, start: int, stop: int) -> list[Record]:
        rows = Rows.of_part(part.take(slice(start, stop)))
        columns = {}
        for name in part.names:
            column = part.column_of(name)
            is_time = column.type == "ts"
            found = self._times(rows, column) if is_time else map(spelt, python_values(rows, column))
            columns[name] = list(found)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _selected(self, rows: Rows) -> list[Record]:
        columns = [self._values(rows, output.column) for output in self.outputs]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def _values(self, rows: Rows, column: Column, *, finite: bool = True) -> list[Any]:
        """Values of a field, safe for JSON (with finite=False but for NaN and infinities)."""
        if column.type == "ts":
            return self._times(rows, column)
        return [json_safe(value, finite=finite) for value in python_values(rows, column)]

    def _times(self, rows: Rows, column: Column) -> list[str | None]:
        found = python_values(rows, column)
        texts = iter(format_times(np.array([t for t in found if t is not None], np.int64), self.zone))
        return [None if t is None else next(texts) for t in found]

    def _records(self, rows: Rows, *, finite: bool = True) -> list[Record]:
        """ts, original fields, named fields that are not among them, score."""
        out = []
        for ts, record in zip(format_times(rows.ts, self.zone), originals(rows, finite=finite), strict=True):
            record.pop("ts", None)
            out.append({"ts": ts, **record})
        for column in self.shown:
            for record, value in zip(out, self._values(rows, column, finite=finite), strict=True):
                if not _names_value(record, column.name):
                    record[column.name] = value
        if rows.score is not None:
            for record, score in zip(out, _scores(rows), strict=True):
                record[SCORE] = score
        return out

    def _record_table(self, rows: Rows) -> pa.Table:
        columns = Columns()
        for start in range(0, len(self), CHUNK_ROWS):
            columns.add(self._records(rows.take(slice(start, start + CHUNK_ROWS)), finite=False))
        table = columns.table()
        typed = {"ts": pa.array(rows.ts).cast(pa.timestamp("ns", "UTC"))}
        if rows.score is not None:
            typed[SCORE] = pa.array(rows.score)
        for name, array in typed.items():
            at = table.column_names.index(name) if name in table.column_names else None
            table = table.append_column(name, array) if at is None else table.set_column(at, name, array)
        return table

    def _names(self) -> list[str]:
        if isinstance(self.source, TablePart):
            return list(self.source.names)
        if self.outputs:
            return [output.name for output in self.outputs]
        names: dict[str, None] = {"ts": None}
        late = [c.name for c in self.shown] + [SCORE]
        for row in self:
            names.update(dict.fromkeys(row))
        ends = [name for name in late if name in names]
        return [name for name in names if name not in ends] + ends


def _table_column(part: TablePart, name: str) -> pa.Array:
    """A column of a table of statistics; several types become text, as in `arrow_values`."""
    column = part.column_of(name)
    if column.physical == (name,):
        return part.shown(name)
    return arrow_values(Rows.of_part(part), column)


def _scores(rows: Rows) -> list[float | None]:
    """Scores to six digits, which is more than they mean; None without meaning."""
    if rows.score is None:
        return [None] * len(rows)
    return [round(score, 6) for score in rows.score.tolist()]


def _names_value(record: Record, name: str) -> bool:
    """Whether a row already shows a field, as a key or as a dotted path into nested ones."""
    if name in record:
        return True
    for i, char in enumerate(name):
        inner = record.get(name[:i]) if char == "." else None
        if isinstance(inner, dict) and _names_value(inner, name[i + 1 :]):
            return True
    return False


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return html.escape(text if len(text) <= HTML_CHARS else text[: HTML_CHARS - 1] + "…")
