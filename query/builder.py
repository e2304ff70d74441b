"""The Python form of a query: `where(col("hallucination") > 0.3).near("reset").top(10, by="latency")`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Self

from treering.storage.errors import QueryError

from .ast import (
    And,
    Between,
    Compare,
    Cond,
    Exists,
    Has,
    In,
    Last,
    Like,
    Matches,
    Name,
    Near,
    Not,
    On,
    Or,
    Output,
    Param,
    Phrase,
    Query,
    Similar,
    Sort,
    Stat,
    Time,
    Value,
)
from .json_form import read_stat
from .json_values import read_name
from .literals import check_count, check_pattern, check_scalar
from .logic import all_of, any_of, conjuncts, negate
from .pipeline import pipeline
from .times import parse_duration, parse_zone

CONDITIONS = (Compare, In, Exists, Phrase, Has, Matches, Similar, Not, And, Or)


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition, put together with `&`, `|` and `~`."""

    cond: Cond

    def __and__(self, other: Expression) -> Expression:
        return Expression(all_of((self.cond, _cond(other))))

    def __or__(self, other: Expression) -> Expression:
        return Expression(any_of((self.cond, _cond(other))))

    def __invert__(self) -> Expression:
        return Expression(negate(self.cond))

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition is neither true nor false: put conditions together with & | ~, each in brackets"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Col:
    """A field in a condition."""

    name: Name

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        if other is None:
            return self.missing()
        return Expression(Compare(self.name, "=", _value(other)))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return ~(self == other)

    def __gt__(self, other: Any) -> Expression:
        return Expression(Compare(self.name, ">", _value(other)))

    def __ge__(self, other: Any) -> Expression:
        return Expression(Compare(self.name, ">=", _value(other)))

    def __lt__(self, other: Any) -> Expression:
        return Expression(Compare(self.name, "<", _value(other)))

    def __le__(self, other: Any) -> Expression:
        return Expression(Compare(self.name, "<=", _value(other)))

    def isin(self, values: Iterable[Any]) -> Expression:
        """The field has one of the values."""
        given = tuple(_value(value) for value in values)
        if not given:
            raise QueryError(f"isin of {self.name.text} has no values: give at least one")
        return Expression(In(self.name, given))

    def has(self, text: Any) -> Expression:
        """The text contains `text`, or the list holds it."""
        return Expression(Has(self.name, _value(text)))

    def matches(self, pattern: str) -> Expression:
        """The regular expression is found in the text."""
        return Expression(Matches(self.name, check_pattern(pattern)))

    def exists(self) -> Expression:
        """The field holds a value."""
        return Expression(Exists(self.name))

    def missing(self) -> Expression:
        """The field holds no value."""
        return Expression(Not(Exists(self.name)))

    def near(self, text: str | Param) -> Meaning:
        """Likeness of the field's text to `text`, to be compared with a threshold."""
        return Meaning(text, self.name)


@dataclass(frozen=True, slots=True)
class Meaning:
    """Likeness to a text, from -1 to 1: `near("connection reset") > 0.6`."""

    text: str | Param
    field: Name | None = None

    def __gt__(self, threshold: float | Param) -> Expression:
        return self._compared(">", threshold)

    def __ge__(self, threshold: float | Param) -> Expression:
        return self._compared(">=", threshold)

    def __lt__(self, threshold: float | Param) -> Expression:
        return self._compared("<", threshold)

    def __le__(self, threshold: float | Param) -> Expression:
        return self._compared("<=", threshold)

    def _compared(self, op: str, threshold: float | Param) -> Expression:
        value = _value(threshold)
        if isinstance(value, (str, bool)):
            raise QueryError(f"a threshold is a number, not {value!r}")
        return Expression(Similar(self.text, op, value, self.field))


def col(name: str) -> Col:
    """Give a field for conditions; backticks in the name take it exactly."""
    return Col(read_name(name))


def near(text: str | Param) -> Meaning:
    """Likeness of the event's best text to `text`, to be compared with a threshold."""
    return Meaning(text)


def phrase(text: str | Param) -> Expression:
    """The phrase is found in the message, prompt or response."""
    return Expression(Phrase(text))


def param(name: str) -> Param:
    """Give a value that comes with the run: `params={name: ...}`."""
    return Param(name)


def where(condition: Expression | None = None) -> Builder:
    """Start a query; without a condition it is every event."""
    return Builder() if condition is None else Builder().where(condition)


