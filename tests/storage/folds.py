"""Segments that exist only as the manifest describes them, for plans of folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from hypothesis import strategies as st

from tests.storage.metas import meta
from treering.storage.cells import covering_cell
from treering.storage.fold import FOLD_LEVEL, Fold, plan_folds
from treering.storage.meta import Deletion, SegmentMeta
from treering.storage.stored_file import StoredFile
from treering.storage.tree import TICK_BITS

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS
REACH_NS = 1 << (TICK_BITS + FOLD_LEVEL)
Plan = Callable[[Iterable[SegmentMeta]], list[Fold]]


def segment(
    name: str,
    t_min: int,
    t_max: int,
    n_rows: int = 10,
    generation: int = 0,
    pending: int = 0,
    n_bytes: int = 0,
    deleted: int = 0,
) -> SegmentMeta:
    level, cell = covering_cell(t_min, t_max)
    deletion = Deletion(StoredFile("del-0.arrow", 10, 0), deleted, 0) if deleted else None
    return replace(
        meta(1),
        id=name,
        level=level,
        cell=cell,
        t_min=t_min,
        t_max=t_max,
        n_rows=n_rows,
        generation=generation,
        pending=pending,
        signals_pending=False,
        files=(StoredFile("text.arrow", n_bytes, 0),),
        deleted=deletion,
    )


def names(segments: list[SegmentMeta], plan: Plan = plan_folds) -> list[set[str]]:
    return [{s.id for s in fold.segments} for fold in plan(segments)]


def seconds(n: int, n_rows: int = 10, generation: int = 1, pending: int = 0) -> list[SegmentMeta]:
    """Segments one behind the other, a second each, named s0, s1, ..."""
    return [
        segment(f"s{i}", i * SECOND_NS, (i + 1) * SECOND_NS - 1, n_rows, generation, pending)
        for i in range(n)
    ]


def joined(fold: Fold, name: str, *, shrink: float = 1.0) -> SegmentMeta:
    """The segment that a fold makes."""
    members = fold.segments
    return replace(
        members[0],
        id=name,
        level=fold.level,
        cell=fold.cell,
        t_min=min(s.t_min for s in members),
        t_max=max(s.t_max for s in members),
        n_rows=sum(s.n_live for s in members),
        files=(StoredFile("text.arrow", int(shrink * sum(s.n_bytes for s in members)), 0),),
        late=(),
        generation=1 + max(s.generation for s in members),
        pending=sum(s.pending for s in members),
        deleted=None,
    )


near = st.tuples(st.integers(0, 2**45), st.integers(0, 40)).map(lambda p: (p[0], p[0] + (1 << p[1])))
