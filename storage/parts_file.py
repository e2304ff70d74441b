"""Which texts each event embeds, and the keys of templates: what no other file of the segment says."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from .arrow_file import ArrowFile, read_lists, write_lists
from .batch import KEY, Int32s, Keys
from .files import Files
from .packing import Unpacked, pack_columns
from .postings import PartsTable
from .stored_file import StoredFile
from .sums import Sums
from .vectors import fixed_binary, flat_view, view_rows


def write_parts(
    files: Files,
    path: Path,
    table: PartsTable,
    *,
    vec_of_row: Int32s,
    template_keys: Keys,
    sums: MutableMapping[str, Sums] | None = None,
) -> StoredFile:
    """Write the parts table of a part and the keys of its templates."""
    columns = {"field": pa.array(table.field), "chunk": pa.array(table.chunk)}
    is_primary_only = _is_primary_only(table, vec_of_row)
    if not is_primary_only:
        counts = np.bincount(table.row, minlength=len(vec_of_row))
        columns |= {"count": pa.array(counts), "vec": pa.array(table.vec), "primary": pa.array(table.primary)}
    stored, packed = pack_columns(columns)
    stored["template_keys"] = fixed_binary(template_keys)
    facts = {"rows": len(vec_of_row), "primary_only": is_primary_only, "packed": packed}
    return write_lists(files, path, stored, kind="parts", facts=facts, sums=sums)


def read_parts(file: ArrowFile, vec_of_row: Int32s) -> PartsTable:
    """Give the parts table. Raises DamageError."""
    columns = Unpacked(read_lists(file), file.facts["packed"])
    field, chunk = columns.numbers("field"), columns.numbers("chunk")
    if file.facts["primary_only"]:
        row = np.flatnonzero(vec_of_row >= 0).astype(np.int32)
        return PartsTable(row, field, chunk, vec_of_row[row], np.ones(len(row), np.bool_))
    counts = columns.numbers("count")
    row = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return PartsTable(row, field, chunk, columns.numbers("vec"), columns.numbers("primary"))


def read_template_keys(file: ArrowFile) -> Keys:
    """Give the distinct template keys, ascending by (hi, lo)."""
    return view_rows(read_lists(file)["template_keys"], KEY)[:, 0]


def read_parts_of_format_1(file: ArrowFile) -> PartsTable:
    """Give the parts table of a post.arrow of format 1. Raises DamageError."""
    lists = read_lists(file)
    return PartsTable(
        flat_view(lists["parts_row"], np.int32),
        flat_view(lists["parts_field"], np.uint8),
        flat_view(lists["parts_chunk"], np.int16),
        flat_view(lists["parts_vec"], np.int32),
        flat_view(lists["parts_primary"], np.uint8).view(np.bool_),
    )


def _is_primary_only(table: PartsTable, vec_of_row: Int32s) -> bool:
    """Whether the table follows from the vector of each row, but for field and chunk."""
    row = np.flatnonzero(vec_of_row >= 0)
    return len(table) == len(row) and bool(table.primary.all()) and bool((table.row == row).all())
