"""Text tests equal Python's reading of them."""

from __future__ import annotations

import sys
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.query.text_match import (
    CASELESS,
    FOLD_MARKS,
    check_pattern,
    decimal_test,
    equal_test,
    has_test,
    order_test,
    phrase_test,
    regex_test,
)
from treering.storage.errors import QueryError

ODD = "aKksſßẞİıiIŉǰẖﬀﬆſtéÉΣσςДд推理延ーカ한12 -_.%\n"
TEXT = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=8)


@given(st.lists(st.one_of(st.none(), TEXT), max_size=8), st.text(st.sampled_from(ODD), max_size=3))
def test_phrase_is_found_as_by_full_case_folding(texts: list[str | None], phrase: str) -> None:
    expected = [t is not None and phrase.casefold() in t.casefold() for t in texts]
    assert phrase_test(phrase)(pa.array(texts, pa.string())).tolist() == expected


def test_only_these_categories_take_part_in_folding() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) == "Cs" or char.casefold() == char:
            continue
        assert unicodedata.category(char) not in CASELESS
        for folded in char.casefold():
            assert folded.isascii() or folded in FOLD_MARKS or unicodedata.category(folded) not in CASELESS


def test_phrase_works_inside_runs_without_blanks() -> None:
    texts = ["模型推理延迟突增", "KV缓存命中率下降到 12%", "延推迟理 (same characters)", None]
    array = pa.array(texts)
    assert phrase_test("推理延迟")(array).tolist() == [True, False, False, False]
    assert phrase_test("kv缓存")(array).tolist() == [False, True, False, False]
    assert phrase_test("12%")(array).tolist() == [False, True, False, False]


@given(st.lists(st.one_of(st.none(), TEXT), max_size=6), TEXT, st.sampled_from([">", ">=", "<", "<="]))
def test_equality_substring_and_order_are_exact(texts: list[str | None], value: str, op: str) -> None:
    import operator

    array = pa.array(texts, pa.string())
    holds = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}[op]
    assert equal_test([value])(array).tolist() == [t == value for t in texts]
    assert equal_test([value, "b"])(array).tolist() == [t in (value, "b") for t in texts]
    assert has_test(value)(array).tolist() == [t is not None and value in t for t in texts]
    expected = [t is not None and holds([ord(c) for c in t], [ord(c) for c in value]) for t in texts]
    assert order_test(op, value)(array).tolist() == expected


def test_big_numbers_compare_digit_for_digit() -> None:
    array = pa.array(["18446744073709551615", "123456789012345678901234567890", None])
    assert decimal_test("=", 18446744073709551615)(array).tolist() == [True, False, False]
    assert decimal_test(">", 1e20)(array).tolist() == [False, True, False]
    assert decimal_test("<", float("nan"))(array).tolist() == [False, False, False]


def test_pattern_is_found_anywhere_and_anchors_hold_the_whole_text() -> None:
    array = pa.array(["xaay", "aa", "b\naa", None])
    assert regex_test("a+")(array).tolist() == [True, True, True, False]
    assert regex_test("^a+$")(array).tolist() == [False, True, False, False]
    assert regex_test("(?m)^a+$")(array).tolist() == [False, True, True, False]
    assert regex_test(r"\p{Han}")(pa.array(["延迟", "x"])).tolist() == [True, False]


def test_nested_repeats_end_in_linear_time() -> None:
    texts = pa.array(["a" * 5000 + "!", "aaaa"])
    assert regex_test("^(a+)+$")(texts).tolist() == [False, True]
    assert regex_test("^(a|aa|aaa)+$")(texts).tolist() == [False, True]


@pytest.mark.parametrize(
    ("pattern", "told", "position"),
    [
        ("ab(?=c)", "look-around", 2),
        ("(?<!x)y", "look-around", 0),
        (r"(a)\1", "a back-reference", 3),
        ("(?>a)", "an atomic group", 0),
        ("a(b", "bad regular expression", None),
        ("[z-a]", "bad regular expression", 1),
    ],
)
def test_refused_patterns_are_named_with_a_caret(pattern: str, told: str, position: int | None) -> None:
    with pytest.raises(QueryError, match=told) as raised:
        check_pattern(pattern)
    assert raised.value.text == pattern
    assert position is None or raised.value.position == position
    assert "^" in str(raised.value)


def test_escaped_backslash_is_no_back_reference() -> None:
    check_pattern(r"a\\1")
