"""Statistics by group and time bucket, computed by DuckDB over the needed columns of the matching rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.errors import QueryError

from .bound import BoundQuery, BStat, Column
from .duck import calculator, fetch_arrow
from .field_values import Typed, float_values, joined, merged, typed_values
from .group_keys import Coded, coded, signless
from .kinds import NUMBERS, arrow_kind
from .pieces import piece_name
from .rows import Rows
from .table_part import TablePart
from .times import parse_zone

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


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets of equal width in ns: bucket i is `[origin + i * width, origin + (i + 1) * width)`."""

    origin: int
    width: int
    count: int


def aggregate(rows: Rows, query: BoundQuery) -> TablePart:
    """Give one row a group with the statistics of a stage, by bucket and keys, missing keys last.

    `count` is 0 and every other statistic null where there is nothing; NaN is skipped, and rows without a
    number do not count for statistics of numbers. `count(f)` counts values of any type, `distinct(f)`
    differing ones. With `every`, buckets are aligned to midnight in the query's zone as it is at the first
    bucket (a change of clocks later moves none), and those without rows are filled in, for each group that
    has any.
    """
    buckets = None if query.every_ns is None else _buckets(rows, query)
    groups = [_group(rows, column) for column in query.by]
    table = _grouped(rows, query, groups, buckets)
    if buckets is not None:
        table = _filled(table, buckets, [f"g{i}" for i in range(len(groups))], query.stats)
    return _part(table, query, groups)


def count_rows(n: int, query: BoundQuery) -> TablePart:
    """Statistics of a stage that only counts rows."""
    table = pa.table({stat.name: pa.array([n], pa.int64()) for stat in query.stats})
    return TablePart(table, {stat.name: "int" for stat in query.stats})


def only_counts(query: BoundQuery) -> bool:
    """Whether a stage needs to know no more than how many rows there are."""
    plain = all(stat.fn == "count" and stat.column is None for stat in query.stats)
    return bool(query.stats) and plain and not query.by and query.every_ns is None


def _buckets(rows: Rows, query: BoundQuery) -> Buckets | None:
    """The buckets of the asked range; where it is open, from or to the rows there are."""
    width = query.every_ns or 1
    first = query.start_ns if query.start_ns is not None else (int(rows.ts.min()) if len(rows) else None)
    last = query.end_ns - 1 if query.end_ns is not None else (int(rows.ts.max()) if len(rows) else None)
    if first is None or last is None or last < first:
        return Buckets(0, width, 0)
    shift = zone_offset_ns(query.tz, first)
    origin = (first + shift) // width * width - shift
    return Buckets(origin, width, (last - origin) // width + 1)


def zone_offset_ns(zone: str, ts_ns: int) -> int:
    """How far a zone's clocks are ahead of UTC at a time."""
    offset = datetime.fromtimestamp(ts_ns // 10**9, UTC).astimezone(parse_zone(zone)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds()) * 10**9


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


def _grouped(rows: Rows, query: BoundQuery, groups: Sequence[Group], buckets: Buckets | None) -> pa.Table:
    """The statistics of groups that have rows: bucket number `b`, keys `g0 ...`, statistics `s0 ...`."""
    columns: dict[str, pa.Array] = {f"g{i}": group.keys for i, group in enumerate(groups)}
    if buckets is not None:
        columns["b"] = pa.array((rows.ts - buckets.origin) // buckets.width)
    by = [*(["b"] if buckets is not None else []), *(f"g{i}" for i in range(len(groups)))]
    formulas = []
    for i, stat in enumerate(query.stats):
        formula, argument = _formula(rows, stat, f"v{i}")
        if argument is not None:
            columns[f"v{i}"] = argument
        formulas.append(f"{formula} AS s{i}")
    columns["one"] = pa.array(np.ones(len(rows), np.int8))
    keys = "".join(f"{name}, " for name in by)
    grouping = f" GROUP BY {', '.join(by)} ORDER BY {', '.join(f'{k} NULLS LAST' for k in by)}" if by else ""
    connection = calculator()
    try:
        connection.register("matching", pa.table(columns))
        return fetch_arrow(connection, f"SELECT {keys}{', '.join(formulas)} FROM matching{grouping}")
    finally:
        connection.close()


def _formula(rows: Rows, stat: BStat, name: str) -> tuple[str, pa.Array | None]:
    """The SQL of a statistic over the column `name`, and that column."""
    if stat.column is None:
        return "count(*)", None
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
    codes = coded(found, n)
    is_number = np.array([value == value for value in codes.values] + [False], np.bool_)
    return pa.array(codes.codes, mask=~is_number[codes.codes])


def _argument(found: Sequence[Typed], fn: str, n: int) -> pa.Array:
    """The numbers of a field without NaN; for min and max of a field without numbers, its texts or times."""
    figures = [t for t in found if t.kind in NUMBERS and t.kind != "ts"]
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
        if all(v is None or abs(v) < 10**38 for v in whole):
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
    n = n_groups * buckets.count
    if n > MAX_BUCKETS:
        raise QueryError(
            f"{buckets.count:,} buckets of {n_groups:,} groups are over {MAX_BUCKETS:,} rows: "
            "use a longer `every` or a shorter time range"
        )
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
    start = buckets.origin + np.repeat(np.arange(buckets.count), n_groups) * buckets.width
    return _set(filled, "b", pa.array(start.astype(np.int64)))


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


def _part(table: pa.Table, query: BoundQuery, groups: Sequence[Group]) -> TablePart:
    """The finished table under its output names."""
    columns: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    outputs: dict[str, list[str]] = {}
    if query.every_ns is not None:
        columns["ts"], kinds["ts"] = table.column("b").cast(TIMES), "ts"
        outputs["ts"] = ["ts"]
    for i, group in enumerate(groups):
        pieces = _pieces(group, table.column(f"g{i}"))
        outputs[group.column.name] = list(pieces)
        columns |= {name: array for name, (array, _) in pieces.items()}
        kinds |= {name: kind for name, (_, kind) in pieces.items()}
    for i, stat in enumerate(query.stats):
        columns[stat.name], kinds[stat.name] = _result(table.column(f"s{i}"), stat)
        outputs[stat.name] = [stat.name]
    return TablePart(pa.table(columns), kinds, outputs)


def _pieces(group: Group, keys: Any) -> dict[str, tuple[Any, str]]:
    """A group column by physical name, each with its kind: whole, or in pieces where it holds several kinds."""
    name = group.column.name
    if group.coded is None:
        found = {group.kind: keys.cast(_SHOWN.get(group.kind, keys.type))}
    else:
        found = dict(group.coded.pieces(keys.to_pylist()))
    # A severity is whole where it holds nothing but ranks, so that words in it are known as such.
    is_whole = len(found) == 1 and (group.column.type != "level" or "level" in found)
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
