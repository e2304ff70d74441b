"""Records whose bytes are no UTF-8: they are kept as they are, and shown with U+FFFD."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from treering.storage.batch import RawBatch


def count_invalid(raw: RawBatch) -> int:
    """Give how many records of a batch are no UTF-8, at the price of one fast pass where all are."""
    if raw.records.isascii():
        return 0
    ends = pa.py_buffer(np.concatenate((np.zeros(1, np.int64), raw.ends)))
    texts = pa.Array.from_buffers(pa.large_string(), raw.n_rows, [None, ends, pa.py_buffer(raw.records)])
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return sum(not _is_utf8(raw.record(row)) for row in range(raw.n_rows))
    return 0


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
