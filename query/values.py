"""Literals and parameters against the types of columns: what a comparison means, and what never matches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from treering.indexer.levels import code_of_word
from treering.indexer.whole_numbers import is_whole
from treering.storage.errors import QueryError

from .ast import Param, Scalar, Value
from .bound import BCompare, BCond, BIn, BOr, Column
from .literals import check_whole, write_number
from .names import type_of
from .pieces import severity_codes, type_of_piece
from .times import epoch_ns, is_time

TimeOf = Any
"""Callable that reads a written time in the query's zone to nanoseconds."""

_WORD = {
    "number": "numbers",
    "bool": "true or false",
    "text": "text",
    "level": "severities",
    "list": "lists",
    "ts": "times",
}


class Params:
    """The values given beside the query, each checked where it is used."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = dict(given)
        self.used: set[str] = set()

    def raw(self, param: Param) -> Any:
        """Give a parameter as it came. Raises QueryError that names a missing one."""
        if param.name not in self._given:
            known = ", ".join(f"${name}" for name in self._given) or "none"
            raise QueryError(f"no value was given for ${param.name} (given: {known})")
        self.used.add(param.name)
        return self._given[param.name]

    def scalar(self, value: Value) -> Scalar:
        """Give a literal, or the parameter that stands for one."""
        return _scalar(self.raw(value), value.name) if isinstance(value, Param) else value

    def scalars(self, values: Iterable[Value]) -> tuple[Scalar, ...]:
        """The same for a list; a parameter may hold several values."""
        found: list[Scalar] = []
        for value in values:
            given = self.raw(value) if isinstance(value, Param) else value
            if (
                isinstance(value, Param)
                and not isinstance(given, (str, bytes))
                and isinstance(given, Iterable)
            ):
                found += [_scalar(item, value.name) for item in given]
            else:
                found.append(self.scalar(value))
        return tuple(found)

    def unused(self) -> list[str]:
        """Names of parameters that the query does not mention."""
        return [name for name in self._given if name not in self.used]


def given_params(params: Any) -> dict[str, Any]:
    """Give the values beside a query by name. Raises QueryError for anything but a mapping of names."""
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise QueryError(f"params is {params!r:.60}, expected a dict such as {{'name': value}}")
    return dict(params)


def _scalar(given: Any, name: str) -> Scalar:
    """Give a parameter's value as a literal; numpy scalars and datetimes count as what they hold."""
    if hasattr(given, "item") and getattr(given, "ndim", 1) == 0:
        given = given.item()
    if isinstance(given, (datetime, date)):
        return given.isoformat()
    if isinstance(given, float) and not math.isfinite(given):
        raise QueryError(f"${name} is {given}: no comparison holds for it")
    if is_whole(given):
        return check_whole(given, f"${name} is a number")
    if isinstance(given, (bool, float, str)):
        return given
    if given is None:
        raise QueryError(f"${name} is None: ask with `missing` or `exists`")
    raise QueryError(f"${name} is a {type(given).__name__}: a comparison takes text, a number, true or false")


def bind_compare(column: Column, op: str, value: Scalar, time_of: TimeOf, hints: list[str]) -> BCond:
    """Give the comparison as the column's type has it: severities by code, times by nanoseconds."""
    if column.type == "level":
        return _level(column, op, value, hints)
    if column.type == "ts":
        return BCompare(column, op, _time(value, time_of))
    _check_type(column, op, (value,), hints)
    return BCompare(column, op, value)


def bind_in(column: Column, values: tuple[Scalar, ...], time_of: TimeOf, hints: list[str]) -> BCond:
    """Give `in (...)` as the column's type has it."""
    if column.type == "level":
        items = tuple(_level(column, "=", value, hints) for value in values)
        return items[0] if len(items) == 1 else BOr(items)
    if column.type == "ts":
        return BIn(column, tuple(_time(value, time_of) for value in values))
    _check_type(column, "=", values, hints)
    return BIn(column, values)


def _level(column: Column, op: str, value: Scalar, hints: list[str]) -> BCond:
    """A severity word compares by order; other words and numbers with what came in the record."""
    code = code_of_word(value) if isinstance(value, str) else 0
    if code:
        return BCompare(replace(column, physical=severity_codes(column)), op, code)
    wanted = "text" if isinstance(value, str) else "number"
    originals = tuple(p for p in column.physical if (type_of_piece(p) or type_of(p)) == wanted)
    if not originals or (wanted == "text" and op != "="):
        hints.append(
            f"{column.name} holds severities: compare it with trace, debug, info, warn, error or fatal, "
            f"not {_spell(value)}"
        )
    return BCompare(Column(column.name, originals, wanted if originals else "none"), op, value)


def _time(value: Scalar, time_of: TimeOf) -> int:
    if isinstance(value, bool):
        raise QueryError(
            "a time is compared with a time such as 2026-05-01T06:00:00Z, not with true or false"
        )
    ns: int = time_of(value) if isinstance(value, str) else epoch_ns(value)
    return ns


def _check_type(column: Column, op: str, values: tuple[Scalar, ...], hints: list[str]) -> None:
    """Say when no value of the column can match."""
    if column.type not in ("number", "text", "bool"):
        return
    odd = [value for value in values if literal_type(value) != column.type]
    if not odd or len(odd) < len(values):
        return
    value = odd[0]
    advice = {
        "text": "put the value in quotes",
        "number": "leave the quotes out",
        "bool": "compare with true or false",
    }
    fits = not (column.type == "number" and (not isinstance(value, str) or is_time(value)))
    tail = f": {advice[column.type]}" if fits else ""
    hints.append(
        f"{column.name} holds {_WORD[column.type]}, so that {column.name} {op} {_spell(value)} "
        f"matches nothing{tail}"
    )


def literal_type(value: Scalar) -> str:
    """Type of a literal as columns call it."""
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def _spell(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else write_number(value)
