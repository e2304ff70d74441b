"""Conditions over rows: two-valued, exact, cheap ones first.

A comparison with a missing value or a value of another type is false, and `Not` is its plain opposite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.part import Part
from treering.storage.schema import LEVELS

from .ast import Scalar
from .bound import BAnd, BCompare, BCond, BExists, BHas, BIn, BMatches, BNot, BOr, BPhrase, BSimilar, Column
from .compare import compare_numbers, equal_any, is_number
from .kinds import kind_of, path_groups
from .rows import ALWAYS, Choice, Mask, holds, value_count
from .table_part import TablePart
from .text_match import (
    Test,
    check_pattern,
    decimal_test,
    decimals_test,
    equal_test,
    has_test,
    order_test,
    phrase_test,
    regex_test,
)

CHEAP, READ, SEARCH, MEANING = range(4)
"""Cost classes: numbers and dictionaries; whole texts and lists; searches in texts; vectors."""

CHUNK_ROWS = 1 << 16
"""Texts are read this many rows at a time, so that a scan holds one chunk in memory."""

NARROW_SHARE = 1 / 8
"""A cheap condition reads all rows in order unless fewer than this share of them is left."""


def matching(cond: BCond, choice: Choice) -> Mask:
    """Give, for each chosen row, whether the condition holds."""
    if not len(choice):
        return np.zeros(0, np.bool_)
    match cond:
        case BNot():
            return ~matching(cond.item, choice)
        case BAnd():
            return _all(cond.items, choice)
        case BOr():
            return ~_all([BNot(item) for item in cond.items], choice)
        case BCompare():
            return _compare(cond.column, cond.op, (cond.value,), choice)
        case BIn():
            return _compare(cond.column, "=", cond.values, choice)
        case BExists():
            return _any(choice, cond.columns, lambda name: has_value(choice, name))
        case BPhrase():
            return _phrase(cond, choice)
        case BHas():
            return _first(cond.column, choice, lambda name: _has(choice, name, cond.text))
        case BMatches():
            test = regex_test(cond.pattern)
            return _first(cond.column, choice, lambda name: _texts_or_elements(choice, name, test))
        case BSimilar():
            from .similar import similar

            return similar(cond, choice)


def check_conditions(cond: BCond) -> None:
    """Raise QueryError for a pattern that cannot run, whether or not a row would reach it."""
    match cond:
        case BNot():
            check_conditions(cond.item)
        case BAnd() | BOr():
            for item in cond.items:
                check_conditions(item)
        case BMatches():
            check_pattern(cond.pattern)


def cost(cond: BCond, part: Part) -> int:
    """Cost class of a condition in this part."""
    match cond:
        case BNot():
            return cost(cond.item, part)
        case BAnd() | BOr():
            return max(cost(item, part) for item in cond.items)
        case BSimilar():
            return MEANING
        case BCompare() | BIn():
            return max((_read_cost(part, name) for name in cond.column.physical), default=CHEAP)
        case BExists():
            return max((_read_cost(part, name) for name in cond.columns), default=CHEAP)
        case BPhrase():
            names: Sequence[str] = cond.columns
        case BHas() | BMatches():
            names = cond.column.physical
    return max((SEARCH * _read_cost(part, name) for name in names), default=CHEAP)


def _read_cost(part: Part, name: str) -> int:
    if not holds(part, name):
        return CHEAP
    kind = kind_of(part, name)
    if kind.startswith("list of") or (kind in ("text", "decimal") and part.codes(name) is None):
        return READ
    return CHEAP


def _all(items: Sequence[BCond], choice: Choice) -> Mask:
    """All conditions; what fails a cheap one is not asked the costly ones."""
    costs = [cost(item, choice.part) for item in items]
    mask = np.ones(len(choice), np.bool_)
    for i in sorted(range(len(items)), key=costs.__getitem__):
        left = int(np.count_nonzero(mask))
        if not left:
            break
        if left == len(mask) or (costs[i] == CHEAP and left > NARROW_SHARE * len(mask)):
            mask &= matching(items[i], choice)
        else:
            mask[mask] = matching(items[i], choice.where(mask))
    return mask


def _first(column: Column, choice: Choice, test: Callable[[str], Mask | None]) -> Mask:
    """A test of the row's value, which is that of the first path that has one.

    test gives the rows that pass by one physical column, None when none can.
    """
    held = [[n for n in group if holds(choice.part, n)] for group in path_groups(column)]
    groups = [group for group in held if group]
    found = np.zeros(len(choice), np.bool_)
    unanswered: Mask | None = None
    for i, group in enumerate(groups):
        hits = _any(choice, group, test)
        found |= hits if unanswered is None else hits & unanswered
        if i + 1 < len(groups):
            without = ~_any(choice, group, lambda name: has_value(choice, name))
            unanswered = without if unanswered is None else unanswered & without
            if not unanswered.any():
                break
    return found


def _any(choice: Choice, names: Sequence[str], test: Callable[[str], Mask | None]) -> Mask:
    found: Mask | None = None
    for name in names:
        if not holds(choice.part, name):
            continue
        hits = test(name)
        if hits is not None:
            found = hits if found is None else found | hits
    return np.zeros(len(choice), np.bool_) if found is None else found


def has_value(choice: Choice, name: str) -> Mask:
    """Which chosen rows have a value in a physical column that the part holds."""
    part = choice.part
    if value_count(part, name) == part.n_rows:
        return np.ones(len(choice), np.bool_)
    kind = kind_of(part, name)
    if kind in ("int", "float", "bool", "level", "ts"):
        valid = numbers(part, name)[1]
        return np.ones(len(choice), np.bool_) if valid is None else choice.of_rows(valid).copy()
    return text_mask(
        choice, name, lambda a: np.asarray(a.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    )


def numbers(part: Part, name: str) -> tuple[npt.NDArray[Any], Mask | None]:
    """Values of a number, bool or level column by row, and which rows have one (None: all)."""
    if name in ALWAYS and not isinstance(part, TablePart):
        return (part.ts if name == "ts" else part.seq), None
    return part.numbers(name)


def text_mask(choice: Choice, name: str, test: Test) -> Mask:
    """Rows whose text passes: tested once a distinct value in a dictionary column, else chunk by chunk."""
    encoded = choice.part.codes(name)
    if encoded is not None:
        codes, dictionary = encoded
        # Code -1 (missing) reads the last entry, which is false.
        passes = np.append(test(dictionary), False)
        return np.asarray(passes[choice.of_rows(codes)], np.bool_)
    if len(choice) <= CHUNK_ROWS:
        return test(choice.column(name))
    rows = choice.row_ids()
    pieces = [rows[i : i + CHUNK_ROWS] for i in range(0, len(rows), CHUNK_ROWS)]
    return np.concatenate([test(choice.part.column(name, piece)) for piece in pieces])


def _compare(column: Column, op: str, values: Sequence[Scalar], choice: Choice) -> Mask:
    ordered_level = column.type == "level" and op != "="

    def test(name: str) -> Mask | None:
        kind = kind_of(choice.part, name)
        if ordered_level and kind == "text":
            return None
        if kind.startswith("list of "):
            return _elements(
                choice, name, lambda a: compare_array(a, kind.removeprefix("list of "), op, values)
            )
        return _compare_column(choice, name, kind, op, values)

    return _first(column, choice, test)


def _compare_column(choice: Choice, name: str, kind: str, op: str, values: Sequence[Scalar]) -> Mask | None:
    if kind in ("text", "decimal"):
        tests = _text_tests(kind, op, values)
        masks = [text_mask(choice, name, test) for test in tests]
        return np.logical_or.reduce(masks) if masks else None
    if kind == "object":
        return None
    stored, valid = numbers(choice.part, name)
    hits = _compare_stored(choice.of_rows(stored), kind, op, values)
    if hits is not None and valid is not None:
        hits &= choice.of_rows(valid)
    return hits


def compare_array(array: pa.Array, kind: str, op: str, values: Sequence[Scalar]) -> Mask:
    """Compare the values of an Arrow array of this kind with any of `values`; null never matches."""
    if kind in ("text", "decimal"):
        masks = [test(array) for test in _text_tests(kind, op, values)]
        return np.logical_or.reduce(masks) if masks else np.zeros(len(array), np.bool_)
    filled = array.fill_null(False if kind == "bool" else 0) if array.null_count else array
    hits = _compare_stored(filled.to_numpy(zero_copy_only=False), kind, op, values)
    if hits is None:
        return np.zeros(len(array), np.bool_)
    return hits & array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else hits


def _text_tests(kind: str, op: str, values: Sequence[Scalar]) -> list[Test]:
    if kind == "decimal":
        wanted = [v for v in values if is_number(v) and isinstance(v, (int, float))]
        return [decimals_test(wanted)] if op == "=" and wanted else [decimal_test(op, v) for v in wanted]
    texts = [v for v in values if isinstance(v, str)]
    if not texts:
        return []
    return [equal_test(texts)] if op == "=" else [order_test(op, texts[0])]


def _compare_stored(stored: npt.NDArray[Any], kind: str, op: str, values: Sequence[Scalar]) -> Mask | None:
    """Compare stored numbers, bools or level codes with any of `values`; None when none is of the kind."""
    if kind == "bool":
        wanted: list[Any] = [v for v in values if isinstance(v, bool)] if op == "=" else []
        masks = [stored == v for v in wanted]
    elif kind == "level":
        masks = [compare_numbers(stored, op, code) for v in values if (code := level_code(v)) is not None]
    else:
        figures = [v for v in values if is_number(v) and not isinstance(v, str)]
        if op == "=" and len(figures) > 1:
            return equal_any(stored, figures)
        masks = [compare_numbers(stored, op, v) for v in figures]
    return np.logical_or.reduce(masks) if masks else None


def level_code(value: Scalar) -> int | float | None:
    """Number that severities are compared with: the code of a name, or a number as it is; None for neither."""
    if isinstance(value, str):
        return LEVELS.index(value.lower()) + 1 if value.lower() in LEVELS else None
    return value if is_number(value) else None


def _elements(choice: Choice, name: str, test: Test) -> Mask:
    """Rows with a list of which any element passes."""
    found = np.zeros(len(choice), np.bool_)
    rows = choice.row_ids()
    for start in range(0, len(rows), CHUNK_ROWS):
        lists = choice.part.column(name, rows[start : start + CHUNK_ROWS])
        parents = np.asarray(pc.list_parent_indices(lists))
        found[start + parents[test(lists.flatten())]] = True
    return found


def _texts_or_elements(choice: Choice, name: str, test: Test) -> Mask | None:
    kind = kind_of(choice.part, name)
    if kind == "text":
        return text_mask(choice, name, test)
    return _elements(choice, name, test) if kind == "list of text" else None


def _has(choice: Choice, name: str, text: str) -> Mask | None:
    kind = kind_of(choice.part, name)
    if kind == "text":
        return text_mask(choice, name, has_test(text))
    return _elements(choice, name, equal_test([text])) if kind == "list of text" else None


def _phrase(cond: BPhrase, choice: Choice) -> Mask:
    """Any text of the event contains the phrase; a text is only read while no other has matched."""
    test = phrase_test(cond.text)
    found = np.zeros(len(choice), np.bool_)
    for name in sorted(cond.columns, key=lambda n: _read_cost(choice.part, n)):
        if not holds(choice.part, name) or name in ALWAYS:
            continue
        rest = choice.where(~found)
        hits = _texts_or_elements(rest, name, test)
        if hits is not None:
            found[~found] = hits
    return found
