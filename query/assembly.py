"""The elements of a stage put together: which conditions belong together, and each clause once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from treering.storage.errors import QueryError

from .ast import Between, Cond, Near, Query, Time
from .logic import all_of, any_of
from .pipeline import Positions

LABELS = {"stats": "the list of statistics", "sort": "sort by", "top": "top or bottom"}
"""How an error names a clause whose kind is no word of the language."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a stage that is no condition."""

    kind: str
    value: Any
    position: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """`~ "text"` without threshold, still to be placed."""

    near: Near
    position: int


@dataclass(frozen=True, slots=True)
class Joined:
    """An element with the word before it: `and`, `or` or `where`."""

    word: str
    item: Any
    position: int


Rows = list[list[list[Any]]]
"""Conditions of a stage: all of the runs, any of a run's rows, all of a row's items."""


@dataclass(slots=True)
class _Draft:
    """A stage while it is read."""

    parts: dict[str, Any] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)


def assemble(items: Sequence[Any]) -> tuple[Query, Positions]:
    """Give a stage of its elements, and where its clauses stand. Raises QueryError for doubles."""
    draft = _Draft()
    for item in items:
        clause = item.item if isinstance(item, Joined) else item
        if isinstance(clause, Clause):
            _add(draft, clause)
    conditions = [condition for run in rows_of(items) for condition in _run(run, draft)]
    if conditions:
        draft.parts["where"] = all_of(conditions)
    return Query(**draft.parts), draft.positions


def rows_of(items: Iterable[Any]) -> Rows:
    """Group a row of elements: `and` binds closest, then `or`; neighbours and clauses part them."""
    runs: Rows = []
    is_open = False
    for item in items:
        word, element = (item.word, item.item) if isinstance(item, Joined) else ("", item)
        is_condition = not isinstance(element, Clause)
        if word == "or" and not is_open:
            raise QueryError("`or` needs a condition on both sides", position=item.position)
        if not is_condition:
            is_open = False
        elif word == "or":
            runs[-1].append([element])
        elif word == "and" and is_open:
            runs[-1][-1].append(element)
        else:
            runs.append([[element]])
            is_open = True
    return runs


def _run(run: list[list[Any]], draft: _Draft) -> list[Cond]:
    """Conditions of one run; a ranked `~` that all of them are joined to goes to the draft."""
    if len(run) > 1:
        return [any_of(all_of(map(as_filter, row)) for row in run)]
    for item in run[0]:
        if isinstance(item, Ranked):
            _once(draft, "near", item.position)
            draft.parts["near"] = item.near
    return [item for item in run[0] if not isinstance(item, Ranked)]


def as_filter(item: Any) -> Cond:
    """Give a condition as it is. Raises QueryError for a ranked `~`, which only a stage can hold."""
    if isinstance(item, Ranked):
        raise QueryError(
            '`~` inside `or`, `not` or brackets needs a threshold: `~ "text" > 0.6`', position=item.position
        )
    condition: Cond = item
    return condition


def _once(draft: _Draft, kind: str, position: int) -> None:
    if kind == "near" and kind in draft.positions:
        raise QueryError(
            'a second `~` that ranks: give one of them a threshold, `~ "text" > 0.6`', position=position
        )
    if kind in draft.positions:
        raise QueryError(
            f"{LABELS.get(kind, kind)} is given twice: leave one out, or put a pipe between",
            position=position,
        )
    draft.positions[kind] = position


def _add(draft: _Draft, clause: Clause) -> None:
    """Put a clause into the stage."""
    kind, value, parts = clause.kind, clause.value, draft.parts
    if kind == "everything":
        return
    if kind == "exact":
        parts["exact"] = True
        return
    if kind == "time" and "time" in parts:
        _twice(clause)
    _once(draft, kind, clause.position)
    if kind in ("since", "until"):
        parts["time"] = _open_range(parts.get("time"), clause)
    elif kind == "top":
        parts["top"], parts["rank"] = value
    elif kind == "limit":
        parts["limit"], parts["unlimited"] = value, value is None
    elif kind == "stats":
        parts["stats"], parts["by"], parts["every"] = value
    else:
        parts[kind] = value


def _open_range(time: Time | None, clause: Clause) -> Between:
    """Put `since` and `until` together; a whole range beside them is one time too many."""
    if time is None:
        time = Between(None, None)
    if clause.kind == "since" and isinstance(time, Between) and time.start is None:
        return Between(clause.value, time.end)
    if clause.kind == "until" and isinstance(time, Between) and time.end is None:
        return Between(time.start, clause.value)
    _twice(clause)


def _twice(clause: Clause) -> NoReturn:
    raise QueryError("the time is given twice: leave one out", position=clause.position)
