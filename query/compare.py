"""Exact comparison of numbers: whole numbers never pass through a float, NaN never matches."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.indexer.whole_numbers import whole_number

from .ast import Scalar

Mask = npt.NDArray[np.bool_]
Number = int | float

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
"""Comparison by its sign; Python compares int with float exactly, numpy does not."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EXACT_FLOAT = 2**53
"""Whole numbers up to this size have their own float64."""


def is_number(value: Scalar) -> bool:
    """Whether a literal is a number; a bool is not one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def compare_numbers(values: npt.NDArray[Any], op: str, literal: Number) -> Mask:
    """Give where `values op literal` holds exactly; values: any integer or float dtype, literal: any size."""
    if isinstance(literal, float) and math.isnan(literal):
        return np.zeros(len(values), np.bool_)
    if values.dtype.kind == "f":
        return _compare_floats(values, op, literal)
    return _compare_ints(values, op, literal)


def equal_any(values: npt.NDArray[Any], literals: Sequence[Number]) -> Mask:
    """Give where a value equals one of the literals exactly, in one pass over the values."""
    if values.dtype.kind == "f":
        found: list[Number] = [nearest for n in literals for nearest, rest in (_nearest(n),) if rest == 0]
        return np.isin(values, np.array(found, values.dtype))
    whole = [int(n) for n in literals if math.isfinite(n) and n == int(n)]
    limits = np.iinfo(values.dtype)
    fitting = [n for n in whole if limits.min <= n <= limits.max]
    return np.isin(values, np.array(fitting, values.dtype))


def compare_decimals(texts: Sequence[str | None], op: str, literal: Number) -> Mask:
    """The same for whole numbers of any size, given as decimal text; None never matches."""
    holds = OPERATORS[op]
    if isinstance(literal, float) and math.isnan(literal):
        return np.zeros(len(texts), np.bool_)
    return np.fromiter(
        (t is not None and holds(whole_number(t), literal) for t in texts), np.bool_, len(texts)
    )


def _compare_ints(values: npt.NDArray[Any], op: str, literal: Number) -> Mask:
    if isinstance(literal, float):
        op, literal = _whole(op, literal)
    if literal > INT64_MAX or literal < INT64_MIN:
        always = (literal > INT64_MAX) == (op in ("<", "<="))
        return np.full(len(values), always and op != "=", np.bool_)
    return np.asarray(OPERATORS[op](values, np.int64(literal)), np.bool_)


def _whole(op: str, literal: float) -> tuple[str, int]:
    """The comparison of a whole number with `literal` as one with a whole number."""
    beyond = 2**64
    if math.isinf(literal):
        return op, beyond if literal > 0 else -beyond
    if literal.is_integer():
        return op, int(literal)
    if op == "=":
        return op, beyond
    return (op, math.floor(literal)) if op in (">", "<=") else (op, math.ceil(literal))


def _compare_floats(values: npt.NDArray[Any], op: str, literal: Number) -> Mask:
    nearest, rest = _nearest(literal)
    if rest == 0:
        return np.asarray(OPERATORS[op](values, nearest), np.bool_)
    if op == "=":
        return np.zeros(len(values), np.bool_)
    # The literal lies strictly between two floats, so that > and >= (< and <=) are the same.
    if op in (">", ">="):
        return np.asarray(values >= nearest if rest < 0 else values > nearest, np.bool_)
    return np.asarray(values < nearest if rest < 0 else values <= nearest, np.bool_)


def _nearest(literal: Number) -> tuple[float, int]:
    """Nearest float64 and the sign of literal - float."""
    try:
        nearest = float(literal)
    except OverflowError:
        nearest = math.inf if literal > 0 else -math.inf
    return nearest, (literal > nearest) - (literal < nearest)
