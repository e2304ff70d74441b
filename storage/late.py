"""Sidecars of a segment: vectors and signal columns that came after it was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .arrow_file import ArrowFile, read_lists, write_lists
from .batch import Vectors
from .columns import field_stats, is_text
from .files import Files
from .meta import LateFile
from .vectors import no_vectors, vectors_from_arrow, vectors_to_arrow

VECTOR, SIGNAL = "vector.", "signal."
"""Prefixes of the two sorts of columns in a sidecar."""


@dataclass(frozen=True, slots=True)
class LateColumns:
    """What the sidecars of a segment hold: vectors in the order they came, of each signal the last."""

    vectors: list[Vectors]
    signals: dict[str, pa.Array]


def late_name(number: int) -> str:
    """Give the name of sidecar `number` of a segment."""
    return f"late-{number:04d}.arrow"


def write_late(
    files: Files,
    directory: Path,
    number: int,
    *,
    vectors: Vectors | None,
    signals: Mapping[str, pa.Array] | None,
) -> LateFile:
    """Write sidecar `number` of the segment in `directory`, durable on return.

    vectors: of keys that the segment lacked. signals: whole columns, a value a row of the segment in row
    order.
    """
    vectors = vectors if vectors is not None else no_vectors()
    columns = {VECTOR + name: array for name, array in vectors_to_arrow(vectors).items()}
    signals = {name: _decoded(array) for name, array in (signals or {}).items()}
    columns.update({SIGNAL + name: array for name, array in sorted(signals.items())})
    path, facts = directory / late_name(number), {"vectors": len(vectors)}
    stored = write_lists(files, path, columns, kind="late", facts=facts)
    files.fsync_dir(directory)
    stats = {name: field_stats(array) for name, array in sorted(signals.items())}
    return LateFile(stored, len(vectors), stats)


def read_late(files: Sequence[ArrowFile], n_rows: int) -> LateColumns:
    """Give what the sidecars of a segment of `n_rows` events hold, in the order they came."""
    found = LateColumns([], {})
    for file in files:
        columns = read_lists(file)
        plain = {
            name.removeprefix(VECTOR): array for name, array in columns.items() if name.startswith(VECTOR)
        }
        found.vectors.append(vectors_from_arrow(plain))
        for name, array in columns.items():
            if not name.startswith(SIGNAL):
                continue
            if len(array) != n_rows:
                raise file.damage(f"{name} has {len(array)} rows, the segment {n_rows}")
            coded = array.dictionary_encode() if is_text(array.type) else array
            found.signals[name.removeprefix(SIGNAL)] = coded
    return found


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
