"""Statistics by group and time bucket, computed by DuckDB over the needed columns of the matching rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.errors import QueryError

from .bound import BoundQuery, BStat, Column
from .buckets import Buckets, buckets_of
from .duck import calculator, fetch_arrow
from .field_values import Typed, float_values, joined, merged, typed_values
from .group_keys import Coded, coded, signless
from .kinds import NUMBERS, arrow_kind
from .pieces import piece_name
from .rows import Rows
from .table_part import TablePart

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""Exact quantiles, interpolated between neighbours."""

MAX_BUCKETS = 1_000_000
"""Rows that filling empty buckets may make; more is refused with the fix."""

DECIMAL = pa.decimal128(38, 0)
"""Whole numbers beyond 64 bits; longer ones count as float."""

TIMES = pa.timestamp("ns", "UTC")
_SHOWN = {"ts": TIMES, "level": pa.uint8()}
"""Arrow types of keys that are counted by a number."""


@dataclass(frozen=True, slots=True)
class Group:
    """A column that rows are grouped by: keys by row, which are the values themselves unless they are coded."""

    column: Column
    keys: pa.Array
    kind: str
    coded: Coded | None = None


def aggregate(rows: Rows, query: BoundQuery) -> TablePart:
    """Give one row a group with the statistics of a stage, by bucket and keys, missing keys last.

    `count` is 0 and every other statistic null where there is nothing; NaN is skipped, and rows without a
    number do not count for statistics of numbers. `count(f)` counts values of any type, `distinct(f)`
    differing ones. With `every`, buckets are aligned to midnight in the query's zone as it is at the first
    bucket (a change of clocks later moves none), and those without rows are filled in, for each group that
    has any.
    """
    buckets = None if query.every_ns is None else buckets_of(rows.ts, query)
    if buckets is not None:
        _check_few(buckets)
    groups = [_group(rows, column) for column in query.by]
    extremes = [_extremes(rows, stat) for stat in query.stats]
    table = _grouped(rows, query, groups, extremes, buckets)
    if buckets is not None:
        table = _filled(table, buckets, [f"g{i}" for i in range(len(groups))], query.stats)
    return _part(table, query, groups, extremes)


def count_rows(n: int, query: BoundQuery) -> TablePart:
    """Statistics of a stage that only counts rows."""
    table = pa.table({stat.name: pa.array([n], pa.int64()) for stat in query.stats})
    return TablePart(table, {stat.name: "int" for stat in query.stats})


def only_counts(query: BoundQuery) -> bool:
    """Whether a stage needs to know no more than how many rows there are."""
    plain = all(stat.fn == "count" and stat.column is None for stat in query.stats)
    return bool(query.stats) and plain and not query.by and query.every_ns is None


def _group(rows: Rows, column: Column) -> Group:
    """A group column; values of one plain type are their own keys."""
    found = typed_values(rows, column)
    if not found:
        return Group(column, pa.nulls(len(rows), pa.string()), "text")
    if len(found) == 1 and (keys := _comparable(found[0])) is not None:
        return Group(column, keys, found[0].kind)
    codes = coded(found, len(rows))
    return Group(column, pa.array(codes.codes, mask=codes.codes < 0), "coded", codes)


def _comparable(one: Typed) -> pa.Array | None:
    """Values of a plain type such that equal ones are equal: severities by code, times by nanoseconds."""
    if isinstance(one.values, np.ndarray):
        return pa.array(signless(one.values), mask=~one.valid)
    return one.to_arrow() if one.kind == "text" else None


def _extremes(rows: Rows, stat: BStat) -> Coded | None:
    """Codes of the numbers of a field, for their least and largest, where only Python compares these exactly."""
    if stat.fn not in ("min", "max") or stat.column is None:
        return None
    figures = _figures(typed_values(rows, stat.column))
    return coded(figures, len(rows)) if any(one.kind == "decimal" for one in figures) else None


def _figures(found: Sequence[Typed]) -> list[Typed]:
    return [one for one in found if one.kind in NUMBERS and one.kind != "ts"]


