"""The abstract query: what text, JSON and Python forms all mean, before names are bound to stored fields."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

Scalar = int | float | str | bool
"""A literal: whole numbers of any size stay int."""


@dataclass(frozen=True, slots=True)
class Param:
    """A value given beside the query: `$name`."""

    name: str


Value = Scalar | Param


@dataclass(frozen=True, slots=True)
class Name:
    """A field as written. quoted: stood in backticks, so no alias and no `-`/`_` folding applies.

    position is the 0-based offset in the text, for carets; it does not take part in equality.
    """

    text: str
    quoted: bool = False
    position: int | None = dataclasses.field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """`field op value`; op is one of `= > >= < <=` (`!=` is Not of `=`)."""

    field: Name
    op: str
    value: Value
    position: int | None = dataclasses.field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """`field in (values)`."""

    field: Name
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """The field holds a value (`missing` is Not of this)."""

    field: Name


@dataclass(frozen=True, slots=True)
class Phrase:
    """Bare `"phrase"`: found, case-folded, in the event's message, prompt or response."""

    text: Value


@dataclass(frozen=True, slots=True)
class Has:
    """`field has text`: substring of a text, or an element of a list."""

    field: Name
    text: Value


@dataclass(frozen=True, slots=True)
class Matches:
    """`field =~ /pattern/` (`!~` is Not of this)."""

    field: Name
    pattern: str
    position: int | None = dataclasses.field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Similar:
    """`~ "text" > threshold` as a filter; field None: the event's best text."""

    text: Value
    op: str
    threshold: Value
    field: Name | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """Plain opposite."""

    item: Cond


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more."""

    items: tuple[Cond, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more."""

    items: tuple[Cond, ...]


Cond = Compare | In | Exists | Phrase | Has | Matches | Similar | Not | And | Or


@dataclass(frozen=True, slots=True)
class Last:
    """`last 1h`: the span before now. text keeps the spelling, e.g. `1h` or `1h30m`."""

    text: str


@dataclass(frozen=True, slots=True)
class Between:
    """Half-open `[start, end)`; either may be open. Times as written (`2026-05-01`, `2026-05-01T06:00`, ...)."""

    start: str | None
    end: str | None


@dataclass(frozen=True, slots=True)
class On:
    """A whole day: a date, `today` or `yesterday`, in the query's zone."""

    day: str


Time = Last | Between | On


@dataclass(frozen=True, slots=True)
class Near:
    """Ranked meaning: `~ "text"`; field None: the event's best text. A parameter may hold a vector."""

    text: Value
    field: Name | None = None


@dataclass(frozen=True, slots=True)
class Like:
    """`like FIELD:VALUE`: meaning of the first event whose field has that value; that event is left out."""

    field: Name
    value: Value


@dataclass(frozen=True, slots=True)
class Sort:
    """One sort key."""

    field: Name
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Stat:
    """`count`, `avg(f)`, ...; name is how the column is called (as written unless `as` names it)."""

    fn: str
    field: Name | None
    name: str


@dataclass(frozen=True, slots=True)
class Output:
    """One of `fields a, b as c`."""

    field: Name
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One stage of a query. `then` is the stage after `|` that works on this stage's answer.

    top: N of `top N` / `bottom N`; rank: its field (None: by meaning); limit None: not given.
    """

    where: Cond | None = None
    time: Time | None = None
    near: Near | None = None
    like: Like | None = None
    top: int | None = None
    rank: Sort | None = None
    sort: tuple[Sort, ...] = ()
    limit: int | None = None
    unlimited: bool = False
    offset: int = 0
    stats: tuple[Stat, ...] = ()
    by: tuple[Name, ...] = ()
    every: str | None = None
    fields: tuple[Output, ...] = ()
    exact: bool = False
    tz: str | None = None
    then: Query | None = None


Params = dict[str, Any]
