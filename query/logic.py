"""Conditions put together in one canonical shape, so that equal queries are equal values in every form."""

from __future__ import annotations

from collections.abc import Iterable

from treering.storage.errors import QueryError

from .ast import And, Cond, Not, Or

MAX_DEPTH = 100
"""How deep conditions may nest."""


def all_of(conditions: Iterable[Cond]) -> Cond:
    """All of one or more; nested `and` is flattened."""
    flat = tuple(part for c in conditions for part in (c.items if isinstance(c, And) else (c,)))
    return flat[0] if len(flat) == 1 else And(flat)


def any_of(conditions: Iterable[Cond]) -> Cond:
    """Any of one or more; nested `or` is flattened."""
    flat = tuple(part for c in conditions for part in (c.items if isinstance(c, Or) else (c,)))
    return flat[0] if len(flat) == 1 else Or(flat)


def negate(condition: Cond) -> Cond:
    """The plain opposite; two of them cancel, as logic here has two values."""
    return condition.item if isinstance(condition, Not) else Not(condition)


def conjuncts(condition: Cond | None) -> tuple[Cond, ...]:
    """The conditions that all must hold."""
    if condition is None:
        return ()
    return condition.items if isinstance(condition, And) else (condition,)


def check_depth(condition: Cond | None) -> None:
    """Refuse conditions nested deeper than `MAX_DEPTH`; works without recursion."""
    level: list[Cond] = [] if condition is None else [condition]
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise QueryError(f"conditions nest deeper than {MAX_DEPTH}: simplify the query")


def _children(condition: Cond) -> tuple[Cond, ...]:
    if isinstance(condition, (And, Or)):
        return condition.items
    return (condition.item,) if isinstance(condition, Not) else ()