def _grouped(
    rows: Rows,
    query: BoundQuery,
    groups: Sequence[Group],
    extremes: Sequence[Coded | None],
    buckets: Buckets | None,
) -> pa.Table:
    """The statistics of groups that have rows: bucket number `b`, keys `g0 ...`, statistics `s0 ...`."""
    columns: dict[str, pa.Array] = {f"g{i}": group.keys for i, group in enumerate(groups)}
    if buckets is not None:
        columns["b"] = pa.array(buckets.numbers(rows.ts))
    by = [*(["b"] if buckets is not None else []), *(f"g{i}" for i in range(len(groups)))]
    formulas = []
    for i, (stat, numbers) in enumerate(zip(query.stats, extremes, strict=True)):
        formula, argument = _formula(rows, stat, f"v{i}", numbers)
        if argument is not None:
            columns[f"v{i}"] = argument
        formulas.append(f"{formula} AS s{i}")
    columns["one"] = pa.array(np.ones(len(rows), np.int8))
    return _computed(pa.table(columns), by, formulas)


def _computed(matching: pa.Table, by: Sequence[str], formulas: Sequence[str]) -> pa.Table:
    grouping = f" GROUP BY {', '.join(by)} ORDER BY {', '.join(f'{k} NULLS LAST' for k in by)}" if by else ""
    connection = calculator()
    try:
        connection.register("matching", matching)
        return fetch_arrow(connection, f"SELECT {', '.join([*by, *formulas])} FROM matching{grouping}")
    finally:
        connection.close()


def _formula(rows: Rows, stat: BStat, name: str, numbers: Coded | None) -> tuple[str, pa.Array | None]:
    """The SQL of a statistic over the column `name`, and that column; of numbers that are coded, their codes."""
    if stat.column is None:
        return "count(*)", None
    if numbers is not None:
        return f"{stat.fn}({name})", _without_nan_codes(numbers)
    found = typed_values(rows, stat.column)
    if stat.fn == "count":
        has = np.logical_or.reduce([t.valid for t in found]) if found else np.zeros(len(rows), np.bool_)
        return f"count({name})", pa.array(np.ones(len(rows), np.int8), mask=~has)
    if stat.fn == "distinct":
        return f"nullif(count(DISTINCT {name}), 0)", _told_apart(found, len(rows))
    argument = _argument(found, stat.fn, len(rows))
    number = f"CAST({name} AS DOUBLE)"
    if stat.fn in QUANTILES:
        return f"quantile_cont({number}, {QUANTILES[stat.fn]})", argument
    formulas = {
        "sum": f"sum({name})",
        "avg": f"avg({number})",
        "min": f"min({name})",
        "max": f"max({name})",
        # DuckDB gives an error for the deviation of infinities; it is not a number.
        "stddev": f"CASE WHEN bool_or(isinf({number})) THEN NULL ELSE stddev_samp({number}) END",
    }
    return formulas[stat.fn], argument


def _told_apart(found: Sequence[Typed], n: int) -> pa.Array:
    """Values such that equal ones are equal and no others; null for missing and NaN."""
    if len(found) == 1 and (keys := _comparable(found[0])) is not None:
        return _without_nan(keys)
    return _without_nan_codes(coded(found, n))


def _without_nan_codes(coded: Coded) -> pa.Array:
    is_value = np.array([value == value for value in coded.values] + [False], np.bool_)
    return pa.array(coded.codes, mask=~is_value[coded.codes])


def _argument(found: Sequence[Typed], fn: str, n: int) -> pa.Array:
    """The numbers of a field without NaN; for min and max of a field without numbers, its texts or times."""
    figures = _figures(found)
    if not figures and fn in ("min", "max"):
        others = [t for t in found if t.kind in ("text", "ts", "level")]
        if others:
            return _comparable(others[0])
    if not figures:
        return pa.nulls(n, pa.float64())
    if all(t.kind == "int" for t in figures):
        return merged(figures, n)
    if all(t.kind in ("int", "decimal") for t in figures):
        whole = joined(figures, n)
        if all(v is None or -(10**38) < v < 10**38 for v in whole):
            return pa.array(whole, DECIMAL)
    return _without_nan(float_values(figures, n))


def _without_nan(array: pa.Array) -> pa.Array:
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def _filled(table: pa.Table, buckets: Buckets, keys: list[str], stats: Sequence[BStat]) -> pa.Table:
    """The table with a row for every bucket, for each group that has rows."""
    groups = _group_numbers(table, keys)
    n_groups = int(groups.max(initial=-1)) + 1 if keys else 1
    _check_few(buckets, n_groups)
    n = n_groups * buckets.count
    bucket = np.asarray(table.column("b").cast(pa.int64()), np.int64)
    place = np.full(n, -1, np.int64)
    place[bucket * n_groups + groups] = np.arange(table.num_rows)
    filled = table.take(pa.array(place, mask=place < 0))
    filled = _set(filled, "b", pa.array(np.repeat(np.arange(buckets.count), n_groups)))
    first_of_group = np.full(n_groups, 0, np.int64)
    first_of_group[groups[::-1]] = np.arange(table.num_rows)[::-1]
    for key in keys:
        filled = _set(filled, key, table.column(key).take(pa.array(np.tile(first_of_group, buckets.count))))
    for i, stat in enumerate(stats):
        if stat.fn == "count":
            filled = _set(filled, f"s{i}", filled.column(f"s{i}").fill_null(0))
    return _set(filled, "b", pa.array(np.repeat(buckets.starts(), n_groups)))


