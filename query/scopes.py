"""What names mean in a stage: stored fields, the columns that `fields` chose, or a table of statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from treering.storage.errors import QueryError

from .aliases import fold_name
from .ast import Name
from .bound import BOutput, Column
from .levels import fold


class Scope(Protocol):
    """What names mean in a stage."""

    def resolve(self, name: Name) -> Column:
        """Give the column of a name, or raise QueryError."""
        ...

    def below(self, column: Column) -> tuple[str, ...]:
        """Physical columns of the paths below a column."""
        ...


class TableScope:
    """Names of a stage after statistics: the columns of their table, by name with their type."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
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
        return Column(found, (found,), self._columns[found])

    def below(self, column: Column) -> tuple[str, ...]:
        """Nothing is nested in a table of statistics."""
        return ()


class OutputScope:
    """Names after `fields`: the chosen ones, by the names they were given."""

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
