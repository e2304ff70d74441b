"""Partition columns: their distinct values in a segment, which the manifest lists."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from .columns import Placed, is_text
from .schema import split_physical

Partitions = Mapping[str, tuple[str, ...] | None]
"""By physical column: its distinct values, ascending; None: too many to list. A column that is absent is unknown."""

PARTITION_FIELDS = ("tenant_id", "model_version", "intent_tag")
"""Canonical fields by which events are set apart. Source: system S04."""

MAX_VALUES = 64
"""So many values are listed; more would make an entry of the manifest larger than all else it says."""

MAX_BYTES = 4096
"""Nor are values listed that take more UTF-8 bytes together."""


def partition_values(placed: Placed) -> dict[str, tuple[str, ...] | None]:
    """Give the values of the partition columns that hold any, and of their like.

    The like: original texts all of whose values are values of one partition column, as are those that it was
    made of. A query that names such a field asks both columns.
    """
    columns = {**placed.cold, **placed.hot}
    found: dict[str, tuple[str, ...] | None] = {
        name: _values(columns[name])
        for name in PARTITION_FIELDS
        if name in placed.fields and placed.fields[name].n
    }
    known = [frozenset(values) for values in found.values() if values is not None]
    for name in placed.fields.keys() & placed.hot.keys() if known else ():
        values = _values(placed.hot[name]) if split_physical(name)[1] == "s" else None
        if values is not None and any(one.issuperset(values) for one in known):
            found[name] = values
    return dict(sorted(found.items()))


def _values(array: pa.Array) -> tuple[str, ...] | None:
    """Give the distinct values, ascending by code point; None where there are too many, or no texts."""
    is_coded = pa.types.is_dictionary(array.type)
    texts = array.dictionary if is_coded else array
    if not is_text(texts.type) or (is_coded and len(texts) > MAX_VALUES):
        return None
    distinct = pc.unique(texts).drop_null()
    if len(distinct) > MAX_VALUES or (pc.sum(pc.binary_length(distinct)).as_py() or 0) > MAX_BYTES:
        return None
    return tuple(sorted(distinct.to_pylist()))
