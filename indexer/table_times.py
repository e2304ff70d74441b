"""Event times of a table's rows, by the rules for records: the first usable of the fields that may hold one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.batch import TS_ORIGINS, Int64s, UInt8s

from .canonical import record_time, unit_ns
from .native_names import OBSERVED_PATHS, TIME_PATHS
from .times import MAX_NS, MIN_NS, SECOND_NS

_RECORD, _OBSERVED, _INGEST = (TS_ORIGINS.index(name) for name in ("record", "observed", "ingest"))
_UNIT_NS = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
_UNIT_BELOW = (
    (100_000_000_000, SECOND_NS),
    (100_000_000_000_000, 1_000_000),
    (100_000_000_000_000_000, 1_000),
)
"""Units of a bare number by its size, as `times.parse_epoch` tells them."""

Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class RowTimes:
    """ts_ns: int64, of every row. origin: where it comes from, an index into `TS_ORIGINS`."""

    ts_ns: Int64s
    origin: UInt8s


def stamps_of(table: pa.Table, tz: tzinfo) -> dict[str, tuple[Int64s, Bools]]:
    """Give the exact times of timestamp columns by name: nanoseconds, and which rows have one that fits.

    Columns without a zone only where `tz` is UTC: others are read as the texts they become.
    """
    found = {}
    for field in table.schema:
        if pa.types.is_timestamp(field.type) and (field.type.tz or tz is UTC):
            column = table.column(field.name)
            counts = np.asarray(pc.fill_null(column.cast(pa.int64()), 0))
            found[field.name] = _in_ns(counts, _UNIT_NS[field.type.unit], np.asarray(pc.is_valid(column)))
    return found


def row_times(
    columns: Mapping[str, pa.Array],
    stamps: Mapping[str, tuple[Int64s, Bools]],
    n_rows: int,
    *,
    now_ns: int,
    tz: tzinfo = UTC,
    path: str | None = None,
) -> RowTimes:
    """Give the time of each row; rows without a usable one get `now_ns`, with the origin `ingest`.

    columns: original fields, `path#type`. stamps: as `stamps_of` gives them. path: where the time stands, if the
    user says so.
    """
    times = RowTimes(np.full(n_rows, now_ns, np.int64), np.full(n_rows, _INGEST, np.uint8))
    for paths, origin in (
        ((path,) if path else (), _RECORD),
        (TIME_PATHS, _RECORD),
        (OBSERVED_PATHS, _OBSERVED),
    ):
        for name in paths:
            if name in stamps:
                _fill(times, *stamps[name], origin)
                continue
            for code in ("i", "f", "s", "[i]"):
                column = columns.get(f"{name}#{code}")
                if column is not None and (times.origin == _INGEST).any():
                    _fill(
                        times, *(_epochs(column, name) if code == "i" else _parsed(column, name, tz)), origin
                    )
    return times


def _fill(times: RowTimes, ns: Int64s, is_usable: Bools, origin: int) -> None:
    rows = is_usable & (times.origin == _INGEST)
    times.ts_ns[rows] = ns[rows]
    times.origin[rows] = origin


def _epochs(column: pa.Array, name: str) -> tuple[Int64s, Bools]:
    counts, is_valid = np.asarray(pc.fill_null(column, 0)), np.asarray(column.is_valid())
    unit = unit_ns(name)
    if unit is not None:
        is_unknown = (counts == 0) & name.endswith("UnixNano")
        return _in_ns(counts, unit, is_valid & ~is_unknown)
    units = np.ones(len(counts), np.int64)
    for limit, size_ns in reversed(_UNIT_BELOW):
        units[(counts > -limit) & (counts < limit)] = size_ns
    return _in_ns(counts, units, is_valid)


def _in_ns(counts: Int64s, unit: int | Int64s, is_valid: Bools) -> tuple[Int64s, Bools]:
    """Give counts of a unit as nanoseconds, and which are given and fit into 64 bits."""
    fits = (counts <= MAX_NS // unit) & (counts >= -(-MIN_NS // unit))
    with np.errstate(over="ignore"):
        return counts * unit, is_valid & fits


def _parsed(column: pa.Array, name: str, tz: tzinfo) -> tuple[Int64s, Bools]:
    key = name.rpartition(".")[2]  # the last step tells the unit; the way to it is gone already
    read = [
        (0, _INGEST) if v is None else record_time({key: v}, 0, tz=tz, path=key) for v in column.to_pylist()
    ]
    ns = np.array([time for time, _ in read], np.int64)
    return ns, np.array([origin != _INGEST for _, origin in read], np.bool_)
