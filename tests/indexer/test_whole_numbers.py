"""Whole numbers of any size: exact both ways, whatever Python's settings allow."""

import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.indexer.whole_numbers import (
    MAX_INT_DIGITS,
    BigInt,
    digits_of,
    is_whole,
    json_text,
    read_int,
    whole_number,
)

DIGITS = st.builds(
    lambda sign, head, tail, n: f"{sign}{head}{tail * n}",
    st.sampled_from(["", "-"]),
    st.integers(1, 10**30).map(str),
    st.sampled_from(["0", "9", "37"]),
    st.sampled_from([0, 1, 300, 305, 319, 610, 639, 640, 2200]),
)


@given(DIGITS)
def test_digits_come_back_as_they_were(digits: str) -> None:
    assert digits_of(whole_number(digits)) == digits
    assert json_text(read_int(digits)) == digits
    assert isinstance(whole_number(digits), int) == (len(digits) <= MAX_INT_DIGITS)


@given(DIGITS, DIGITS)
def test_values_compare_and_hash_as_the_integers_that_they_are(one: str, other: str) -> None:
    # Exact integers by pieces that Python converts under every setting.
    def exact(digits: str) -> int:
        value = 0
        for start in range(0, len(digits.lstrip("-")), 600):
            piece = digits.lstrip("-")[start : start + 600]
            value = value * 10 ** len(piece) + int(piece)
        return -value if digits.startswith("-") else value

    a, b = whole_number(one), whole_number(other)
    assert (a < b, a == b, a > b) == (exact(one) < exact(other), one == other, exact(one) > exact(other))
    assert hash(a) == hash(exact(one)) and digits_of(exact(one)) == one


@pytest.mark.parametrize(
    ("value", "whole"),
    [(3, True), (True, False), (3.0, False), (Decimal(10**700), True), (Decimal("2.00"), False), ("3", False),
     (Decimal("NaN"), False), (Decimal("Infinity"), False), (Decimal("1E+9"), False), (None, False)],
)  # fmt: skip
def test_whole_numbers_are_told_from_others(value: object, whole: bool) -> None:
    assert is_whole(value) is whole


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(_JSON)
def test_json_reads_back_to_what_was_written(value: Any) -> None:
    assert json.loads(json_text(value)) == value
    assert json_text(value, ascii_only=True) == json.dumps(value, separators=(",", ":"))
    assert json_text(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_long_numbers_stand_in_json_as_numbers() -> None:
    digits = "7" * 5000
    text = json_text({"a": [BigInt(digits), Decimal(digits), -3], "b": {}, "c": []})
    assert text == f'{{"a":[{digits},{digits},-3],"b":{{}},"c":[]}}'


def test_the_least_limit_that_python_can_be_given_is_enough() -> None:
    program = (
        "from treering.indexer.whole_numbers import *\n"
        "for n in (600, 640, 641, 2000):\n"
        "    assert digits_of(whole_number('8' * n)) == '8' * n == json_text(read_int('8' * n))\n"
        "    assert digits_of(10**n + 1) == '1' + '0' * (n - 1) + '1'\n"
    )
    subprocess.run([sys.executable, "-X", "int_max_str_digits=640", "-c", program], check=True)
