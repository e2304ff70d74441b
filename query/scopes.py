"""What names mean in a stage: stored fields, the columns that `fields` chose, or a table of statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from treering.storage.errors import QueryError

from .aliases import fold_name
from .ast import Name, Query
from .bound import BoundQuery, BOutput, Column
from .levels import fold
from .pieces import pieces_of
from .walk import has_phrase, uses_meaning


class Scope(Protocol):
    """What names mean in a stage."""

    def resolve(self, name: Name) -> Column:
        """Give the column of a name, or raise QueryError."""
        ...

    def below(self, column: Column) -> tuple[str, ...]:
        """Physical columns of the paths below a column."""
        ...


class TableScope:
    """Names of a stage after statistics: the columns of their table by name."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self.has_time = "ts" in columns and columns["ts"].type == "ts"
        self._by_fold = {fold(name): name for name in columns}
        self._by_target = {fold_name(name): name for name in columns}

    def resolve(self, name: Name) -> Column:
        """Give the column of the table. Raises QueryError that lists the columns."""
        found = name.text if name.text in self._columns else None
        if found is None and not name.quoted:
            found = self._by_fold.get(fold(name.text)) or self._by_target.get(fold_name(name.text))
        if found is None:
            have = ", ".join(self._columns)
            raise QueryError(
                f"no column {name.text} in the statistics ({have}): filter events before the pipe",
                position=name.position,
            )
        return self._columns[found]

    def below(self, column: Column) -> tuple[str, ...]:
        """Nothing is nested in a table of statistics."""
        return ()


def table_columns(stage: BoundQuery) -> dict[str, Column]:
    """Columns of a table that a stage gives: its statistics, or what `fields` chose of an earlier table."""
    if not stage.stats:
        return {o.name: _in_pieces(o.name, o.column.type) for o in stage.fields}
    columns = {"ts": Column("ts", ("ts",), "ts")} if stage.every_ns is not None else {}
    columns |= {column.name: _in_pieces(column.name, column.type) for column in stage.by}
    for stat in stage.stats:
        same = stat.fn in ("min", "max") and stat.column is not None
        of_type = stat.column.type if same and stat.column is not None else "number"
        whole = Column(stat.name, (stat.name,), of_type)
        columns[stat.name] = _in_pieces(stat.name, of_type) if same else whole
    return columns


def _in_pieces(name: str, type_: str) -> Column:
    """A column that may hold several kinds, unless its type is of one alone."""
    return Column(name, (name,) if type_ in ("ts", "bool", "text", "none") else pieces_of(name), type_)


def check_table(query: Query, table: TableScope) -> None:
    """Refuse what only events have. Raises QueryError."""
    if uses_meaning(replace(query, then=None)):
        raise QueryError(
            "a table of statistics has no meaning to compare: put `~` and `like` before the pipe"
        )
    if has_phrase(query.where):
        raise QueryError('a table of statistics has no message to search: write FIELD has "text"')
    if table.has_time:
        return
    if query.time is not None:
        raise QueryError("a table of statistics without `every` has no time: put the time before the pipe")
    if query.every is not None:
        raise QueryError("a table of statistics without `every` has no time to count by")


class OutputScope:
    """Names of events after `fields`: the chosen ones, by the names they were given."""

    def __init__(self, outputs: tuple[BOutput, ...], below: Scope) -> None:
        self._outputs = outputs
        self._below = below

    def resolve(self, name: Name) -> Column:
        """Give the column behind an output. Raises QueryError that lists them."""
        for output in self._outputs:
            if name.text == output.name:
                return replace(output.column, name=output.name)
        folded = [o for o in self._outputs if fold_name(o.name) == fold_name(name.text)]
        if len(folded) == 1 and not name.quoted:
            return replace(folded[0].column, name=folded[0].name)
        have = ", ".join(output.name for output in self._outputs)
        raise QueryError(f"no column {name.text} behind `fields` ({have})", position=name.position)

    def below(self, column: Column) -> tuple[str, ...]:
        """Physical columns of the paths below a column."""
        return self._below.below(column)
