# ruff: noqa: D102 - the methods of Clauses are the rules of the grammar, which says what each is
"""From tokens to the abstract query: one method a grammar rule, called by the parser from the leaves up."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

from lark import Token, Transformer

from treering.storage.errors import QueryError

from .assembly import Clause, Joined, Ranked, as_filter, assemble, rows_of
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
    Output,
    Param,
    Phrase,
    Query,
    Similar,
    Sort,
    Stat,
    Value,
)
from .levels import LEVEL_WORDS, is_level_field
from .literals import (
    check_pattern,
    is_keyword,
    read_backticks,
    read_count,
    read_number,
    read_pattern,
    read_string,
)
from .logic import all_of, any_of, negate
from .pipeline import Positions, pipeline
from .times import day_range, parse_duration, parse_time, parse_zone

FLIPPED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
MIN_ANCHOR = 8
"""Shortest bare value after `like FIELD:`; shorter ones are quoted."""

_WHOLE = re.compile(r"0|-?[1-9]\d*", re.ASCII)


class Clauses(Transformer[Token, Query]):
    """Callbacks of the grammar's rules; each gets the values of the rule's parts."""

    # ---- stages ----

    def start(self, stages: list[tuple[Query, Positions]]) -> Query:
        return pipeline(stages)

    def stage(self, items: Sequence[Any]) -> tuple[Query, Positions]:
        return assemble(items)

    def opened(self, items: Sequence[Any]) -> Joined:
        return Joined("where", items[1], items[0].start_pos)

    def joined(self, items: Sequence[Any]) -> Joined:
        return Joined("and", items[1], items[0].start_pos)

    def either(self, items: Sequence[Any]) -> Joined:
        return Joined("or", items[1], items[0].start_pos)

    group_joined = joined

    # ---- conditions ----

    def negation(self, items: Sequence[Any]) -> Cond:
        return negate(as_filter(items[1]))

    def group(self, items: Sequence[Any]) -> Cond:
        return all_of(any_of(all_of(map(as_filter, row)) for row in run) for run in rows_of(items))

    def compare(self, items: Sequence[Any]) -> Cond:
        name, op, value = items
        return Compare(name, "=" if op.type == "EQ" else str(op), _value(value, name), op.start_pos)

    def differ(self, items: Sequence[Any]) -> Cond:
        name, op, value = items
        return Not(Compare(name, "=", _value(value, name), op.start_pos))

    def bounded(self, items: Sequence[Any]) -> Cond:
        low, op, name = items
        return Compare(name, FLIPPED[op], _read(low), op.start_pos)

    def chained(self, items: Sequence[Any]) -> Cond:
        low, op, name, other, high = items
        if op[0] != other[0]:
            raise QueryError(
                "both signs of a chain must point the same way: 0.1 < x <= 0.3", position=other.start_pos
            )
        first = Compare(name, FLIPPED[op], _read(low), op.start_pos)
        return And((first, Compare(name, str(other), _read(high), other.start_pos)))

    def members(self, items: Sequence[Token]) -> Sequence[Token]:
        return items

    def member(self, items: Sequence[Any]) -> Cond:
        name, _, values = items
        return In(name, tuple(_value(v, name) for v in values))

    def not_member(self, items: Sequence[Any]) -> Cond:
        return Not(self.member(items))

    def exists(self, items: Sequence[Any]) -> Cond:
        return Exists(items[0])

    def missing(self, items: Sequence[Any]) -> Cond:
        return Not(Exists(items[0]))

    def has(self, items: Sequence[Any]) -> Cond:
        return Has(items[0], _value(items[2], items[0]))

    def matches(self, items: Sequence[Any]) -> Cond:
        name, op, pattern = items
        return Matches(name, pattern, op.start_pos)

    def not_matches(self, items: Sequence[Any]) -> Cond:
        return Not(self.matches(items))

    def phrase(self, items: Sequence[Any]) -> Cond:
        return Phrase(_read(items[0]))

    def ranked(self, items: Sequence[Any]) -> Ranked:
        return Ranked(Near(_read(items[1])), items[0].start_pos)

    def field_ranked(self, items: Sequence[Any]) -> Ranked:
        return Ranked(Near(_read(items[2]), items[0]), items[1].start_pos)

    def similar(self, items: Sequence[Any]) -> Cond:
        op, threshold = items[2]
        return Similar(_read(items[1]), op, threshold)

    def field_similar(self, items: Sequence[Any]) -> Cond:
        op, threshold = items[3]
        return Similar(_read(items[2]), op, threshold, items[0])

    # ---- words ----

    def threshold(self, items: Sequence[Token]) -> tuple[str, Any]:
        return str(items[0]), _read(items[1])

    def pattern(self, items: Sequence[Token]) -> str:
        token = items[0]
        at = token.start_pos
        text = read_pattern(token) if token.type == "PATTERN" else read_string(token, position=at)
        return check_pattern(text, position=at)

    def name(self, items: Sequence[Token]) -> Name:
        token = items[0]
        if token.type == "QUOTED":
            return read_backticks(token, position=token.start_pos)
        return Name(str(token), is_keyword(token), token.start_pos)

    def called(self, items: Sequence[Any]) -> Name:
        return Name(f"{_function(items[0])}({items[1].text})", True, items[0].start_pos)

    # ---- clauses ----

    def last(self, items: Sequence[Token]) -> Clause:
        return _clause("time", Last(_duration(items[1])), items)

    def day(self, items: Sequence[Token]) -> Clause:
        return _clause("time", On(items[0].lower()), items)

    def on(self, items: Sequence[Token]) -> Clause:
        day = _written(items[1])
        _placed(day_range, day, UTC, now_ns=0, position=items[1].start_pos)
        return _clause("time", On(day), items)

    def since(self, items: Sequence[Any]) -> Clause:
        return _clause("since", items[1], items)

    def until(self, items: Sequence[Any]) -> Clause:
        return _clause("until", items[1], items)

    def between(self, items: Sequence[Any]) -> Clause:
        return _clause("time", Between(items[1], items[3]), items)

    def time(self, items: Sequence[Token]) -> str:
        text = _written(items[0])
        _placed(parse_time, text, UTC, now_ns=0, position=items[0].start_pos)
        return text

    def tz(self, items: Sequence[Token]) -> Clause:
        zone = read_string(items[1], position=items[1].start_pos)
        _placed(parse_zone, zone, position=items[1].start_pos)
        return _clause("tz", zone, items)

    def like(self, items: Sequence[Any]) -> Clause:
        return _clause("like", Like(items[1], _anchor(items[3])), items)

    def top(self, items: Sequence[Any]) -> Clause:
        n = read_count(items[1], "top", position=items[1].start_pos)
        return _clause("top", (n, Sort(items[3], True) if len(items) > 3 else None), items)

    def bottom(self, items: Sequence[Any]) -> Clause:
        n = read_count(items[1], "bottom", position=items[1].start_pos)
        if len(items) < 4:
            raise QueryError("`bottom N` needs `by FIELD`", position=items[0].start_pos)
        return _clause("top", (n, Sort(items[3], False)), items)

    def top_k(self, items: Sequence[Any]) -> Clause:
        n = read_count(items[1], "top-k", position=items[1].start_pos) if len(items) > 2 else 10
        return _clause("top", (n, Sort(items[-1], True)), items)

    def sort(self, items: Sequence[Any]) -> Clause:
        return _clause("sort", tuple(items[2:]), items)

    def sort_key(self, items: Sequence[Any]) -> Sort:
        return Sort(items[0], len(items) > 1 and items[1].type == "DESC")

    def limit(self, items: Sequence[Token]) -> Clause:
        token = items[1]
        n = None if token.type == "ALL" else read_count(token, "limit", position=token.start_pos)
        return _clause("limit", n, items)

    def offset(self, items: Sequence[Token]) -> Clause:
        return _clause("offset", read_count(items[1], "offset", position=items[1].start_pos), items)

    def fields(self, items: Sequence[Any]) -> Clause:
        return _clause("fields", tuple(items[1:]), items)

    def output(self, items: Sequence[Any]) -> Output:
        return Output(items[0], _called(items[2]) if len(items) > 1 else None)

    def everything(self, items: Sequence[Token]) -> Clause:
        return _clause("everything", None, items)

    def exact(self, items: Sequence[Token]) -> Clause:
        return _clause("exact", True, items)

    def stat(self, items: Sequence[Any]) -> tuple[Stat, int]:
        fn = _function(items[0])
        name = items[1] if len(items) > 1 and isinstance(items[1], Name) else None
        written = f"{fn}({name.text})" if name else fn
        named = len(items) > 2 and isinstance(items[-2], Token) and items[-2].type == "AS"
        return Stat(fn, name, _called(items[-1]) if named else written), items[0].start_pos

    def by(self, items: Sequence[Any]) -> tuple[Name, ...]:
        return tuple(items[1:])

    def every(self, items: Sequence[Token]) -> str:
        return _duration(items[1])

    def stats(self, items: Sequence[Any]) -> Clause:
        listed = [i for i in items if isinstance(i, tuple) and isinstance(i[0], Stat)]
        by = next((i for i in items[len(listed) :] if isinstance(i, tuple)), ())
        every = next((i for i in items if isinstance(i, str)), None)
        return Clause("stats", (tuple(stat for stat, _ in listed), by, every), listed[0][1])


def _called(name: Name) -> str:
    """The name that `as` gives."""
    if not name.text:
        raise QueryError("the name of a column is empty", position=name.position)
    return name.text


def _duration(token: Token) -> str:
    _placed(parse_duration, str(token), position=token.start_pos)
    return str(token)


def _written(token: Token) -> str:
    """A time as it is written, without its quotes."""
    text = read_string(token, position=token.start_pos) if token.type == "STRING" else str(token)
    return text.lower() if token.type in ("TODAY", "YESTERDAY") else text


def _placed(check: Callable[..., Any], *values: Any, position: int | None, **more: Any) -> None:
    """Run a check of a value; its error gets the place of the value."""
    try:
        check(*values, **more)
    except QueryError as fault:
        raise QueryError(fault.message, position=position) from None


def _function(token: Token) -> str:
    return token.rstrip("(").rstrip().lower()


def _clause(kind: str, value: Any, items: Sequence[Any]) -> Clause:
    return Clause(kind, value, items[0].start_pos)


def _read(token: Token) -> Value:
    """The literal or parameter that a token spells."""
    kind, at = token.type, token.start_pos
    if kind == "NUMBER":
        return read_number(token, position=at)
    if kind == "STRING":
        return read_string(token, position=at)
    if kind == "PARAM":
        return Param(token[1:])
    return str(token) if kind == "TIME" else kind == "TRUE"


def _value(token: Token, name: Name) -> Value:
    """The value that a token spells; a bare word only where it is a severity."""
    if token.type != "NAME":
        return _read(token)
    word = token.lower()
    if word in LEVEL_WORDS and is_level_field(name.text):
        return word
    if word in ("null", "none", "nil", "nan"):
        raise QueryError(f"use `missing` or `exists` in place of {token}", position=token.start_pos)
    raise QueryError(f'put text in quotes: "{token}"', position=token.start_pos)


def _anchor(token: Token) -> Value:
    """The value after `like FIELD:`."""
    if token.type != "ANCHOR":
        return _read(token)
    text = str(token)
    if _WHOLE.fullmatch(text):
        return read_number(text, position=token.start_pos)
    if len(text) < MIN_ANCHOR or not any(c.isdigit() for c in text):
        raise QueryError(f'put the value in quotes: "{text}"', position=token.start_pos)
    return text
