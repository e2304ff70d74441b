"""Segments of which something is gone, rewritten without it: texts, dictionaries, vectors, postings, statistics."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .catalog import Change
from .errors import DamageError
from .memory import MemoryPart, merge
from .meta import SegmentMeta
from .seal import segment_id
from .segment import write
from .survivors import Survivors
from .writer import Writer


class Cleaner:
    """Rewrites the segments with deletions of one writer's store, one by one; others append and look meanwhile."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def clean(self) -> tuple[dict[str, str], tuple[DamageError, ...]]:
        """Rewrite them; give old and new ids, and what is wrong with those whose files are not as written.

        Raises StoreError.
        """
        made, damaged = dict[str, str](), dict[str, DamageError]()
        with self._writer.changing:
            while due := self._due(damaged):
                for meta in due:
                    try:
                        made.update(self._rewrite(meta))
                    except DamageError as error:
                        damaged[meta.id] = error
        return made, tuple(damaged.values())

    def _due(self, damaged: Collection[str]) -> list[SegmentMeta]:
        with self._writer.mutex:
            self._writer.check_going()
            metas = self._writer.view.catalog.segments.entries.values()
            return [meta for meta in metas if meta.deleted is not None and meta.id not in damaged]

    def _rewrite(self, meta: SegmentMeta) -> Mapping[str, str]:
        """Rewrite a segment; give its old and new id, nothing where it changed meanwhile."""
        writer = self._writer
        with writer.guard("rewriting a segment", commits=False) as written:
            part = self._open(meta)
            if part is None:
                return {}
            part.verify()
            left = self._left(part)
            directory = writer.layout.segment(left.id)
            written.append(directory)
            made = write(
                writer.files, directory, left, level=meta.level, cell=meta.cell, generation=meta.generation
            )
            writer.files.fsync_dir(writer.layout.segments)
        return {meta.id: made.id} if self._commit(meta, made) else {}

    def _open(self, meta: SegmentMeta) -> Survivors | None:
        with self._writer.mutex:
            part = self._writer.view.live_part(meta) if self._writer.is_current(meta) else None
        return part if isinstance(part, Survivors) else None

    def _left(self, part: Survivors) -> MemoryPart:
        """Give what is left of a segment, in the order that its generation has."""
        model, new_id = self._writer.view.catalog.model, segment_id(part.meta.level, part.meta.cell)
        left = part.selected(new_id)
        if part.meta.generation == 0:
            return left
        return merge([left], new_id, qls_scale=None if model is None else model.qls_scale)

    def _commit(self, old: SegmentMeta, made: SegmentMeta) -> bool:
        writer, directory = self._writer, self._writer.layout.segment(made.id)
        with writer.mutex:
            if writer.is_closed or not writer.is_current(old):
                writer.remove([directory])
                return False
            with writer.guard("rewriting a segment") as written:
                written.append(directory)
                change = Change(put_segments=[made], drop_segments=[old.id], written={"erase": made.n_bytes})
                writer.publish(change, [writer.layout.segment(old.id)])
        return True
