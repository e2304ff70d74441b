"""What a part tells of its texts without reading them: all values of some columns, filters over others."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import pyarrow as pa

from treering.storage.part import Part

from .ast import Scalar
from .bound import BAnd, BCompare, BCond, BHas, BIn, BMatches, BNot, BOr
from .rows import value_count
from .text_match import regex_test

CANNOT, MAY, ALL = 0, 1, 2
"""Answers: no row matches, some may, every row does. Not is 2 - a, And the minimum, Or the maximum."""

MANY = 64
"""So many values of `in` are looked at one by one."""

_ORDER = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def listed_answer(cond: BCond, name: str, part: Part) -> int:
    """What the listed values of a text column say of an atom; MAY where they are not listed.

    Texts compare by code point, here as in a scan (where that is the order of UTF-8 bytes).
    """
    values = part.partitions.get(name)
    if values is None:
        return MAY
    n_hits = sum(_hits(cond, values))
    if not n_hits:
        return CANNOT
    # Deleted events may have left values that no row has any more, but no row has one that is not listed.
    return ALL if n_hits == len(values) and value_count(part, name) == part.n_rows else MAY


def _hits(cond: BCond, values: Sequence[str]) -> Iterator[bool]:
    match cond:
        case BIn():
            wanted = frozenset(v for v in cond.values if isinstance(v, str))
            return (value in wanted for value in values)
        case BCompare(op="=", value=wanted_one):
            return (value == wanted_one for value in values)
        case BCompare(op=op, value=str() as bound):
            return (_ORDER[op](value, bound) for value in values)
        case BHas(text=text):
            return (text in value for value in values)
        case BMatches(pattern=pattern):
            return iter(regex_test(pattern)(pa.array(values, pa.string())).tolist())
    return iter(())


def filter_answer(values: Sequence[Scalar], name: str, part: Part) -> int:
    """What the filter of a text column says of equality with one of `values`: CANNOT or MAY."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or len(texts) > MANY:
        return MAY
    return MAY if any(part.may_hold(name, text) for text in texts) else CANNOT


def searched_texts(cond: BCond, *, is_equal: bool = False) -> frozenset[str]:
    """Name the physical columns whose text a condition asks for; is_equal: only those it compares by equality."""
    match cond:
        case BNot():
            return searched_texts(cond.item, is_equal=is_equal)
        case BAnd() | BOr():
            return frozenset().union(*(searched_texts(item, is_equal=is_equal) for item in cond.items))
        case BCompare(value=str()) if cond.op == "=" or not is_equal:
            return frozenset(cond.column.physical)
        case BIn() if any(isinstance(value, str) for value in cond.values):
            return frozenset(cond.column.physical)
        case BHas() | BMatches() if not is_equal:
            return frozenset(cond.column.physical)
    return frozenset()
