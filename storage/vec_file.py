"""The dictionary of vectors as a file: what is wide is looked at only where somebody reads it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from .arrow_file import ArrowFile, write_arrow
from .files import Files
from .part import VectorTable
from .stored_file import StoredFile
from .sums import Integers, Sums
from .vectors import from_arrow, to_arrow

PLANES = ("codes", "rest")
"""Columns that are checked a few rows at a time, where `VectorTable.touch` says so."""

SIDES = ("heads", "qls")
"""Columns that are checked whole when first asked for: few queries do."""


def _checked(name: str) -> Any:
    slot = VectorTable.__dict__[name]

    def get(self: StoredVectors) -> Any:
        if self.look is not None:
            self.look(name)
        return slot.__get__(self, VectorTable)

    return property(get, slot.__set__)


class StoredVectors(VectorTable):
    """A dictionary whose arrays lie in a file. look: checks a column of it."""

    look: Callable[[str], None] | None = None
    heads = _checked("heads")
    qls = _checked("qls")


def write_vectors(
    files: Files, path: Path, table: VectorTable, *, sums: MutableMapping[str, Sums] | None = None
) -> StoredFile:
    """Write the dictionary of a part."""
    columns = to_arrow(table)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    facts = {"rows": len(table), "dim": table.dim}
    return write_arrow(files, path, batch.schema, [batch], kind="vec", facts=facts, sums=sums)


def read_vectors(file: ArrowFile) -> VectorTable:
    """Give the dictionary, views of the file. Raises DamageError, then and from its methods."""
    made = from_arrow(dict(file.columns()))
    file.expect_rows(len(made))
    if "rest" not in file.schema.names:
        # Format 1: the file was checked whole, and the planes are made of it.
        return made
    table = StoredVectors(**{name: getattr(made, name) for name in VectorTable.__slots__})

    def look(name: str) -> None:
        if name in file.schema.names:
            file.check_column(0, name)

    def guard(rows: Integers | None) -> None:
        for name in PLANES:
            file.check_rows(name, rows)

    table.look, table.guard = look, guard
    return table
