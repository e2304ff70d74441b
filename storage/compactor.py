"""Compaction: segments rewritten into larger ones, while appends, flushes and late files go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .agreement import agreeing_groups
from .catalog import Change
from .errors import DamageError
from .fold import Fold, is_due, make_fold, plan_compaction, plan_folds, plan_tiers
from .memory import MemoryPart, merge
from .meta import SegmentMeta
from .part import Part
from .seal import segment_id
from .segment import Segment
from .segment_writer import write
from .survivors import Survivors
from .tree import LEAF_ROWS
from .tree_sources import Source
from .writer import Writer

Plan = Callable[[Iterable[SegmentMeta]], list[Fold]]

Aside = dict[str, DamageError | None]
"""Segments that no fold takes, by id: damaged ones, and those that go with none in reach (None)."""

MERGE_BYTES = 512 << 20
"""What is merged takes together at most this much memory once it is unpacked; texts may pack to a hundredth."""


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did.

    segments, bytes: of all segments, before and after, their sidecars included. rows: events in segments.
    made: segments written. waiting: segments left whose vectors or signals are still to come; they are joined
    only among themselves and only up to a sixteenth of the rows, until they are finished. held: files that are not
    needed any more, and stay as long as readers of older versions hold them.
    """

    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    made: int
    waiting: int
    seconds: float
    held: int = 0


