"""Payloads cut out of records, and put back: what is left of a record is its residue, and cuts say where they stood."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .batch import Int64s
from .columns import MAX_OFFSET, Placed
from .errors import DamageError
from .payload_runs import MIN_PAYLOAD_BYTES, find_runs
from .payloads import RECORD, HeldPayloads, Payloads, hold, join_payloads

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where payloads were cut out, int64 (k) each, by row and then as they stood.

    at: place in the row's residue. number: of the payload.
    """

    row: Int64s
    at: Int64s
    number: Int64s

    @classmethod
    def of(cls, column: pa.Array) -> Cuts:
        """Read a column `CUTS`."""
        items = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.int64)
        return cls(np.repeat(np.arange(len(column)), items // 2), flat[::2], flat[1::2])

    @classmethod
    def none(cls) -> Cuts:
        """Give no cuts."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing)

    def column(self, n_rows: int) -> pa.Array:
        """Give the column of so many rows."""
        items = 2 * np.bincount(self.row, minlength=n_rows)
        offsets = np.concatenate([[0], np.cumsum(items)]).astype(np.int32)
        flat = np.stack([self.at, self.number], axis=1).ravel()
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), mask=pa.array(items == 0))

    def chosen(self, which: Bools) -> Cuts:
        """Give some of them."""
        return Cuts(self.row[which], self.at[which], self.number[which])

    def moved(self, to: Int64s) -> Cuts:
        """Give the same with other numbers."""
        return Cuts(self.row, self.at, to[self.number])

    def joined(self, other: Cuts) -> Cuts:
        """Give the cuts of two sets of rows together."""
        row = np.concatenate([self.row, other.row])
        order = np.argsort(row, kind="stable")
        at, number = np.concatenate([self.at, other.at]), np.concatenate([self.number, other.number])
        return Cuts(row[order], at[order], number[order])


def cut_out(placed: Placed, payloads: Payloads) -> tuple[Placed, Payloads]:
    """Cut the payloads out of records that have not been cut yet. payloads: of those that have."""
    record = placed.cold.get(RECORD)
    if record is None or not (pa.types.is_binary(record.type) or pa.types.is_large_binary(record.type)):
        return placed, payloads
    known = None if placed.cuts is None else Cuts.of(placed.cuts)
    found = _cut_records(record, known)
    if found is None:
        return placed, payloads
    residue, cuts, held = found
    if known is not None:
        used = [np.arange(len(payloads)), np.arange(len(held))]
        payloads, (old, new) = join_payloads([payloads, held], used)
        cuts = known.moved(old).joined(cuts.moved(new))
    else:
        payloads = held
    column = cuts.column(len(record))
    return replace(placed, cold={**placed.cold, RECORD: residue}, cuts=column), payloads


def gather(
    columns: Sequence[pa.Array | None], payloads: Sequence[Payloads], lengths: Sequence[int]
) -> tuple[pa.Array | None, Payloads]:
    """Put columns `CUTS` (None: nothing was cut) one after the other, and together the payloads that they use.

    Gives no column where nothing is cut.
    """
    cuts = [Cuts.of(pa.nulls(0, pa.list_(pa.int64())) if one is None else one) for one in columns]
    joined, moved = join_payloads(payloads, [np.unique(one.number) for one in cuts])
    if not len(joined):
        return None, joined
    pieces = [one.moved(to).column(n) for one, to, n in zip(cuts, moved, lengths, strict=True)]
    return pa.concat_arrays(pieces), joined


def stitch(residue: pa.Array, cuts: pa.Array, payloads: Payloads) -> pa.Array:
    """Give the records whole, with 64-bit offsets where 32-bit ones are too short. Raises DamageError.

    residue, cuts: columns `RECORD` and `CUTS` of the same rows.
    """
    where = Cuts.of(cuts)
    if not len(where.row):
        return residue
    numbers, which = np.unique(where.number, return_inverse=True)
    held = list(payloads.read(numbers))
    offsets, data = _offsets(residue), _contents(residue)
    pieces, start = list[pa.Buffer](), int(offsets[0])
    for place, one in zip((offsets[where.row] + where.at).tolist(), which.tolist(), strict=True):
        pieces += (data.slice(start, place - start), held[one])
        start = place
    pieces.append(data.slice(start, int(offsets[-1]) - start))
    grown = np.zeros(len(offsets), np.int64)
    np.add.at(grown, where.row + 1, np.array([one.size for one in held], np.int64)[which])
    return _records(residue, offsets - offsets[0] + np.cumsum(grown), b"".join(pieces))


def rows_without(cuts: pa.Array, payloads: Callable[[], Payloads]) -> Int64s:
    """Give the rows of a column `CUTS` of which a payload cannot be read."""
    where = Cuts.of(cuts)
    try:
        found = payloads()
    except DamageError:
        return np.unique(where.row)
    lost = [number for number in np.unique(where.number).tolist() if not _is_readable(found, number)]
    return np.unique(where.row[np.isin(where.number, lost)])


def _is_readable(payloads: Payloads, number: int) -> bool:
    try:
        deque(payloads.read(np.array([number])), maxlen=0)
    except DamageError:
        return False
    return True


def _cut_records(record: pa.Array, known: Cuts | None) -> tuple[pa.Array, Cuts, HeldPayloads] | None:
    """Give residue, cuts and payloads of records; those that `known` speaks of stay. None: nothing is to cut."""
    offsets = _offsets(record)
    if int(np.diff(offsets).max(initial=0)) < MIN_PAYLOAD_BYTES:
        return None
    contents = _contents(record).slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    offsets = offsets - offsets[0]
    begin, end = find_runs(np.frombuffer(contents, np.uint8), offsets[1:])
    row = np.searchsorted(offsets, begin, "right") - 1
    is_free = record.is_valid().to_numpy(zero_copy_only=False)
    if known is not None:
        is_free = is_free.copy()
        is_free[known.row] = False
    begin, end, row = (array[is_free[row]] for array in (begin, end, row))
    if not len(row):
        return None
    held, number = hold([contents.slice(b, e - b) for b, e in zip(begin.tolist(), end.tolist(), strict=True)])
    before = np.concatenate([[0], np.cumsum(end - begin)])
    left = offsets - before[np.searchsorted(end, offsets, "right")]
    gaps = zip([0, *end.tolist()], [*begin.tolist(), contents.size], strict=True)
    residue = _records(record, left, b"".join(contents.slice(b, e - b) for b, e in gaps))
    return residue, Cuts(row, begin - before[:-1] - left[row], number), held


def _records(like: pa.Array, offsets: Int64s, data: bytes) -> pa.Array:
    """Give binaries that are missing where others are."""
    is_wide = len(data) > MAX_OFFSET
    kind, width = (pa.large_binary(), np.int64) if is_wide else (pa.binary(), np.int32)
    validity = None
    if like.null_count:
        is_there = like.is_valid().to_numpy(zero_copy_only=False)
        validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(width)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(like), buffers)


def _offsets(array: pa.Array) -> Int64s:
    if not len(array):
        return np.zeros(1, np.int64)
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    flat = np.frombuffer(array.buffers()[1], width)
    return flat[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _contents(array: pa.Array) -> pa.Buffer:
    return array.buffers()[2] or pa.py_buffer(b"")
