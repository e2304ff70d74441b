"""Moving a store to another model: its shadow catches up with it, then takes its place in one version.

1. The shadow gets, of every segment, the events that it has not yet: their columns, their texts without vectors.
2. The shadow is embedded and folded like any store, by `fill`. 3. Once every event of the store is in the shadow
and nothing waits there, its segments get a second name in the store, and one commit puts them for all the old
ones, with the new model and an audit record. A crash before that commit leaves the store as it was and a shadow
to go on with; after it, the moved store. Readers see one or the other, and nobody waits but for the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from .batch import ColumnBatch, Int64s, Keys, ModelInfo, TextParts
from .catalog import Change
from .errors import ConfigError, StaleError, StoreError
from .files import as_store_error
from .layout import SEGMENT_FILE
from .memory import MemoryPart, build, select
from .meta import SegmentMeta
from .part import Part
from .payloads import CUTS
from .remote import is_remote
from .residual import RESIDUAL
from .rows import RowIndex
from .seal import segment_id
from .segment import Segment, write
from .shadow import begin_shadow, close_shadow, current_shadow, drop_shadow, has_shadow, open_shadow
from .shadow_erasure import is_in
from .survivors import Survivors
from .vectors import empty_table
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Anew:
    """What of events is another under another model.

    columns: whole columns by name, in the order of the rows; None: without it. parts, template: the embedded
    texts and the template key of each row; None: as they were.
    """

    columns: Mapping[str, pa.Array | None]
    parts: TextParts | None = None
    template: Keys | None = None


_WHAT = "move it to another model"

Renew = Callable[[Part], Anew]
"""Gives what is another of these events; pure."""

Copied = Callable[[int, int], None]
"""Called with the events that are in the shadow, and those of the store."""


@dataclass(frozen=True, slots=True)
class _Missing:
    """Events of a segment that the shadow has not."""

    part: Segment | Survivors
    rows: RowIndex


class Mover:
    """Moves one writer's store to another model; other threads append, fold and look meanwhile.

    Methods raise StoreError; where it `is_gone` afterwards, somebody took events out of the store or dropped the
    shadow, and another `Mover` has to begin anew.
    """

    def __init__(self, writer: Writer, model: ModelInfo, renew: Renew) -> None:
        if is_remote(writer.files):
            raise ConfigError(
                f"{writer.layout.path}: stores are moved to another model in directories only; restore it into one"
            )
        self._writer = writer
        self._model = model
        self._renew = renew
        self._covered: set[str] = set()
        self._head = ""
        self.was_dropped = False
        self.shadow = self._begin()

    @property
    def is_gone(self) -> bool:
        """Whether the shadow was dropped, so that nothing of the move is left."""
        return self._writer.shadow is not self.shadow

    def close(self) -> None:
        """Let go of the shadow, which stays for another `Mover`."""
        if not self.is_gone:
            close_shadow(self._writer)

    def catch_up(self, *, copied: Copied | None = None, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Put every event of the store into the shadow; give whether that was all done before it was over."""
        with as_store_error(self._writer.layout.path, _WHAT):
            while True:
                with suppress(StaleError):
                    return self._catch_up(copied, is_over)

    def swap(self, *, waits: bool = False) -> bool:
        """Let the shadow take the place of the store's segments; durable on return, and the shadow is gone.

        Gives False, and nothing is changed, where events came that the shadow has not, or texts of it wait for
        vectors. waits: take these over as they are; they wait for their vectors in the store then.
        """
        writer = self._writer
        with as_store_error(writer.layout.path, _WHAT), writer.changing, writer.mutex:
            writer.flush()
            parts, self._head = writer.view.live_parts(), self._audit_head()
            if not waits and (self._missing(parts) or self._unfinished()):
                return False
            self._take_over(parts, None, lambda: False)
            with self.shadow.changing, self.shadow.mutex:
                self._commit()
            # It is not the store's any more; an opening of the store removes what is left of it.
            with suppress(OSError):
                drop_shadow(writer)
        return True

    # -- the shadow -----------------------------------------------------------------------------------------

    def _begin(self) -> Writer:
        """Go on with the shadow that is there, or begin one where that is of another model or counts no more."""
        writer = self._writer
        with writer.mutex:
            writer.check_going()
            if writer.shadow is not None:
                raise StoreError(
                    f"{writer.layout.path}: is being moved to another model; wait for the end of it"
                )
            found = current_shadow(writer)
            if found is not None and found.model == self._model:
                return open_shadow(writer)
            with writer.guard("reembed"):
                self.was_dropped = drop_shadow(writer) and found is not None
            return begin_shadow(writer, self._model)

    def _catch_up(self, copied: Copied | None, is_over: Callable[[], bool]) -> bool:
        """Do what `catch_up` does. Raises StaleError where events were taken out of the store meanwhile."""
        writer = self._writer
        with writer.mutex:
            writer.flush()
            hold, parts = writer.view.hold(), writer.view.live_parts()
            self._head = self._audit_head()
        try:
            return self._take_over(parts, copied, is_over)
        finally:
            hold.release()

    def _audit_head(self) -> str:
        return self._writer.view.catalog.root.audit_head

    def _take_over(
        self, parts: Sequence[Segment | Survivors], copied: Copied | None, is_over: Callable[[], bool]
    ) -> bool:
        total = sum(part.n_rows for part in parts)
        missing = self._missing(parts)
        done = total - sum(len(one.rows) for one in missing)
        for one in missing:
            if is_over():
                return False
            self._put(one)
            done += len(one.rows)
            if copied is not None:
                copied(done, total)
        self._covered |= {part.id for part in parts}
        return True

    def _missing(self, parts: Sequence[Segment | Survivors]) -> list[_Missing]:
        """Give the events that the shadow has not: by their numbers, for folds give segments new names."""
        fresh = [part for part in parts if part.id not in self._covered]
        if not fresh:
            return []
        known = self._seqs()
        found = [_Missing(part, np.flatnonzero(~is_in(part.seq, known))) for part in fresh]
        return [one for one in found if len(one.rows)]

    def _seqs(self) -> Int64s:
        """Give the numbers of the events in the shadow, ascending."""
        with self.shadow.mutex:
            self.shadow.check_going()
            parts = self.shadow.view.live_parts()
            return np.sort(np.concatenate([np.empty(0, np.int64), *(part.seq for part in parts)]))

    def _unfinished(self) -> bool:
        with self.shadow.mutex:
            metas = self.shadow.view.catalog.segments.entries.values()
            return not all(meta.is_finished for meta in metas)

    def _put(self, one: _Missing) -> None:
        """Write events as a segment of the shadow, without the vectors that no text of the shadow has yet."""
        shadow, level, cell = self.shadow, one.part.meta.level, one.part.meta.cell
        one.part.verify()
        with shadow.changing, shadow.mutex, shadow.guard("reembed") as written:
            # An erasure takes out of the shadow what is there; nothing that it took may come after it.
            if self._audit_head() != self._head:
                raise StaleError(f"segment {one.part.id}: events were taken out of the store; look again")
            made = self._made(one, segment_id(level, cell))
            directory = shadow.layout.segment(made.id)
            written.append(directory)
            meta = write(shadow.files, directory, made, level=level, cell=cell)
            shadow.files.fsync_dir(shadow.layout.segments)
            shadow.publish(Change(put_segments=[meta], written={"flush": meta.n_bytes}), [])

    def _made(self, one: _Missing, part_id: str) -> MemoryPart:
        unknown = empty_table(one.part.vector_keys(), 0, 0, 0)
        chosen = select(one.part, one.rows, part_id, vectors=unknown)
        return build(
            [_batch(chosen, self._renew(chosen))],
            self.shadow.view.lookup,
            dim=self._model.dim,
            part_id=part_id,
            qls_scale=self._model.qls_scale,
            payloads=chosen.payloads(),
        )

    # -- its place ------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        writer, old = self._writer, self._writer.view.catalog
        made = list(self.shadow.view.catalog.segments.entries.values())
        self._check_same(made)
        with writer.guard("reembed") as written:
            taken = set(writer.files.listdir(writer.layout.segments))
            for meta in made:
                _check_free(writer, meta, taken)
                written.append(writer.layout.segment(meta.id))
                self._link(meta)
            writer.files.fsync_dir(writer.layout.segments)
            change = Change(
                put_segments=made,
                drop_segments=list(old.segments.entries),
                model=self._model,
                acts=[("reembed", self._details(made))],
                written={"reembed": sum(self.shadow.view.catalog.root.written.values())},
            )
            writer.publish(change, [writer.layout.segment(name) for name in old.segments.entries])

    def _check_same(self, made: Collection[SegmentMeta]) -> None:
        """Raise StoreError unless the shadow has the events of the store and no others: it has all of them."""
        n_made = sum(meta.n_live for meta in made)
        n_live = sum(meta.n_live for meta in self._writer.view.catalog.segments.entries.values())
        if n_made != n_live:
            raise StoreError(
                f"{self.shadow.layout.path}: holds {n_made} events, the store {n_live}; "
                "`treering reembed --abort` removes it, then begin anew"
            )

    def _details(self, made: Collection[SegmentMeta]) -> dict[str, str | int | None]:
        old = self._writer.view.catalog
        return {
            "from": None if old.model is None else old.model.model_id,
            "to": self._model.model_id,
            "events": sum(meta.n_rows for meta in made),
            "version": old.root.version + 1,
        }

    def _link(self, meta: SegmentMeta) -> None:
        """Give the files of a segment of the shadow a second name in the store."""
        files, target = self._writer.files, self._writer.layout.segment(meta.id)
        source = self.shadow.layout.segment(meta.id)
        files.mkdir(target)
        for name in (SEGMENT_FILE, *(file.name for file in meta.all_files())):
            files.link(source / name, target / name)
        files.fsync_dir(target)