class Compactor:
    """Rewrites the segments of one writer's store, one fold at a time.

    Other threads append and look meanwhile; once the store is closed, a fold is given up at its next step.
    A fold whose segments changed meanwhile is planned again. A segment whose files are not as written stays
    as it is, and segments that disagree about a column's type are folded apart.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._n_fills = 0
        # Memory that segments take; one that is too large for every fold is read for this only once.
        self._unpacked: dict[str, int] = {}

    def fold(self) -> int:
        """Do what is due, and what becomes due by it; give how many segments were made.

        Raises DamageError, the first, once all others are folded.
        """
        return self._run(plan_folds)

    def compact(self) -> CompactReport:
        """Join whatever the limits of a fold allow, whatever it costs.

        Raises DamageError, the first, once all others are joined.
        """
        started, before = time.monotonic(), self._metas()
        n_made = self._run(plan_compaction)
        after = self._metas()
        return CompactReport(
            segments_before=len(before),
            segments_after=len(after),
            bytes_before=sum(meta.n_bytes for meta in before),
            bytes_after=sum(meta.n_bytes for meta in after),
            rows=sum(meta.n_live for meta in after),
            made=n_made,
            waiting=sum(not meta.is_finished for meta in after),
            seconds=time.monotonic() - started,
        )

    def step(self, aside: Aside) -> bool:
        """Do the smallest fold that pays now, if any; give whether there was one. `aside` gets what it cannot take."""
        with self._writer.changing:
            folds = self._folds(plan_tiers, aside)
            for fold in folds[:1]:
                self._fold(fold, plan_tiers, aside)
        return bool(folds)

    def is_due(self, aside: Aside) -> bool:
        """Whether `step` would do something; `aside`: segments that do not count."""
        with self._writer.mutex:
            is_going = not self._writer.is_closed and not self._writer.is_stopped
            return is_going and bool(self._folds(plan_tiers, aside))

    def check(self, names: Iterable[str]) -> None:
        """Raise DamageError if a segment of these is still there and not as written."""
        with self._writer.mutex:
            entries = self._writer.view.catalog.segments.entries
            segments = [self._writer.view.segment(entries[name]) for name in names if name in entries]
        for segment in segments:
            segment.verify()

    @property
    def is_closed(self) -> bool:
        """Whether the store was closed."""
        return self._writer.is_closed

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Keep unfinished segments as they are: somebody works on their vectors and signals."""
        with self._writer.mutex:
            self._n_fills += 1
        try:
            yield
        finally:
            with self._writer.mutex:
                self._n_fills -= 1

    def _run(self, plan: Plan) -> int:
        n_made, aside = 0, Aside()
        with self._writer.changing:
            while folds := self._folds(plan, aside):
                n_made += sum(self._fold(fold, plan, aside) for fold in folds)
        for damage in aside.values():
            if damage is not None:
                raise damage
        return n_made

    def _folds(self, plan: Plan, aside: Aside) -> list[Fold]:
        with self._writer.mutex:
            self._writer.check_going()
            metas = self._metas()
            # In place, for another thread may be adding to it.
            for name in {*self._unpacked} - {meta.id for meta in metas}:
                del self._unpacked[name]
            return plan([meta for meta in metas if meta.id not in aside and self._is_free(meta)])

    def _metas(self) -> list[SegmentMeta]:
        with self._writer.mutex:
            return list(self._writer.view.catalog.segments.entries.values())

    def _fold(self, fold: Fold, plan: Plan, aside: Aside) -> int:
        """Do a fold, or what of it can be done; give how many segments were made."""
        segments = self._open(fold.segments, aside)
        if len(segments) < len(fold.segments):
            return 0
        groups = agreeing_groups([segment.kinds() for segment in segments])
        if len(groups) == 1:
            return self._rewrite(segments, aside)
        n_made = 0
        for group in groups:
            apart = {segments[place].id: segments[place] for place in group}
            for one in plan([segment.meta for segment in apart.values()]):
                n_made += self._rewrite([apart.pop(meta.id) for meta in one.segments], aside)
            aside.update(dict.fromkeys(apart))
        return n_made

    def _open(self, metas: Sequence[SegmentMeta], aside: Aside) -> list[Segment]:
        """Give the segments, but for those that changed meanwhile; `aside` gets those that cannot be opened."""
        writer, opened = self._writer, list[Segment]()
        with writer.guard("fold", commits=False):
            for meta in metas:
                with writer.mutex, _setting_aside(aside, [meta.id]):
                    if writer.is_current(meta):
                        segment = writer.view.segment(meta)
                        segment.kinds()
                        opened.append(segment)
        return opened

    def _rewrite(self, segments: Sequence[Segment], aside: Aside) -> int:
        """Make one segment of several, or more where one would need too much memory; give how many."""
        fresh = [segment for segment in segments if segment.id not in self._unpacked]
        if not self._verify(fresh, aside):
            return 0
        self._unpacked.update({segment.id: segment.unpacked_bytes() for segment in fresh})
        n_made = 0
        for run in self._affordable(segments):
            if len(run) == 1 < len(segments) and not is_due(run[0].meta):
                aside[run[0].id] = None
            elif self._verify([segment for segment in run if segment not in fresh], aside):
                n_made += self._make(run, aside)
        return n_made

    def _affordable(self, segments: Sequence[Segment]) -> list[list[Segment]]:
        """Cut segments into runs that can be in memory together."""
        runs, n_bytes = [list[Segment]()], 0
        for segment in segments:
            more = self._unpacked[segment.id]
            if runs[-1] and n_bytes + more > MERGE_BYTES:
                runs.append([])
                n_bytes = 0
            runs[-1].append(segment)
            n_bytes += more
        return runs

    def _make(self, segments: Sequence[Segment], aside: Aside) -> int:
        fold, made = make_fold([segment.meta for segment in segments]), None
        if any(meta.n_live for meta in fold.segments):
            with (
                _setting_aside(aside, [segment.id for segment in segments]),
                self._writer.guard("fold", commits=False) as written,
            ):
                made = self._write(fold, self._merged(fold, segments), written)
            if made is None:
                return 0
        return self._commit(fold, made)

    def _verify(self, segments: Sequence[Segment], aside: Aside) -> bool:
        """Whether the bytes of all are those that were written."""
        with self._writer.guard("fold", commits=False):
            for segment in segments:
                self._writer.check_going()
                with _setting_aside(aside, [segment.id]):
                    segment.verify()
        return not any(segment.id in aside for segment in segments)

    def _commit(self, fold: Fold, made: SegmentMeta | None) -> int:
        writer = self._writer
        made_path = [] if made is None else [writer.layout.segment(made.id)]
        with writer.mutex:
            if writer.is_closed or not all(writer.is_current(m) and self._is_free(m) for m in fold.segments):
                writer.remove(made_path)
                return 0
            with writer.guard("fold") as written:
                written += made_path
                gone = [meta.id for meta in fold.segments]
                change = Change(
                    put_segments=[] if made is None else [made],
                    drop_segments=gone,
                    written={"compact": 0 if made is None else made.n_bytes},
                )
                writer.publish(change, [writer.layout.segment(name) for name in gone])
        return len(made_path)

    def _merged(self, fold: Fold, segments: Sequence[Segment]) -> MemoryPart:
        model = self._writer.view.catalog.model
        qls_scale = None if model is None else model.qls_scale
        parts = [self._live_part(segment) for segment in segments]
        return merge(
            parts,
            segment_id(fold.level, fold.cell),
            qls_scale=qls_scale,
            sources=lambda: [_tree_source(part) for part in parts],
            going=self._writer.check_going,
        )

    def _write(self, fold: Fold, merged: MemoryPart, written: list[Path]) -> SegmentMeta:
        files, layout = self._writer.files, self._writer.layout
        directory = layout.segment(merged.id)
        written.append(directory)
        generation = 1 + max(meta.generation for meta in fold.segments)
        made = write(files, directory, merged, level=fold.level, cell=fold.cell, generation=generation)
        files.fsync_dir(layout.segments)
        return made

    def _live_part(self, segment: Segment) -> Part:
        """Give the rows of a segment that are to be kept."""
        writer = self._writer
        with writer.mutex:
            # A fold of a segment that changed meanwhile comes to nothing.
            part = writer.view.live_part(segment.meta) if writer.is_current(segment.meta) else segment
        return part.selected(part.id) if isinstance(part, Survivors) else part

    def _is_free(self, meta: SegmentMeta) -> bool:
        return meta.is_finished or not self._n_fills


def _tree_source(part: Part) -> Source:
    # What survived a deletion and what is one leaf have no tree on disk; late columns are in no tree.
    if not isinstance(part, Segment) or part.n_rows <= LEAF_ROWS:
        return Source.of(part, has_tree=False)
    return Source.of(part, has_tree=True, stale={name for late in part.meta.late for name in late.fields})


@contextmanager
def _setting_aside(aside: Aside, names: Sequence[str]) -> Iterator[None]:
    """Set aside the segments that damage names, all of `names` where it names none."""
    try:
        yield
    except DamageError as error:
        aside.update(dict.fromkeys([name for name in names if name in str(error)] or names, error))
