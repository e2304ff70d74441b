"""Which texts use which vector, which rows have which template, and filters: all of it follows from other files."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from .arrow_file import ArrowFile, read_lists, write_lists
from .batch import Int32s, Int64s
from .files import Files
from .packing import Unpacked, pack_columns
from .part import Postings
from .rows import Rows
from .stored_file import StoredFile
from .sums import Sums

_TWINS = {"template_offsets": "vector_offsets", "template_row": "vector_row"}
"""Columns that are equal where each event embeds its body only, and that as its template."""


def write_post(
    files: Files,
    path: Path,
    part: Rows,
    *,
    filters: tuple[Mapping[str, pa.Array], Mapping[str, str]],
    sums: MutableMapping[str, Sums] | None = None,
) -> StoredFile:
    """Write the postings and the templates of a part, and its filters (`bloom_columns`)."""
    postings = part.postings()
    template_offsets, template_row = part.template_rows()
    columns = {
        "vector_offsets": pa.array(postings.offsets),
        "vector_row": pa.array(postings.row),
        "vector_field": pa.array(postings.field),
        "template_offsets": pa.array(template_offsets),
        "template_row": pa.array(template_row),
    }
    stored, packed = pack_columns(columns, _TWINS)
    words, owners = filters
    facts = {"rows": part.n_rows, "packed": packed, "blooms": owners}
    return write_lists(files, path, {**stored, **words}, kind="post", facts=facts, sums=sums)


def read_postings(file: ArrowFile, n_rows: int, n_vectors: int) -> Postings:
    """Give where each vector is used. Raises DamageError."""
    columns = _columns(file, n_rows)
    offsets = columns.numbers("vector_offsets")
    if len(offsets) != n_vectors + 1:
        raise file.damage(f"it has {len(offsets) - 1} vectors, the dictionary {n_vectors}")
    return Postings(offsets, columns.numbers("vector_row"), columns.numbers("vector_field"))


def read_template_rows(file: ArrowFile, n_rows: int) -> tuple[Int64s, Int32s]:
    """Give offsets int64 (templates + 1) and the rows of each template. Raises DamageError."""
    columns = _columns(file, n_rows)
    offsets, rows = columns.numbers("template_offsets"), columns.numbers("template_row")
    return np.asarray(offsets, np.int64), np.asarray(rows, np.int32)


def _columns(file: ArrowFile, n_rows: int) -> Unpacked:
    file.expect_rows(n_rows)
    return Unpacked(read_lists(file), file.facts.get("packed", {}))
