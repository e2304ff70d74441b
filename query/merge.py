"""Conditions that say the same thing, said once: repeats dropped, equalities of one field as one set of values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .ast import Scalar
from .bound import BAnd, BCompare, BCond, BExists, BHas, BIn, BMatches, BNot, BOr, BPhrase, BSimilar, Column

Values = dict[tuple[str, Scalar], Scalar]
"""Values by class and value: `true` is not 1, while 1 and 1.0 are one."""


def any_of(conditions: Iterable[BCond]) -> BCond:
    """Any of one or more: `a = 1 or a = 2` is `a in (1, 2)`."""
    items: list[BCond] = []
    for cond in conditions:
        items.extend(cond.items if isinstance(cond, BOr) else (cond,))
    merged = _merged(items, is_negated=False)
    return merged[0] if len(merged) == 1 else BOr(tuple(merged))


def all_of(conditions: Iterable[BCond]) -> BCond:
    """All of one or more: `a != 1 and a != 2` is `a not in (1, 2)`."""
    items: list[BCond] = []
    for cond in conditions:
        items.extend(cond.items if isinstance(cond, BAnd) else (cond,))
    merged = _merged(items, is_negated=True)
    return merged[0] if len(merged) == 1 else BAnd(tuple(merged))


def _merged(items: list[BCond], *, is_negated: bool) -> list[BCond]:
    """The conditions in order of their first appearance. is_negated: sets are made of the negated equalities."""
    sets: dict[Column, Values] = {}
    found: dict[Any, BCond] = {}
    for cond in items:
        inner = cond.item if is_negated and isinstance(cond, BNot) else cond
        if isinstance(cond, BNot) == is_negated and (values := _equal_values(inner)) is not None:
            column: Column = inner.column  # type: ignore[union-attr]
            found.setdefault(column, cond)
            held = sets.setdefault(column, {})
            for value in values:
                held.setdefault((_class(value), value), value)
            continue
        found.setdefault(_key(cond), cond)
    for column, held in sets.items():
        one_of = _one_of(column, tuple(held.values()))
        found[column] = BNot(one_of) if is_negated else one_of
    return list(found.values())


def _equal_values(cond: BCond) -> tuple[Scalar, ...] | None:
    """The values of which a column equals one, None for any other condition."""
    if isinstance(cond, BIn):
        return cond.values
    return (cond.value,) if isinstance(cond, BCompare) and cond.op == "=" else None


def _one_of(column: Column, values: tuple[Scalar, ...]) -> BCond:
    return BCompare(column, "=", values[0]) if len(values) == 1 else BIn(column, values)


def _class(value: Scalar) -> str:
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def _key(cond: BCond) -> Any:
    """What makes a condition a repeat of another; conditions that hold others are told apart by identity."""
    match cond:
        case BCompare():
            return BCompare, cond, _class(cond.value)
        case BExists() | BPhrase() | BHas() | BMatches():
            return type(cond), cond
        case BSimilar():
            probe = cond.probe
            return BSimilar, cond.op, cond.threshold, probe.fields, probe.vector.tobytes()
        case BNot():
            return BNot, _key(cond.item)
        case BIn():
            return BIn, cond.column, tuple((_class(v), v) for v in cond.values)
        case BAnd() | BOr():
            return type(cond), id(cond)