def abort_move(writer: Writer) -> bool:
    """Remove what was done of a move that is not at its end; give whether there was something."""
    with writer.mutex, writer.guard("reembed"):
        return has_shadow(writer.files, writer.layout) and drop_shadow(writer)


def _batch(chosen: MemoryPart, anew: Anew) -> ColumnBatch:
    """Give events as they would come now."""
    placed = chosen.placed
    columns = {**placed.hot, **placed.cold}
    if placed.residual is not None:
        columns[RESIDUAL] = placed.residual
    if placed.cuts is not None:
        columns[CUTS] = placed.cuts
    for name, array in anew.columns.items():
        columns.pop(name, None)
        if array is not None:
            columns[name] = array
    parts = chosen.parts() if anew.parts is None else anew.parts
    template = _templates(chosen) if anew.template is None else anew.template
    return ColumnBatch(chosen.n_rows, columns, parts, template)


def _templates(part: Part) -> Keys:
    keys = part.template_keys()
    return np.append(keys, np.zeros(1, keys.dtype))[part.template_of_row()]


def _check_free(writer: Writer, meta: SegmentMeta, taken: Collection[str]) -> None:
    """Raise StoreError where an earlier try left something of this name that is still to be removed."""
    if meta.id not in taken:
        return
    path: Path = writer.layout.segment(meta.id)
    raise StoreError(
        f"{path}: was left by an earlier try and could not be removed; close the store and open it again"
    )
