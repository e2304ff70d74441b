"""Tests of text values: phrase, substring, equality, order, pattern. Each takes an Arrow array of strings.

Columns of few distinct values are tested once a distinct value (see `scan`), so these may be costly a value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.indexer.whole_numbers import whole_number
from treering.storage.errors import QueryError

from .compare import compare_decimals

Mask = npt.NDArray[np.bool_]
Test = Callable[[pa.Array], Mask]
"""Gives true for each value that passes; null never does."""

UNFOLDING = "[ßẞİŉǰẖẗẘẙẚﬀ-ﬆ]"
"""Letters whose full case folding holds an ASCII letter that no one-to-one folding gives (`ß` is `ss`)."""

CASELESS = frozenset(
    ("Lo", "Lm", "Nd", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "Zs", "Cc", "Cf")
)
"""Unicode categories that case folding neither takes nor gives, but for the two below."""

FOLD_MARKS = "ʼʾ"
"""The only modifier letters that the folding of another letter gives."""


def phrase_test(phrase: str) -> Test:
    """Values that contain the phrase, both case-folded; no word borders, so that CJK runs work."""
    folded = phrase.casefold()
    if not all(_is_plain(c) for c in folded):
        return lambda texts: _contains_folded(texts, folded)
    if not any("a" <= c <= "z" for c in folded):
        return lambda texts: _mask(pc.match_substring(texts, folded))
    return lambda texts: _contains_plain(texts, folded)


def has_test(text: str) -> Test:
    """Values that contain the text in its exact case."""
    return lambda texts: _mask(pc.match_substring(texts, text))


def equal_test(values: Collection[str]) -> Test:
    """Values equal to one of `values`."""
    if len(values) == 1:
        (value,) = values
        return lambda texts: _mask(pc.equal(texts, pa.scalar(value, texts.type)))
    return lambda texts: _mask(pc.is_in(texts, value_set=pa.array(list(values), texts.type)))


def order_test(op: str, value: str) -> Test:
    """Values that stand so to `value` by code point (which is the order of UTF-8 bytes)."""
    function = {">": pc.greater, ">=": pc.greater_equal, "<": pc.less, "<=": pc.less_equal}[op]
    return lambda texts: _mask(function(texts, pa.scalar(value, texts.type)))


def decimal_test(op: str, value: int | float) -> Test:
    """Whole numbers of any size, as decimal text, that stand so to `value`."""
    return lambda texts: compare_decimals(texts.to_pylist(), op, value)


def decimals_test(values: Collection[int | float]) -> Test:
    """Whole numbers of any size, as decimal text, equal to one of `values`."""
    wanted = frozenset(values)  # Python hashes and compares numbers of all types by value
    return lambda texts: np.array(
        [t is not None and whole_number(t) in wanted for t in texts.to_pylist()], np.bool_
    )


def regex_test(pattern: str) -> Test:
    r"""Values in which the pattern is found anywhere; RE2 syntax, linear time.

    `^` and `$` are start and end of the text (`(?m)` for lines), `.` is any character but a newline, `\w \d
    \s` and `\b` are ASCII; `\p{L}` and the like are Unicode. Raises QueryError for a pattern that RE2
    refuses.
    """
    check_pattern(pattern)
    return lambda texts: _mask(pc.match_substring_regex(texts, pattern))


def check_pattern(pattern: str) -> None:
    """Raise QueryError, with a caret and words for what is missing, when RE2 refuses the pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        message, position = _explain(pattern, error)
        raise QueryError(message, text=pattern, position=position) from None


def _explain(pattern: str, error: Exception) -> tuple[str, int]:
    """What is wrong with a pattern, and where."""
    for found, what in (
        (r"\(\?<?[=!]", "look-around"),
        (r"\(\?>", "an atomic group"),
        (r"\\[1-9]", "a back-reference"),
        (r"\(\?P=", "a back-reference"),
        (r"[*+?}]\+", "a possessive repeat"),
        (r"\(\?\(", "a conditional group"),
    ):
        hit = re.search(r"(?<!\\)(?:\\\\)*(" + found + ")", pattern)
        if hit:
            return f"regular expressions run in linear time here and cannot use {what}", hit.start(1)
    reason = error.args[0] if error.args else error
    told = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    fragment = told.rpartition(": ")[2]
    return f"bad regular expression: {told}", max(pattern.find(fragment), 0) if fragment else 0


def _is_plain(char: str) -> bool:
    """Whether one-to-one folding finds the character wherever full folding does."""
    return char.isascii() or (unicodedata.category(char) in CASELESS and char not in FOLD_MARKS)


def _contains_plain(texts: pa.Array, folded: str) -> Mask:
    found = _mask(pc.match_substring(texts, folded, ignore_case=True))
    odd = ~found & _mask(pc.match_substring_regex(texts, UNFOLDING))
    if odd.any():
        found[odd] = _contains_folded(texts.filter(pa.array(odd)), folded)
    return found


def _contains_folded(texts: pa.Array, folded: str) -> Mask:
    values = texts.to_pylist()
    return np.fromiter((v is not None and folded in v.casefold() for v in values), np.bool_, len(values))


def _mask(answer: pa.Array) -> Mask:
    """A copy as numpy bools, null as false."""
    filled = answer.fill_null(False) if answer.null_count else answer
    return np.array(filled.to_numpy(zero_copy_only=False), np.bool_)
