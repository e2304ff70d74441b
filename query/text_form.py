"""The abstract query back to text that reads as the same query."""

from __future__ import annotations

from collections.abc import Iterator

from .ast import (
    And,
    Between,
    Compare,
    Cond,
    Exists,
    Has,
    In,
    Last,
    Matches,
    Near,
    Not,
    On,
    Or,
    Phrase,
    Query,
    Similar,
    Sort,
    Stat,
    Time,
    Value,
)
from .literals import write_name, write_pattern, write_string, write_value
from .times import is_plain_time


def to_text(query: Query) -> str:
    """Give the text form; `parse` reads it back to an equal query. The empty query is `*`."""
    stages = []
    stage: Query | None = query
    while stage is not None:
        stages.append(" ".join(_stage(stage)) or "*")
        stage = stage.then
    return " | ".join(stages)


def _stage(query: Query) -> Iterator[str]:
    if query.time is not None:
        yield _time(query.time)
    if query.where is not None:
        yield write_condition(query.where)
    if query.near is not None:
        yield write_near(query.near)
    if query.like is not None:
        yield f"like {write_name(query.like.field)}:{_anchor(query.like.value)}"
    yield from _order(query)
    yield from _statistics(query)
    if query.fields:
        outputs = [_named(write_name(o.field), o.name) for o in query.fields]
        yield "fields " + ", ".join(outputs)
    if query.exact:
        yield "exact"
    if query.tz is not None:
        yield "tz " + write_string(query.tz)


def _order(query: Query) -> Iterator[str]:
    if query.top is not None:
        verb = "top" if query.rank is None or query.rank.descending else "bottom"
        yield f"{verb} {query.top}" + (f" by {write_name(query.rank.field)}" if query.rank else "")
    if query.sort:
        yield "sort by " + ", ".join(map(_sort_key, query.sort))
    if query.unlimited:
        yield "limit all"
    if query.limit is not None:
        yield f"limit {query.limit}"
    if query.offset:
        yield f"offset {query.offset}"


def _statistics(query: Query) -> Iterator[str]:
    if query.stats:
        yield ", ".join(map(write_stat, query.stats))
    if query.by:
        yield "by " + ", ".join(map(write_name, query.by))
    if query.every is not None:
        yield f"every {query.every}"


def write_stat(stat: Stat) -> str:
    """Spell a statistic, with `as` where it has a name of its own."""
    call = stat.fn if stat.field is None else f"{stat.fn}({write_name(stat.field)})"
    plain = stat.fn if stat.field is None else f"{stat.fn}({stat.field.text})"
    return _named(call, None if stat.name == plain else stat.name)


def write_near(near: Near) -> str:
    """Spell a ranked meaning."""
    field = write_name(near.field, before_tilde=True) + " " if near.field is not None else ""
    return f"{field}~ {write_value(near.text)}"


def write_condition(cond: Cond) -> str:
    """Spell a condition; what binds looser than `and` inside it stands in brackets."""
    match cond:
        case And():
            return " and ".join(_inner(item) for item in cond.items)
        case Or():
            return " or ".join(
                f"({write_condition(i)})" if isinstance(i, And) else _inner(i) for i in cond.items
            )
        case Not():
            return _negated(cond.item)
        case Compare():
            return f"{write_name(cond.field)} {cond.op} {write_value(cond.value)}"
        case In():
            return f"{write_name(cond.field)} in {_values(cond)}"
        case Exists():
            return f"{write_name(cond.field)} exists"
        case Phrase():
            return write_value(cond.text)
        case Has():
            return f"{write_name(cond.field)} has {write_value(cond.text)}"
        case Matches():
            return f"{write_name(cond.field)} =~ {write_pattern(cond.pattern)}"
        case Similar():
            near = write_near(Near(cond.text, cond.field))
            return f"{near} {cond.op} {write_value(cond.threshold)}"


def _inner(cond: Cond) -> str:
    return f"({write_condition(cond)})" if isinstance(cond, Or) else write_condition(cond)


def _negated(cond: Cond) -> str:
    match cond:
        case Compare() if cond.op == "=":
            return f"{write_name(cond.field)} != {write_value(cond.value)}"
        case In():
            return f"{write_name(cond.field)} not in {_values(cond)}"
        case Exists():
            return f"{write_name(cond.field)} missing"
        case Matches():
            return f"{write_name(cond.field)} !~ {write_pattern(cond.pattern)}"
    return f"not ({write_condition(cond)})"


def _values(cond: In) -> str:
    return "(" + ", ".join(map(write_value, cond.values)) + ")"


def _time(time: Time) -> str:
    match time:
        case Last():
            return f"last {time.text}"
        case On():
            return time.day if time.day in ("today", "yesterday") else f"on {_moment(time.day)}"
        case Between():
            if time.start is not None and time.end is not None:
                return f"since {_moment(time.start)} until {_moment(time.end)}"
            return f"until {_moment(time.end)}" if time.start is None else f"since {_moment(time.start)}"


def _moment(text: str | None) -> str:
    written = text or ""
    return written if is_plain_time(written) else write_string(written)


def _anchor(value: Value) -> str:
    return write_value(value)


def _sort_key(key: Sort) -> str:
    return write_name(key.field) + (" desc" if key.descending else "")


def _named(text: str, name: str | None) -> str:
    if name is None:
        return text
    from .literals import make_name

    return f"{text} as {write_name(make_name(name))}"
