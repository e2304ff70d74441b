"""The columns of a damaged segment: every value that can be read, and how many of each column cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_file import ArrowFile
from .columns import concat, plain
from .deletion import Gone
from .errors import DamageError
from .packing import unpack
from .residual import RESIDUAL
from .spans import cut_spans
from .wreck import Bools, Wreck, blanked


@dataclass(slots=True)
class ReadColumns:
    """Columns of `n_rows` by name, null where a value cannot be read; equal ones are one object.

    lost: by column, in which rows it cannot be read, bool (n); only columns that have such rows.
    """

    n_rows: int
    columns: dict[str, pa.Array] = field(default_factory=dict)
    lost: dict[str, Bools] = field(default_factory=dict)

    def put(self, name: str, array: pa.Array, lost: Bools) -> None:
        """Add a column."""
        self.columns[name] = array
        self.lost.pop(name, None)
        if lost.any():
            self.lost[name] = lost

    def lose(self, name: str) -> None:
        """Say that nothing of a column can be read."""
        self.columns.pop(name, None)
        self.lost[name] = np.ones(self.n_rows, np.bool_)

    def has(self, name: str) -> Bools:
        """Give in which rows a column can be read, whether they have a value or not."""
        lost = self.lost.get(name)
        return np.ones(self.n_rows, np.bool_) if lost is None else ~lost


def read_hot(wreck: Wreck, n_rows: int) -> ReadColumns:
    """Read the columns of hot.arrow, internal ones included."""
    file, found = wreck.file, ReadColumns(n_rows)
    packed = file.facts.get("packed", {})
    for name in sorted({*file.schema.names, *packed}):
        owner = name
        while "like" in packed.get(owner, {}):
            owner = packed[owner]["like"]
        if owner not in found.columns and owner not in found.lost:
            _read_owner(wreck, found, owner, packed.get(owner))
        if owner != name:
            _copy(found, owner, name)
    for name, owner in file.facts["aliases"].items():
        _copy(found, owner, name)
    return found


def _read_owner(wreck: Wreck, found: ReadColumns, name: str, fact: Mapping[str, object] | None) -> None:
    stored = wreck.file.schema.get_field_index(name) >= 0
    none = np.zeros(found.n_rows, np.bool_)
    if not stored:
        assert fact is not None
        found.put(name, unpack(dict(fact), None), none)
        return
    lost = wreck.lost_rows(name, found.n_rows)
    try:
        array = wreck.file.unchecked(name)
    except DamageError:
        found.lose(name)
        return
    if lost.all():
        found.lose(name)
        return
    array = blanked(array, lost)
    found.put(name, array if fact is None else unpack(dict(fact), array), lost)


def _copy(found: ReadColumns, owner: str, name: str) -> None:
    if owner in found.columns:
        found.columns[name] = found.columns[owner]
    if owner in found.lost:
        found.lost[name] = found.lost[owner]


def read_text(wreck: Wreck, n_rows: int) -> ReadColumns:
    """Read the columns of text.arrow; what is in a residual stays there, as the column `~residual`."""
    file, found = wreck.file, ReadColumns(n_rows)
    batch_rows = int(file.facts["batch_rows"])
    for name in file.schema.names:
        _put_pieces(
            found, name, [_piece(file, name, n, batch_rows, n_rows) for n in _numbers(n_rows, batch_rows)]
        )
    for name, owner in file.facts["spans"].items():
        _put_span(found, name, owner)
    for name, owner in file.facts["aliases"].items():
        _copy(found, owner, name)
    for name in file.facts["overflow"]:
        if RESIDUAL in found.lost:
            found.lost[name] = found.lost[RESIDUAL]
    found.lost.pop(RESIDUAL, None)
    return found


def _numbers(n_rows: int, batch_rows: int) -> range:
    return range(-(-n_rows // batch_rows))


def _piece(file: ArrowFile, name: str, number: int, batch_rows: int, n_rows: int) -> pa.Array | int:
    """Give a column of one batch, or how many rows it would have."""
    expected = min(batch_rows, n_rows - number * batch_rows)
    if number >= file.n_batches:
        return expected
    try:
        array = file.batch_column(number, name)
    except DamageError:
        return expected
    return array if len(array) == expected else expected


def _put_pieces(found: ReadColumns, name: str, pieces: list[pa.Array | int]) -> None:
    kinds = [piece.type for piece in pieces if not isinstance(piece, int)]
    if not kinds:
        if pieces:
            found.lose(name)
        return
    lost = [np.full(n, isinstance(one, int)) for one, n in zip(pieces, _lengths(pieces), strict=True)]
    arrays = [pa.nulls(one, kinds[0]) if isinstance(one, int) else one for one in pieces]
    found.put(name, concat(arrays), np.concatenate(lost))


def _lengths(pieces: list[pa.Array | int]) -> Iterator[int]:
    return (piece if isinstance(piece, int) else len(piece) for piece in pieces)


def _put_span(found: ReadColumns, name: str, owner: str) -> None:
    """Cut the texts that stand in another column, in rows where all of it can be read."""
    sides = [f"{name}~start", f"{name}~length"]
    has = found.has(owner) & found.has(sides[0]) & found.has(sides[1])
    arrays = [found.columns.get(side) for side in sides]
    for side in sides:
        found.columns.pop(side, None)
        found.lost.pop(side, None)
    whole = found.columns.get(owner)
    if whole is None or arrays[0] is None or arrays[1] is None or not has.any():
        found.lose(name)
        return
    start, length = (blanked(array, ~has) for array in arrays)
    found.put(name, cut_spans(whole, start, length), ~has)


def clear_derived(found: ReadColumns, gone: Gone) -> None:
    """Take out the signals that may be made of a vector that is to be forgotten."""
    for one in gone.derived:
        labels = found.columns.get(one.label)
        if labels is None and one.label not in found.lost:
            continue
        is_made = ~found.has(one.label)
        if labels is not None:
            same = pc.fill_null(pc.equal(plain(labels), one.value), False)
            is_made |= same.to_numpy(zero_copy_only=False)
        for name in {*one.columns, one.label} & found.columns.keys():
            found.columns[name] = blanked(found.columns[name], is_made)
