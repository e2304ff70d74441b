"""Deletion files: what of a segment is gone, though still in its files, until the segment is rewritten.

Byte layout: `docs/format/del.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from .arrow_file import ArrowFile, map_file, read_lists, write_lists
from .batch import Int32s
from .damage import origin_of
from .files import Files, as_store_error
from .meta import Deletion, SegmentMeta
from .sums import Checks
from .vectors import flat_view


@dataclass(frozen=True, slots=True)
class Derived:
    """Signals that may be made of a vector: those of `columns`, in rows whose column `label` is `value`.

    Where a vector is forgotten they go too, and are made again of the vector that takes its place.
    """

    label: str
    value: str
    columns: tuple[str, ...]

    def to_json(self) -> Mapping[str, Any]:
        """Give the JSON object that `from_json` reads."""
        return {"label": self.label, "value": self.value, "columns": list(self.columns)}

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave."""
        return cls(obj["label"], obj["value"], tuple(obj["columns"]))


@dataclass(frozen=True, slots=True)
class Gone:
    """What of a segment is gone.

    rows: int32, ascending, distinct; all that were ever deleted from this segment. vectors: int32, ascending,
    distinct places in its dictionary: vectors that were made of a deleted event's text, to be forgotten.
    """

    rows: Int32s
    vectors: Int32s
    derived: tuple[Derived, ...] = ()

    @classmethod
    def nothing(cls) -> Self:
        """Give what is gone of a segment that is whole."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32))

    def __or__(self, other: Gone) -> Gone:
        """Give what is gone by either."""
        return Gone(
            np.union1d(self.rows, other.rows).astype(np.int32),
            np.union1d(self.vectors, other.vectors).astype(np.int32),
            tuple(dict.fromkeys((*self.derived, *other.derived))),
        )


def write_deletion(files: Files, path: Path, gone: Gone) -> Deletion:
    """Write a deletion file, durable on return but for the entry of its directory."""
    columns = {"rows": pa.array(gone.rows, pa.int32()), "vectors": pa.array(gone.vectors, pa.int32())}
    facts = {"derived": [one.to_json() for one in gone.derived]}
    stored = write_lists(files, path, columns, kind="del", facts=facts)
    return Deletion(stored, len(gone.rows), len(gone.vectors))


def read_deletion(files: Files, directory: Path, meta: SegmentMeta) -> Gone:
    """Give what is gone of a segment. Raises DamageError: whoever cannot read it must not show the segment."""
    if meta.deleted is None:
        return Gone.nothing()
    stored = meta.deleted.file
    origin = origin_of(directory / stored.name, meta, is_derived=False)
    with as_store_error(origin.path, "read it"):
        buffer = map_file(files, directory, stored, origin)
    Checks(origin, buffer, stored, None).check_whole()
    file = ArrowFile(origin.path, buffer, "del", origin=origin)
    lists = read_lists(file)
    derived = tuple(Derived.from_json(one) for one in file.facts["derived"])
    gone = Gone(flat_view(lists["rows"], np.int32), flat_view(lists["vectors"], np.int32), derived)
    _check(file, gone, meta, meta.deleted)
    return gone


def _check(file: ArrowFile, gone: Gone, meta: SegmentMeta, deletion: Deletion) -> None:
    found = len(gone.rows), len(gone.vectors)
    if found != (deletion.n_rows, deletion.n_vectors):
        raise file.damage(
            f"it has {found[0]} rows and {found[1]} vectors, the manifest says {deletion.n_rows} and "
            f"{deletion.n_vectors}"
        )
    if not _rises_below(gone.rows, meta.n_rows):
        raise file.damage(f"its rows are not ascending numbers below {meta.n_rows}")


def _rises_below(rows: Int32s, n_rows: int) -> bool:
    return not len(rows) or bool(rows[0] >= 0 and rows[-1] < n_rows and (np.diff(rows) > 0).all())
