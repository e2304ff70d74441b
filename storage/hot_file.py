"""The uncompressed columns of a segment: mapped in place, or packed and made whole when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow_file import ArrowFile, write_arrow
from .columns import Placed, find_owners, shrink_codes
from .files import Files
from .packing import Packed, Rows, Unpacked, pack_columns, packed_type
from .stored_file import Json, StoredFile
from .sums import Sums

VEC_ID, TEMPLATE_ID = "vec_id", "template_id"

INTERNAL = frozenset((VEC_ID, TEMPLATE_ID, "shard"))
"""Columns that are no fields of events; `shard` in files of format 1."""

Int32s = npt.NDArray[np.int32]


def write_hot(
    files: Files,
    path: Path,
    placed: Placed,
    n_rows: int,
    *,
    vec_of_row: Int32s,
    template_of_row: Int32s,
    sums: MutableMapping[str, Sums] | None = None,
) -> StoredFile:
    """Write the hot columns of a part and the vector and the template of each row."""
    hot = placed.hot
    owners = find_owners(hot)
    columns = {
        "ts": hot["ts"],
        "seq": hot["seq"],
        VEC_ID: pa.array(vec_of_row),
        TEMPLATE_ID: pa.array(template_of_row),
    }
    for name in sorted(hot):
        if owners[name] == name and name not in columns:
            array = hot[name]
            columns[name] = shrink_codes(array) if pa.types.is_dictionary(array.type) else array
    # Times are searched by bisection, which touches few of them: they stay as they are.
    ts = {"ts": columns.pop("ts")}
    stored, packed = pack_columns(columns, twins={TEMPLATE_ID: VEC_ID})
    stored = ts | stored
    batch = pa.RecordBatch.from_arrays(list(stored.values()), names=list(stored))
    aliases = {name: owner for name, owner in sorted(owners.items()) if name != owner}
    facts = {"rows": n_rows, "aliases": aliases, "packed": packed}
    return write_arrow(files, path, batch.schema, [batch], kind="hot", facts=facts, sums=sums)


class HotFile(Mapping[str, pa.Array]):
    """The hot columns of an open segment by the names of fields; a packed one is made at each look."""

    def __init__(self, file: ArrowFile, n_rows: int) -> None:
        file.expect_rows(n_rows)
        self._file = file
        self._n_rows = n_rows
        self.aliases: Mapping[str, str] = file.facts["aliases"]
        self._packed: Packed = file.facts.get("packed", {})
        self._columns = Unpacked(file.columns(), self._packed)
        self._names = ({*file.schema.names, *self._packed, *self.aliases}) - INTERNAL

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._names:
            raise KeyError(name)
        return self.column(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def column(self, name: str, rows: Rows | None = None) -> pa.Array:
        """Give a column, also an internal one, whole or at `rows`."""
        array = self._columns.column(self.aliases.get(name, name), rows)
        expected = self._n_rows if rows is None else len(rows)
        if len(array) != expected:
            raise self._file.damage(f"its column {name} has {len(array)} rows, expected {expected}")
        return array

    def is_packed(self, name: str) -> bool:
        """Whether a look at this column takes memory of its own."""
        return self._columns.is_packed(self.aliases.get(name, name))

    def kind(self, name: str) -> pa.DataType:
        """Give the type of a column."""
        name = self._columns.owner(self.aliases.get(name, name))
        fact: Json | None = self._packed.get(name)
        return self._file.schema.field(name).type if fact is None else packed_type(fact)


def overlaid(hot: HotFile, signals: Mapping[str, pa.Array]) -> Mapping[str, pa.Array]:
    """Give the hot columns with those that came late, which count instead of older ones of their name."""
    return _Overlaid(hot, signals) if signals else hot


class _Overlaid(Mapping[str, pa.Array]):
    def __init__(self, hot: HotFile, signals: Mapping[str, pa.Array]) -> None:
        self._hot = hot
        self._signals = signals

    def __getitem__(self, name: str) -> pa.Array:
        return self._signals[name] if name in self._signals else self._hot[name]

    def __contains__(self, name: object) -> bool:
        return name in self._signals or name in self._hot

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._hot), **dict.fromkeys(self._signals)})

    def __len__(self) -> int:
        return len(list(iter(self)))
