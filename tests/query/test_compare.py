"""Numbers compare as Python compares them: exactly, over int and float of any size."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.naive.execute import OPS
from treering.query.compare import compare_decimals, compare_numbers, equal_any

EDGES = [2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 + 1, 10**400, -(10**400), 0, 1]
LITERALS = st.one_of(
    st.sampled_from(EDGES),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.sampled_from(EDGES[:7]).map(float),
    st.sampled_from([0.5, -0.5, math.inf, -math.inf]),
)
INTS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 0, 1]))
FLOATS = st.one_of(st.floats(), st.sampled_from(EDGES[:7]).map(float))
OPERATORS = st.sampled_from(sorted(OPS))


@given(st.lists(INTS, max_size=5), OPERATORS, LITERALS)
def test_whole_numbers_compare_exactly(values: list[int], op: str, literal: float) -> None:
    assert compare_numbers(np.array(values, np.int64), op, literal).tolist() == [
        OPS[op](v, literal) for v in values
    ]


@given(st.lists(FLOATS, max_size=5), OPERATORS, LITERALS)
def test_fractions_compare_exactly(values: list[float], op: str, literal: float) -> None:
    assert compare_numbers(np.array(values, np.float64), op, literal).tolist() == [
        OPS[op](v, literal) for v in values
    ]


@given(st.lists(st.integers(1, 6), max_size=5), OPERATORS, LITERALS)
def test_small_types_compare_with_any_literal(values: list[int], op: str, literal: float) -> None:
    assert compare_numbers(np.array(values, np.uint8), op, literal).tolist() == [
        OPS[op](v, literal) for v in values
    ]


@given(st.lists(st.one_of(st.none(), st.integers()), max_size=5), OPERATORS, LITERALS)
def test_numbers_of_any_size_compare_exactly(values: list[int | None], op: str, literal: float) -> None:
    texts = [None if v is None else str(v) for v in values]
    expected = [v is not None and OPS[op](v, literal) for v in values]
    assert compare_decimals(texts, op, literal).tolist() == expected


@given(
    st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3)), max_size=8),
    st.lists(
        st.one_of(st.integers(-(2**65), 2**65), st.integers(-3, 3), st.floats(allow_nan=False)), max_size=8
    ),
)
def test_a_set_of_numbers_equals_exactly(values: list[int], literals: list[int | float]) -> None:
    assert equal_any(np.array(values, np.int64), literals).tolist() == [v in literals for v in values]
    floats = [float(v) for v in values] + [float("nan"), float("inf"), -0.0]
    assert equal_any(np.array(floats), literals).tolist() == [f in literals for f in floats]
