"""Stores with a segment for each flush, which folds can join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.storage.records import decode, raw_batch
from treering.storage.batch import KEY, ColumnBatch, RawBatch, TextParts
from treering.storage.meta import SegmentMeta
from treering.storage.ring import Ring


def flush_each(ring: Ring, *sizes: int, step_ns: int = 10**9) -> None:
    """Append as many records, and flush after each append."""
    for size in sizes:
        ring.append(raw_batch(range(ring.next_seq, ring.next_seq + size), step_ns=step_ns))
        ring.flush()


def metas(ring: Ring) -> list[SegmentMeta]:
    return sorted(ring._view.catalog.segments.entries.values(), key=lambda meta: meta.t_min)


def decode_without_texts(raw: RawBatch, first_seq: int) -> ColumnBatch:
    """Records without texts, so that nothing of them waits; `score` has the type that their source is named by."""
    batch = decode(raw, first_seq)
    columns = {name: batch.columns[name] for name in ("ts", "seq", "record", "n#i")}
    values = pa.array(["a"] * raw.n_rows) if raw.sources[0].name == "texts" else pa.array([1.0] * raw.n_rows)
    return ColumnBatch(raw.n_rows, columns | {"score": values}, TextParts.empty(), np.zeros(raw.n_rows, KEY))
