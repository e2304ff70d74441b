"""What a physical column holds, by its name and part."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from treering.storage.part import Part
from treering.storage.schema import FIELDS, PATH_TYPES, split_physical

from .bound import Column
from .pieces import MARK
from .table_part import TablePart

OF_CODE = {"i": "int", "f": "float", "b": "bool", "s": "text", "z": "decimal", "o": "object"}
LIST_OF_CODE = {"[i]": "int", "[f]": "float", "[b]": "bool", "[s]": "text", "[z]": "decimal"}
OF_FIELD = {"ts": "ts", "int": "int", "float": "float", "bool": "bool", "text": "text", "level": "level"}
LIST_OF_FIELD = {"texts": "text", "floats": "float"}

NUMBERS = frozenset(("int", "float", "decimal", "ts"))
"""Kinds that compare and rank as numbers."""


def kind_of(part: Part, name: str) -> str:
    """Kind of a column that the part holds.

    One of `int float decimal ts bool level text object`, or `list of` one of them; `decimal` is a whole
    number of any size as text. A list of several types is in as many columns (see `mixed_lists`).
    """
    if isinstance(part, TablePart):
        return part.kind(name)
    path, code = split_physical(name)
    if code in OF_CODE:
        return OF_CODE[code]
    if code in LIST_OF_CODE:
        return f"list of {LIST_OF_CODE[code]}"
    field = FIELDS.get(path)
    if field is None:
        return _signal_kind(part, name)
    if field.type in OF_FIELD:
        return OF_FIELD[field.type]
    return f"list of {LIST_OF_FIELD[field.type]}"


def _signal_kind(part: Part, name: str) -> str:
    """A signal is a number, or text for labels."""
    stats = part.fields.get(name)
    if stats is not None and stats.minimum is not None:
        return "float"
    if part.codes(name) is not None:
        return "text"
    return arrow_kind(part.column(name, np.empty(0, np.intp)).type)


def arrow_kind(type: pa.DataType) -> str:
    """Kind of an Arrow type that no name explains."""
    if pa.types.is_boolean(type):
        return "bool"
    if pa.types.is_integer(type):
        return "int"
    if pa.types.is_floating(type):
        return "float"
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return f"list of {arrow_kind(type.value_type)}"
    return "text"


def by_code(physical: Iterable[str]) -> tuple[str, ...]:
    """Columns of one path in the order in which they speak: a record may hold a list beside the value."""
    places = {code: place for place, code in enumerate(("", *PATH_TYPES))}
    return tuple(sorted(physical, key=lambda name: places[split_physical(name)[1]]))


def path_groups(column: Column) -> list[list[str]]:
    """The physical columns of a field by path, best path first.

    The columns of one path are one field that changes type, and any of them may answer; a later path only
    speaks for rows in which no earlier one has a value.
    """
    if column.type == "level":  # the ordered code and the original word stand for one another
        return [list(column.physical)]
    groups: dict[str, list[str]] = {}
    for name in column.physical:
        groups.setdefault(split_physical(name.partition(MARK)[0])[0], []).append(name)
    return list(groups.values())
