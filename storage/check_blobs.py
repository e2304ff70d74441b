"""The payloads of a segment whose files are whole: that each is what its hash says, and that records use them all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow.compute as pc

from .batch import Int64s
from .blob_file import BlobFile
from .check_rows import Wrong
from .payloads import CUTS, RECORD
from .record_cuts import Cuts
from .segment_files import SegmentFiles


@dataclass(frozen=True, slots=True)
class BlobsCheck:
    """Compares payloads with their hashes, and with what was cut out of records. opened: of the segment."""

    opened: SegmentFiles

    def payloads(self) -> Iterator[Wrong]:
        """Look at every payload, and at every place where one was cut out."""
        stored, is_cut = self.opened.stored("blobs"), self.opened.text.is_cut
        if is_cut and stored is None:
            yield self._wrong_text("payloads were cut out of its records, and no file has them")
        if not is_cut and stored is not None:
            yield Wrong(stored.name, "no record uses its payloads")
        if not is_cut or stored is None:
            return
        blobs = self.opened.blobs
        yield from (Wrong(stored.name, what) for what in _odd_payloads(blobs))
        used = np.zeros(len(blobs), np.bool_)
        for number in range(self.opened.of("text").n_batches):
            yield from self._cuts(number, used)
        if not used.all():
            yield Wrong(stored.name, f"no record uses {np.count_nonzero(~used)} of its payloads")

    def _cuts(self, number: int, used: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Iterator[Wrong]:
        """Look at the cuts of a batch; `used` gets which payloads they name."""
        file = self.opened.of("text")
        cuts, residue = Cuts.of(file.batch_column(number, CUTS)), file.batch_column(number, RECORD)
        if len(cuts.number) and not 0 <= int(cuts.number.min()) <= int(cuts.number.max()) < len(used):
            yield self._wrong_text(f"batch {number} names payloads beyond the {len(used)} there are")
            return
        used[cuts.number] = True
        sizes = pc.fill_null(pc.binary_length(residue), -1).to_numpy(zero_copy_only=False)
        if not _lie_inside(cuts, sizes.astype(np.int64)):
            yield self._wrong_text(f"a payload of batch {number} was cut out where its record is not")

    def _wrong_text(self, what: str) -> Wrong:
        stored = self.opened.stored("text")
        return Wrong("text.arrow" if stored is None else stored.name, what)


def _odd_payloads(blobs: BlobFile) -> Iterator[str]:
    if not (blobs.hashes[1:] > blobs.hashes[:-1]).all():
        yield "its hashes do not ascend"
    for batch in range(len(blobs.firsts)):
        numbers = blobs.rows_of(batch)
        values = list(blobs.values(batch, list(numbers)))
        digests = b"".join(sha256(value).digest() for value in values)
        if digests != blobs.hashes[numbers.start : numbers.stop].tobytes():
            yield f"a payload of batch {batch} is not that of its hash"
        if [value.size for value in values] != blobs.n_bytes[numbers.start : numbers.stop].tolist():
            yield f"a payload of batch {batch} has another size than it says"


def _lie_inside(cuts: Cuts, sizes: Int64s) -> bool:
    """Whether all places lie in their residue, those of a row one behind the other."""
    same_row = cuts.row[1:] == cuts.row[:-1]
    in_order = cuts.at[1:][same_row] >= cuts.at[:-1][same_row]
    return bool(((cuts.at >= 0) & (cuts.at <= sizes[cuts.row])).all() and in_order.all())
