"""The payloads of a damaged segment: those that can be read, and the records that cannot be given without others."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import pyarrow as pa

from .batch import Int64s
from .blob_file import BlobFile
from .errors import DamageError
from .payloads import CUTS, HASH, NO_PAYLOADS, RECORD, ChosenPayloads, Payloads
from .record_cuts import Cuts, stitch
from .rows import RowIndex
from .wreck import Wreck, blanked
from .wreck_columns import ReadColumns


@dataclass(frozen=True, slots=True)
class ReadPayloads:
    """Payloads that can be read. number: of each payload of the segment, -1 where it cannot be read."""

    payloads: Payloads = NO_PAYLOADS
    number: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def number_of(self, numbers: Int64s) -> Int64s:
        """Give the new numbers of payloads, -1 where one cannot be read."""
        padded = np.append(self.number, -1)
        return padded[np.minimum(numbers, len(self.number))]


def read_payloads(wreck: Wreck | None) -> ReadPayloads:
    """Read the payloads of a segment, each by itself named by its own hash."""
    if wreck is None:
        return ReadPayloads()
    blobs = BlobFile(wreck.file, is_whole=False)
    digests, sizes, numbers = list[bytes](), list[int](), list[int]()
    for batch in range(min(wreck.file.n_batches, len(blobs.firsts))):
        try:
            values = blobs.values(batch, list(blobs.rows_of(batch)))
        except DamageError:
            continue
        digests += [sha256(value).digest() for value in values]
        sizes += [value.size for value in values]
        numbers += blobs.rows_of(batch)
    to = np.full(len(blobs), -1, np.int64)
    to[numbers] = np.arange(len(numbers))
    hashes = np.frombuffer(b"".join(digests), HASH)
    places = np.array(numbers, np.int64)
    sources = np.zeros(len(numbers), np.int64)
    return ReadPayloads(ChosenPayloads(hashes, np.array(sizes, np.int64), [blobs], sources, places), to)


def keep_readable(text: ReadColumns, found: ReadPayloads) -> Cuts:
    """Lose the records of which a payload cannot be read, and number the payloads of the others anew.

    Gives the cuts whose payloads cannot be read.
    """
    if CUTS not in text.columns and CUTS not in text.lost:
        return Cuts.none()
    lost = text.lost.pop(CUTS, np.zeros(text.n_rows, np.bool_)) | ~text.has(RECORD)
    column = text.columns.pop(CUTS, None)
    cuts = Cuts.of(pa.nulls(text.n_rows, pa.list_(pa.int64())) if column is None else column)
    missing = cuts.chosen(found.number_of(cuts.number) < 0)
    lost[missing.row] = True
    left = cuts.chosen(~lost[cuts.row])
    if len(left.row):
        column = left.moved(found.number).column(text.n_rows)
        text.put(CUTS, column, np.zeros(text.n_rows, np.bool_))
    if RECORD in text.columns:
        text.put(RECORD, blanked(text.columns[RECORD], lost), lost)
    return missing


def whole_records(text: ReadColumns, rows: RowIndex, found: ReadPayloads) -> pa.Array:
    """Give the records of some rows, null where one cannot be read; `keep_readable` was called before."""
    residue = text.columns[RECORD].take(pa.array(rows))
    cuts = text.columns.get(CUTS)
    return residue if cuts is None else stitch(residue, cuts.take(pa.array(rows)), found.payloads)
