"""Which columns may lie in one part: those whose types agree, whatever the encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from .batch import ColumnBatch

Kinds = Mapping[str, pa.DataType]
"""Plain types of columns by name; a column without any value has none."""

_NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Give the type behind a dictionary, 64-bit offsets or names of list items."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return _NARROW.get(kind, kind)


def kinds_of(columns: Mapping[str, pa.Array]) -> Kinds:
    """Give the plain types of the columns that hold a value."""
    return {name: plain_type(array.type) for name, array in columns.items() if array.null_count < len(array)}


def agreeing_groups(kinds: Sequence[Kinds]) -> list[list[int]]:
    """Give groups of places in `kinds` that agree about every column, in order; each place is in one.

    Greedy: a place joins the first group that it fits.
    """
    groups: list[tuple[dict[str, pa.DataType], list[int]]] = []
    for place, own in enumerate(kinds):
        joined = next((group for group in groups if _agree(group[0], own)), None)
        if joined is None:
            groups.append((dict(own), [place]))
        else:
            joined[0].update(own)
            joined[1].append(place)
    return [places for _, places in groups]


def agreeing_runs(batches: Sequence[ColumnBatch]) -> list[list[ColumnBatch]]:
    """Cut batches where one disagrees with those before it."""
    runs: list[list[ColumnBatch]] = []
    held: dict[str, pa.DataType] = {}
    for batch in batches:
        own = kinds_of(batch.columns)
        if not runs or not _agree(held, own):
            runs.append([])
            held = {}
        held.update(own)
        runs[-1].append(batch)
    return runs


def _agree(first: Kinds, second: Kinds) -> bool:
    return all(first.get(name, kind) == kind for name, kind in second.items())