def _check_few(buckets: Buckets, n_groups: int = 1) -> None:
    if n_groups * buckets.count > MAX_BUCKETS:
        of_groups = f" of {n_groups:,} groups" if n_groups > 1 else ""
        raise QueryError(
            f"{buckets.count:,} buckets{of_groups} are over {MAX_BUCKETS:,} rows: "
            "use a longer `every` or a shorter time range"
        )


def _group_numbers(table: pa.Table, keys: list[str]) -> npt.NDArray[np.int64]:
    """Number of each row's group, in the order of the keys with missing ones last."""
    if not keys:
        return np.zeros(table.num_rows, np.int64)
    ordering = pc.sort_indices(table, [(key, "ascending") for key in keys])
    rows = table.select(keys).take(ordering)
    seen: dict[tuple[Any, ...], int] = {}
    numbers = np.empty(table.num_rows, np.int64)
    for at, row in zip(np.asarray(ordering), rows.to_pylist(), strict=True):
        key = tuple("NaN" if v != v else (type(v), v) for v in row.values())
        numbers[at] = seen.setdefault(key, len(seen))
    return numbers


def _set(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _part(
    table: pa.Table, query: BoundQuery, groups: Sequence[Group], extremes: Sequence[Coded | None]
) -> TablePart:
    """The finished table under its output names."""
    found: dict[str, dict[str, tuple[Any, str]]] = {}
    if query.every_ns is not None:
        found["ts"] = {"ts": (table.column("b").cast(TIMES), "ts")}
    for i, group in enumerate(groups):
        found[group.column.name] = _pieces(group, table.column(f"g{i}"))
    for i, (stat, numbers) in enumerate(zip(query.stats, extremes, strict=True)):
        column = table.column(f"s{i}")
        found[stat.name] = (
            {stat.name: _result(column, stat)} if numbers is None else _in_pieces(stat.name, numbers, column)
        )
    made = {name: one for pieces in found.values() for name, one in pieces.items()}
    return TablePart(
        pa.table({name: array for name, (array, _) in made.items()}),
        {name: kind for name, (_, kind) in made.items()},
        {name: list(pieces) for name, pieces in found.items()},
    )


def _pieces(group: Group, keys: Any) -> dict[str, tuple[Any, str]]:
    """A group column by physical name, each with its kind: whole, or in pieces where it holds several kinds."""
    name, is_level = group.column.name, group.column.type == "level"
    if group.coded is not None:
        return _in_pieces(name, group.coded, keys, is_level=is_level)
    named = name if not is_level or group.kind == "level" else piece_name(name, group.kind)
    return {named: (keys.cast(_SHOWN.get(group.kind, keys.type)), group.kind)}


def _in_pieces(name: str, coded: Coded, codes: Any, *, is_level: bool = False) -> dict[str, tuple[Any, str]]:
    found = dict(coded.pieces(codes.to_pylist()))
    # A severity is whole where it holds nothing but ranks, so that words in it are known as such.
    is_whole = len(found) == 1 and (not is_level or "level" in found)
    return {name if is_whole else piece_name(name, kind): (array, kind) for kind, array in found.items()}


def _result(column: Any, stat: BStat) -> tuple[Any, str]:
    """A statistic with its type; whole sums that fit are int64, larger ones decimal text."""
    of_type = stat.column.type if stat.column is not None and stat.fn in ("min", "max") else ""
    if of_type == "ts":
        return column.cast(TIMES), "ts"
    if of_type == "level" and pa.types.is_integer(column.type):
        return column.cast(pa.uint8()), "level"
    if not pa.types.is_decimal(column.type):
        return column, arrow_kind(column.type)
    try:
        return column.cast(pa.int64()), "int"
    except pa.ArrowInvalid:
        return pa.array(
            [None if v is None else str(int(v)) for v in column.to_pylist()], pa.string()
        ), "decimal"