@dataclass(frozen=True, slots=True)
class Builder:
    """A query in the making; each method gives a new one, `query` the abstract query."""

    before: tuple[Query, ...] = ()
    stage: Query = field(default_factory=Query)

    @property
    def query(self) -> Query:
        """The abstract query. Raises QueryError where it contradicts itself."""
        return pipeline((stage, {}) for stage in (*self.before, self.stage))

    def where(self, condition: Expression) -> Self:
        """Keep only rows that meet the condition, too."""
        return self._with(where=all_of((*conjuncts(self.stage.where), _cond(condition))))

    def near(self, text: str | Param, *, field: str | None = None, min: float | None = None) -> Self:
        """Rank by meaning. min: keep only rows at least so near."""
        name = None if field is None else read_name(field)
        filtered = self if min is None else self.where(Meaning(text, name) >= min)
        return filtered._with(near=Near(text, name))

    def like(self, field: str, value: Any) -> Self:
        """Rank by likeness to the first event whose field has the value."""
        anchor = _value(value)
        if isinstance(anchor, (bool, float)):
            raise QueryError(f"like takes a text or a whole number, not {anchor!r}")
        return self._with(like=Like(read_name(field), anchor))

    def last(self, duration: str) -> Self:
        """The span before now, such as `1h`."""
        parse_duration(duration)
        return self._during(Last(duration))

    def since(self, start: Any) -> Self:
        """From a time on."""
        time = self.stage.time
        end = time.end if isinstance(time, Between) and time.start is None else None
        return (
            self._with(time=Between(_moment(start), end))
            if end
            else self._during(Between(_moment(start), None))
        )

    def until(self, end: Any) -> Self:
        """Before a time."""
        time = self.stage.time
        start = time.start if isinstance(time, Between) and time.end is None else None
        return (
            self._with(time=Between(start, _moment(end)))
            if start
            else self._during(Between(None, _moment(end)))
        )

    def between(self, start: Any, end: Any) -> Self:
        """In `[start, end)`."""
        return self._during(Between(_moment(start), _moment(end)))

    def on(self, day: str | date) -> Self:
        """On a whole day: a date, `today` or `yesterday`."""
        return self._during(On(day.isoformat() if isinstance(day, date) else day.lower()))

    def top(self, n: int = 10, *, by: str | None = None) -> Self:
        """The N rows with the largest value; without `by` the nearest in meaning."""
        rank = None if by is None else Sort(read_name(by), True)
        return self._with(top=check_count(n, "top"), rank=rank)

    def bottom(self, n: int = 10, *, by: str) -> Self:
        """The N rows with the smallest value."""
        return self._with(top=check_count(n, "bottom"), rank=Sort(read_name(by), False))

    def sort(self, *fields: str, descending: bool = False) -> Self:
        """Order by fields, in one direction for all; a field may end in ` asc` or ` desc`."""
        return self._with(sort=tuple(_sort_key(field, descending) for field in fields))

    def limit(self, n: int | None) -> Self:
        """At most N rows; None: all."""
        return self._with(limit=None if n is None else check_count(n, "limit"), unlimited=n is None)

    def offset(self, n: int) -> Self:
        """Leave out the first N rows."""
        return self._with(offset=check_count(n, "offset"))

    def stats(self, *stats: str, by: str | Iterable[str] = (), every: str | None = None) -> Self:
        """Statistics such as `count` or `p95(e2e_latency_s) as slow`, by fields and by spans of time."""
        names = (by,) if isinstance(by, str) else tuple(by)
        if every is not None:
            parse_duration(every)
        listed: tuple[Stat, ...] = tuple(read_stat(stat) for stat in stats)
        return self._with(stats=listed, by=tuple(read_name(name) for name in names), every=every)

    def count(self, *, by: str | Iterable[str] = (), every: str | None = None) -> Self:
        """The number of rows, by fields and by spans of time."""
        return self.stats("count", by=by, every=every)

    def fields(self, *fields: str, **named: str) -> Self:
        """Show these fields only; `name=field` shows a field under another name."""
        plain = tuple(Output(read_name(field)) for field in fields)
        return self._with(
            fields=plain + tuple(Output(read_name(field), name) for name, field in named.items())
        )

    def exact(self) -> Self:
        """Refuse approximate plans."""
        return self._with(exact=True)

    def tz(self, zone: str) -> Self:
        """Zone of days and of times without offset."""
        parse_zone(zone)
        return self._with(tz=zone)

    def pipe(self) -> Self:
        """What follows works on the rows so far."""
        return type(self)((*self.before, self.stage))

    def to_text(self) -> str:
        """The same query as text."""
        from .text_form import to_text

        return to_text(self.query)

    def __str__(self) -> str:
        return self.to_text()

    def _with(self, **parts: Any) -> Self:
        return replace(self, stage=replace(self.stage, **parts))

    def _during(self, time: Time) -> Self:
        if self.stage.time is not None:
            raise QueryError("the time is given twice: leave one out")
        return self._with(time=time)


def _cond(condition: object) -> Cond:
    if isinstance(condition, Expression):
        return condition.cond
    if isinstance(condition, CONDITIONS):
        return condition
    raise QueryError(f"{condition!r} is no condition: write col(name) > value")


def _value(value: Any) -> Value:
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return value if isinstance(value, Param) else check_scalar(value)


def _moment(time: Any) -> str:
    if isinstance(time, (datetime, date)):
        return time.isoformat()
    if isinstance(time, (str, int, float)) and not isinstance(time, bool):
        return str(time)
    raise QueryError(f"{time!r} is no time: give RFC 3339 text, an epoch number or a datetime")


def _sort_key(text: str, descending: bool) -> Sort:
    name, _, way = text.rpartition(" ")
    if name and way.lower() in ("asc", "desc"):
        return Sort(read_name(name), way.lower() == "desc")
    return Sort(read_name(text), descending)
