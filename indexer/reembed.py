"""Moves a store to another model: every text embedded anew, beside the store, which answers meanwhile as before.

What is done is kept: an interrupted move goes on where it stopped. Events that come meanwhile are taken along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from treering.storage.batch import PART_FIELDS, ModelInfo
from treering.storage.errors import ModelError, StoreError
from treering.storage.moving import Anew, Copied
from treering.storage.part import Part

from .fill import FillReport, Folding, Progress, TextEncoder, fill
from .model import is_given, is_same_model
from .parts import body_keys, text_parts
from .signals import SIGNALS, plain_signals

if TYPE_CHECKING:
    from treering.storage.moving import Mover
    from treering.storage.ring import Ring

PATIENT_TRIES = 3
"""So often the last events are embedded before the swap; then what came meanwhile is taken over as it is, and
waits in the store for its vectors, as after any append."""


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """What one run did.

    old: model id of the vectors that the store had, None where it had none. new: that of the model asked for.
    finished: whether the store is of that model now; False when the budget ran out first. was_moved: whether
    this run put the new vectors in place; False where there was nothing to move. was_restarted: what was done
    before was dropped, as it was of another model or events were deleted meanwhile. texts: embedded by this
    run. rows: events whose signals it completed. segments: of the store at the end.
    """

    old: str | None
    new: str
    finished: bool
    was_moved: bool
    was_restarted: bool
    texts: int
    rows: int
    segments: int
    seconds: float


def reembed(
    ring: Ring,
    embedder: TextEncoder,
    *,
    drops_given: bool = False,
    progress: Progress | None = None,
    folding: Folding | None = None,
    copied: Copied | None = None,
    budget: float | None = None,
) -> ReembedReport:
    """Move the store to the embedder's model. Other threads append, fold, delete and look meanwhile.

    drops_given: also where the vectors came with the events, which are lost by it. progress, folding: as of
    `fill`. copied: called with the events that were copied for the move, and those of the store. budget:
    seconds after which no further batch is begun.

    Raises
    ------
    ModelError
        The vectors came with the events, without `drops_given`; or those of another model are put in meanwhile.
    StoreError
        A file is damaged, or cannot be written.
    """
    old = ring.model
    if old is None or is_same_model(old, embedder.info):
        # A shadow that was begun for another model is of no use any more.
        was_restarted = ring.abort_move()
        run = _Run(ring, embedder, progress, folding, copied, budget, was_restarted=was_restarted)
        return run.report(old, finished=run.fill(ring), was_moved=False)
    check_movable(ring, drops_given=drops_given)
    run = _Run(ring, embedder, progress, folding, copied, budget)
    while True:
        mover = ring.mover(embedder.info, _renewing(is_given(old)))
        run.was_restarted |= mover.was_dropped
        try:
            finished = run.move(mover)
            break
        except StoreError:
            if not mover.is_gone:
                raise
            # Somebody deleted events, and what was made of them went as well.
            run.was_restarted = True
        finally:
            mover.close()
    if finished:
        run.fill(ring)
    return run.report(old, finished=finished, was_moved=finished)


def check_movable(ring: Ring, *, drops_given: bool) -> None:
    """Raise ModelError where the vectors came with the events, without `drops_given`."""
    if ring.model is not None and is_given(ring.model) and not drops_given:
        raise ModelError(
            "this store's vectors came with its events, and no model can make them again; "
            "say so (--yes, drops_given=True) to lose them and embed the events' texts instead"
        )


@dataclass(slots=True)
class _Run:
    """One call of `reembed`: what it works with and what it did."""

    ring: Ring
    embedder: TextEncoder
    progress: Progress | None
    folding: Folding | None
    copied: Copied | None
    budget: float | None
    was_restarted: bool = False
    texts: int = 0
    rows: int = 0
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    def move(self, mover: Mover) -> bool:
        """Give whether the store was moved before the budget ran out."""
        shadow = self.ring.shadow(mover)
        for _ in range(PATIENT_TRIES):
            if not mover.catch_up(copied=self.copied, is_over=self._is_over) or not self.fill(shadow):
                return False
            if mover.swap():
                return True
        return mover.swap(waits=True)

    def fill(self, ring: Ring) -> bool:
        """Embed what waits; give whether nothing does any more."""
        left = None if self.budget is None else self.budget - (time.monotonic() - self.started)
        report = fill(ring, self.embedder, progress=self.progress, folding=self.folding, budget=left)
        self._add(report)
        for damage in report.damaged:
            raise damage
        return report.finished

    def report(self, old: ModelInfo | None, *, finished: bool, was_moved: bool) -> ReembedReport:
        """Say what was done."""
        with self.ring.snapshot() as snapshot:
            segments = sum(part.is_stored for part in snapshot.parts)
        return ReembedReport(
            old=None if old is None else old.model_id,
            new=self.embedder.info.model_id,
            finished=finished,
            was_moved=was_moved,
            was_restarted=self.was_restarted,
            texts=self.texts,
            rows=self.rows,
            segments=segments,
            seconds=time.monotonic() - self.started,
        )

    def _add(self, report: FillReport) -> None:
        self.texts += report.texts
        self.rows += report.rows

    def _is_over(self) -> bool:
        return self.budget is not None and time.monotonic() - self.started >= self.budget


class _Columns(Mapping[str, pa.Array]):
    """The columns of a part by name, each read when it is asked for; signals are none of them."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._names = [name for name in part.fields if name not in SIGNALS]
        self._known = frozenset(self._names)

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._known:
            raise KeyError(name)
        return self._part.column(name)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _renewing(is_given_store: bool) -> Callable[[Part], Anew]:
    return _from_texts if is_given_store else without_vectors


def without_vectors(part: Part) -> Anew:
    """Give the signals of events as they were before anything was embedded: as when their records were decoded."""
    plain = plain_signals(_Columns(part), part.n_rows)
    return Anew({name: plain.get(name) for name, signal in SIGNALS.items() if signal.needs_vectors})


def _from_texts(part: Part) -> Anew:
    """Give the texts of events too: a vector that was given stands for an event and for no text of it."""
    columns: dict[str, Any] = {name: part.column(name) for name in PART_FIELDS if name in part.fields}
    body = columns.get("body")
    anew = without_vectors(part)
    if body is None:
        return replace(anew, parts=text_parts(columns, part.template_keys()[:0]))
    columns["body"] = body.cast(pa.string())
    keys = body_keys(columns["body"])
    return replace(anew, parts=text_parts(columns, keys), template=keys)
