"""A column of a table of statistics that holds several types: one physical column for each of them."""

from __future__ import annotations

import pyarrow as pa

from .bound import Column

MARK = "\0"
"""Between the name of a column and the kind of a piece; `bind` refuses a name that reads as one."""

PIECE_TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "decimal": pa.string(),
    "level": pa.uint8(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "ts": pa.timestamp("ns", "UTC"),
    "object": pa.bool_(),
    **{
        f"list of {kind}": pa.list_(item)
        for kind, item in (
            ("int", pa.int64()),
            ("float", pa.float64()),
            ("decimal", pa.string()),
            ("bool", pa.bool_()),
            ("text", pa.string()),
        )
    },
}
"""Arrow type of each kind of a piece."""

_TYPES = {"int": "number", "float": "number", "decimal": "number", "level": "level", "text": "text"}


def piece_name(name: str, kind: str) -> str:
    """Physical name of the values of one kind of a column."""
    return f"{name}{MARK}{kind}"


def pieces_of(name: str) -> tuple[str, ...]:
    """Every physical name that the values of a column can have: whole, or in pieces."""
    return (name, *(piece_name(name, kind) for kind in PIECE_TYPES))


def type_of_piece(physical: str) -> str:
    """Type of a piece as conditions see it; empty for what is no piece."""
    kind = physical.rpartition(MARK)[2] if MARK in physical else ""
    return _TYPES.get(kind, "")


def severity_codes(column: Column) -> tuple[str, ...]:
    """The physical columns of a severity that hold its rank: the store's, or those of a table of statistics."""
    if any(MARK in physical for physical in column.physical):
        return tuple(p for p in column.physical if MARK not in p or type_of_piece(p) == "level")
    return tuple(p for p in column.physical if p == "level")
