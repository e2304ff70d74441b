"""Conditions of the JSON form."""

from __future__ import annotations

from collections.abc import Mapping

from treering.storage.errors import QueryError

from .ast import Compare, Cond, Exists, Has, In, Matches, Name, Not, Param, Phrase, Similar, Value
from .json_values import (
    Json,
    as_flag,
    as_list,
    as_number,
    as_object,
    as_text,
    as_text_or_param,
    as_value,
    check_keys,
    read_name,
)
from .literals import check_pattern
from .logic import MAX_DEPTH, all_of, any_of, negate

ORDERS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_OPERATORS = {
    **{word: op for op, word in ORDERS.items()},
    **{op: op for op in ORDERS},
    "ge": ">=",
    "le": "<=",
    "=": "=",
    "==": "=",
    "eq": "=",
    "!=": "!=",
    "ne": "!=",
    "in": "in",
    "not_in": "not_in",
    "nin": "not_in",
    "has": "has",
    "contains": "has",
    "exists": "exists",
    "missing": "missing",
    "=~": "=~",
    "matches": "=~",
    "regex": "=~",
    "!~": "!~",
    "near": "near",
}
"""Operators by every accepted spelling; `$` before a word is accepted too."""


def read_condition(obj: Json, depth: int = 0) -> Cond:
    """Give the condition of a filter object, of which several keys must all hold. Raises QueryError."""
    if depth > MAX_DEPTH:
        raise QueryError(f"conditions nest deeper than {MAX_DEPTH}: simplify the query")
    obj = as_object(obj, '"filter"')
    if not obj:
        raise QueryError('a condition is empty, {}: leave "filter" out for every event')
    return all_of(c for key, value in obj.items() for c in _entry(key, value, depth + 1))


def _entry(key: Json, value: Json, depth: int) -> list[Cond]:
    """The conditions of one key: a word of logic, or a field."""
    if key in ("and", "or"):
        items = [read_condition(item, depth) for item in as_list(value, key)]
        if not items:
            raise QueryError(f'"{key}" is empty: give a list of conditions, or leave it out')
        return [all_of(items) if key == "and" else any_of(items)]
    if key == "not":
        return [negate(read_condition(value, depth))]
    if key == "phrase":
        return [Phrase(as_text_or_param(value, '"phrase"'))]
    if key == "near":
        return _similar(None, value)
    name = read_name(key)
    if isinstance(value, Mapping):
        if not value:
            raise QueryError(f'"{key}" has no operator: write {{"{key}": {{">": 1}}}}')
        return [c for op, operand in value.items() for c in _operation(name, op, operand)]
    if isinstance(value, list):
        raise QueryError(f'"{key}" is compared with a list: write {{"{key}": {{"in": [...]}}}}')
    return [Not(Exists(name)) if value is None else Compare(name, "=", as_value(value))]


def _operation(name: Name, written: str, operand: Json) -> list[Cond]:
    op = _OPERATORS.get(str(written).lower().removeprefix("$"))
    if op is None:
        raise QueryError(f'unknown operator "{written}" of "{name.text}": there are {", ".join(_OPERATORS)}')
    if op in ("in", "not_in"):
        found = In(name, _in_values(operand, name))
        return [found if op == "in" else Not(found)]
    if op in ("exists", "missing"):
        is_there = as_flag(operand, f'"{written}"') == (op == "exists")
        return [Exists(name) if is_there else Not(Exists(name))]
    if op in ("=~", "!~"):
        match = Matches(name, check_pattern(as_text(operand, f'"{written}"')))
        return [match if op == "=~" else Not(match)]
    if op == "has":
        return [Has(name, as_value(operand))]
    if op == "near":
        return _similar(name, operand)
    if operand is None and op in ("=", "!="):
        return [Not(Exists(name)) if op == "=" else Exists(name)]
    if op == "!=":
        return [Not(Compare(name, "=", as_value(operand)))]
    return [Compare(name, op, as_value(operand))]


def _in_values(obj: Json, name: Name) -> tuple[Value, ...]:
    values = (obj,) if isinstance(obj, Mapping) else tuple(as_list(obj, f'"in" of "{name.text}"'))
    if not values:
        raise QueryError(f'"in" of "{name.text}" has no values: give at least one')
    return tuple(as_value(value) for value in values)


def _similar(name: Name | None, obj: Json) -> list[Cond]:
    """Thresholds on a meaning; "min" is ">="."""
    obj = as_object(obj, '"near" in a filter')
    check_keys(obj, {"text", "param", "min", *ORDERS, *ORDERS.values()}, '"near" in a filter')
    text = read_meaning(obj)
    ops = {key: ">=" if key == "min" else _OPERATORS[key] for key in obj if key not in ("text", "param")}
    if not ops:
        raise QueryError('"near" in a filter needs a threshold: {"near": {"text": ..., ">": 0.6}}')
    return [Similar(text, op, as_number(obj[key], key), name) for key, op in ops.items()]


def read_meaning(obj: Mapping[str, Json]) -> Value:
    """Give the text, or the parameter, that `near` compares with."""
    if ("text" in obj) == ("param" in obj):
        raise QueryError('"near" takes "text" or "param", one of them')
    return Param(as_text(obj["param"], "param")) if "param" in obj else as_text_or_param(obj["text"], "text")
