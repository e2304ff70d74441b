"""From the memtable to segments: rows split by dyadic cell, each cell written and synced."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .agreement import agreeing_groups, kinds_of
from .batch import ColumnBatch, ModelInfo
from .cells import split_cells
from .files import Files
from .known import Lookup
from .layout import Layout
from .memory import MemoryPart, build, select
from .meta import SegmentMeta
from .segment import write


def segment_id(level: int, cell: int) -> str:
    """Give a new id of a segment of the cell (level, cell); the cell is negative before 1970."""
    return f"{level}-{cell}-{uuid.uuid4().hex[:16]}"


def seal(
    files: Files,
    layout: Layout,
    batches: Sequence[ColumnBatch],
    lookup: Lookup,
    *,
    dim: int | None,
    model: ModelInfo | None,
    written: list[Path],
) -> list[SegmentMeta]:
    """Write `batches` as segments, durable on return; `written` gets their directories as they are begun.

    Batches that disagree about a column's type go into different segments.
    """
    if not batches:
        return []
    qls_scale = None if model is None else model.qls_scale
    metas = []
    for group in agreeing_groups([kinds_of(batch.columns) for batch in batches]):
        agreeing = [batches[place] for place in group]
        for level, cell, part in _split(agreeing, lookup, dim=dim, qls_scale=qls_scale):
            directory = layout.segment(part.id)
            written.append(directory)
            metas.append(write(files, directory, part, level=level, cell=cell))
    files.fsync_dir(layout.segments)
    return metas


def _split(
    batches: Sequence[ColumnBatch], lookup: Lookup, *, dim: int | None, qls_scale: Sequence[float] | None
) -> Iterator[tuple[int, int, MemoryPart]]:
    cells = split_cells(np.concatenate([batch.ts_ns for batch in batches]))
    level, cell, _ = cells[0]
    whole = build(batches, lookup, dim=dim, part_id=segment_id(level, cell), qls_scale=qls_scale)
    if len(cells) == 1:
        yield level, cell, whole
        return
    for level, cell, rows in split_cells(whole.ts):
        yield level, cell, select(whole, rows, segment_id(level, cell), qls_scale=qls_scale)
