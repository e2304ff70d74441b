"""Compaction: segments rewritten into larger ones, while appends, flushes and late files go on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .agreement import agreeing_groups
from .catalog import Change
from .errors import DamageError
from .fold import Fold, least_fold, make_fold, plan_folds
from .memory import merge
from .meta import SegmentMeta
from .seal import segment_id
from .segment import Segment, write
from .writer import Writer


class Compactor:
    """Folds the segments of one writer's store."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def fold(self) -> int:
        """Rewrite finished segments until no fold is due; give how many segments were made.

        A fold whose segments changed meanwhile is planned again. A segment whose files are not as written
        stays as it is, and once all others are folded the first of these is raised as DamageError. Segments
        that disagree about a column's type are folded apart.
        """
        n_made, left = 0, dict[str, DamageError | None]()
        with self._writer.changing:
            while folds := self._due_folds(left):
                for fold in folds:
                    n_made += self._fold(fold, left)
        for damage in left.values():
            if damage is not None:
                raise damage
        return n_made

    def _due_folds(self, left: Collection[str]) -> list[Fold]:
        with self._writer.mutex:
            self._writer.check_going()
            metas = self._writer.view.catalog.segments.entries.values()
            return plan_folds([meta for meta in metas if meta.id not in left])

    def _fold(self, fold: Fold, left: dict[str, DamageError | None]) -> int:
        """Fold what can be folded; `left` gets the segments that cannot, with what is wrong with them."""
        damaged, sources = dict[str, DamageError | None](), list[Segment]()
        for meta in fold.segments:
            try:
                sources += self._verified(meta)
            except DamageError as error:
                damaged[meta.id] = error
        left.update(damaged)
        if len(sources) < len(fold.segments):
            return 0
        n_made = 0
        for group in agreeing_groups([source.kinds() for source in sources]):
            members = [sources[place] for place in group]
            if len(group) >= least_fold(members[0].meta.generation):
                n_made += self._rewrite(members)
            else:
                left.update({source.id: None for source in members})
        return n_made

    def _verified(self, meta: SegmentMeta) -> list[Segment]:
        """Give a segment whose bytes are those that were written; none where it changed meanwhile."""
        writer = self._writer
        with writer.guard("fold", commits=False):
            with writer.mutex:
                if not writer.is_current(meta):
                    return []
                segment = writer.view.segment(meta)
            segment.verify()
        return [segment]

    def _rewrite(self, sources: Sequence[Segment]) -> int:
        writer, metas = self._writer, [source.meta for source in sources]
        fold, model = make_fold(metas), writer.view.catalog.model
        with writer.guard("fold", commits=False) as written:
            qls_scale = None if model is None else model.qls_scale
            merged = merge(sources, segment_id(fold.level, fold.cell), qls_scale=qls_scale)
            directory = writer.layout.segment(merged.id)
            written.append(directory)
            generation = 1 + max(meta.generation for meta in metas)
            made = write(
                writer.files, directory, merged, level=fold.level, cell=fold.cell, generation=generation
            )
            writer.files.fsync_dir(writer.layout.segments)
        with writer.mutex:
            if writer.is_closed or not all(map(writer.is_current, metas)):
                writer.remove([directory])
                return 0
            with writer.guard("fold") as written:
                written.append(directory)
                gone = [meta.id for meta in metas]
                replaced = [writer.layout.segment(name) for name in gone]
                change = Change(put_segments=[made], drop_segments=gone, written={"compact": made.n_bytes})
                writer.publish(change, replaced)
        return 1
