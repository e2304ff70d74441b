"""Embeds what still waits: vectors of new texts, then the signals that need them, segment by segment.

Events are durable and can be filtered long before this runs. Every batch is handed to the ring as soon as
it is there, so an interrupted run loses one batch at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from treering.storage.batch import PART_FIELDS, Keys, ModelInfo, Vectors
from treering.storage.errors import DamageError, ModelError, StaleError, StoreError
from treering.storage.part import Part
from treering.storage.remote import GoneError
from treering.storage.shortage import shortage_told

from .chunks import part_texts
from .late_signals import LateSignals, n_answers
from .model import check_same_model, is_given, locate

if TYPE_CHECKING:
    from treering.storage.ring import Ring

CHECKPOINT_TEXTS = 1024
"""Texts between two hand-overs to the ring: some seconds of work."""

Rows = npt.NDArray[np.intp]
Progress = Callable[[int, int], None]
"""Called with work done and work in all: texts to embed plus answers whose signals are to come."""

Folding = Callable[[int, int | None], None]
"""Called before segments are ordered with (0, None), after it with the number of segments made, twice."""


class TextEncoder(Protocol):
    """What `fill` needs of an embedder."""

    @property
    def info(self) -> ModelInfo:
        """The model."""
        ...

    def encode(self, texts: list[str], keys: Keys) -> Vectors:
        """Give the vectors of `texts` in their order."""
        ...

    def encode_vectors(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Give vectors alone, float32 (texts, dim), unit length."""
        ...


@dataclass(frozen=True, slots=True)
class FillReport:
    """What one run did.

    texts: embedded now. reused: texts whose vectors the store had already. rows: events whose signals were
    completed. finished: whether nothing waits any more; False when the budget ran out first. damaged: what is wrong
    with segments that had to be left as they are; all others were done.
    """

    texts: int
    reused: int
    rows: int
    seconds: float
    finished: bool
    damaged: tuple[DamageError, ...] = ()


def fill_ring(
    ring: Ring,
    *,
    model: str | None = None,
    progress: Progress | None = None,
    folding: Folding | None = None,
    budget: float | None = None,
) -> FillReport:
    """Do what `fill` does with the model of this name, which is loaded only if something waits for it.

    Vectors that came with the events are of no known model: such a store has nothing to compute.

    Raises
    ------
    ModelError
        As `fill`; or the model cannot be had; or texts wait in a store whose vectors came with the events.
    """
    started = time.monotonic()
    segments = ring.unfinished()
    if ring.model is not None and is_given(ring.model):
        return _finish_given(ring, started, folding)
    if not segments:
        damaged = _fold(ring, folding)
        return FillReport(0, 0, 0, time.monotonic() - started, finished=True, damaged=damaged)
    with shortage_told("while texts were embedded, which wait for `embed`"):
        from .embedder import Embedder

        return fill(ring, Embedder(locate(model)), progress=progress, folding=folding, budget=budget)


def fill(
    ring: Ring,
    embedder: TextEncoder,
    *,
    progress: Progress | None = None,
    folding: Folding | None = None,
    budget: float | None = None,
) -> FillReport:
    """Embed every text that waits, compute the signals that need vectors, fold the finished segments.

    budget: seconds after which no further batch is begun.

    Raises
    ------
    ModelError
        The store was embedded with another model.
    StoreError
        The text of a key is not in its row any more.
    """
    _adopt(ring, embedder.info)
    run = _Run(ring, embedder, progress, time.monotonic(), budget)
    with ring.filling():
        finished = run.complete_all()
    damaged = _fold(ring, folding, run.damaged)
    seconds = time.monotonic() - run.started
    return FillReport(run.texts, run.reused, run.rows, seconds, finished, damaged)


@dataclass(slots=True)
class _Run:
    """One call of `fill`: what it works with and how far it is."""

    ring: Ring
    embedder: TextEncoder
    progress: Progress | None
    started: float
    budget: float | None
    total: int = 0
    done: int = 0
    texts: int = 0
    reused: int = 0
    rows: int = 0
    damaged: dict[str, DamageError] = field(default_factory=dict)
    signals: LateSignals = field(init=False)

    def __post_init__(self) -> None:
        self.signals = LateSignals(self.embedder)

    def complete_all(self) -> bool:
        """Give whether all that waits could be done within the budget.

        Where an erasure replaced a segment meanwhile, what was made of its texts is left: look again.
        """
        while True:
            segments = [one for one in self.ring.unfinished() if one.id not in self.damaged]
            # A store that was moved to another model meanwhile has other segments, for another embedder.
            _adopt(self.ring, self.embedder.info)
            self.total = self.done + sum(segment.pending + _signal_work(segment) for segment in segments)
            try:
                return all(map(self._complete_whole, segments)) and not self.damaged
            except StaleError:
                continue

    def _complete_whole(self, segment: Part) -> bool:
        """Complete a segment, or set it aside where a file of it is damaged: the others need not wait for it."""
        try:
            return self.complete(segment)
        except GoneError:
            raise
        except DamageError as error:
            self.damaged[segment.id] = error
            return True

    def complete(self, segment: Part) -> bool:
        """Give whether all of the segment could be done within the budget. Raises StaleError."""
        for texts, keys in self._missing(segment):
            if self._is_over():
                return False
            self.ring.add_late(
                segment.id, vectors=self.embedder.encode(texts, keys), signals=None, signals_done=False
            )
            self.texts += len(texts)
            self._advance(len(texts))
        return not segment.signals_pending or self._complete_signals(segment)

    def _missing(self, segment: Part) -> Iterator[tuple[list[str], Keys]]:
        """Hand over what the store has under the same key, then give the other texts in batches."""
        table = segment.vectors()
        places = np.flatnonzero(~table.have)
        known, vectors = self.ring.lookup(table.key[places])
        if len(vectors):
            self.ring.add_late(segment.id, vectors=vectors, signals=None, signals_done=False)
            self.reused += len(vectors)
            self._advance(len(vectors))
        places = places[~known]
        for start in range(0, len(places), CHECKPOINT_TEXTS):
            chosen = places[start : start + CHECKPOINT_TEXTS]
            yield exemplars(segment, chosen), table.key[chosen]

    def _complete_signals(self, segment: Part) -> bool:
        if self._is_over():
            return False
        columns = self.signals.compute(
            segment, self.ring.lookup, advance=self._advance, is_over=self._is_over
        )
        if columns is None:
            return False
        self.ring.add_late(segment.id, vectors=None, signals=columns, signals_done=True)
        self.rows += segment.n_rows
        return True

    def _advance(self, n: int) -> None:
        self.done += n
        if self.progress is not None:
            self.progress(self.done, max(self.total, self.done))

    def _is_over(self) -> bool:
        return self.budget is not None and time.monotonic() - self.started >= self.budget


def exemplars(segment: Part, places: Rows) -> list[str]:
    """Give the text of each vector at `places` of the segment's table, from the event with the lowest seq.

    That event is the one which the segment keeps as the vector's exemplar, so that erasing it is noticed.

    Raises
    ------
    StoreError
        An event does not hold the text that its key stands for.
    """
    postings, keys = segment.postings(), segment.vectors().key[places]
    first = _earliest_uses(segment, places)
    rows, fields = postings.row[first].astype(np.intp), postings.field[first]
    found: dict[tuple[int, int], str] = {}
    for index in np.unique(fields):
        name = PART_FIELDS[index]
        values = segment.column(name, np.unique(rows[fields == index])).to_pylist()
        for value in values:
            for text in value if isinstance(value, list) else [value]:
                found.update(part_texts(name, text) if text else ())
    wanted = list(zip(keys["hi"].tolist(), keys["lo"].tolist(), strict=True))
    lost = [int(row) for row, key in zip(rows, wanted, strict=True) if key not in found]
    if lost:
        raise StoreError(
            f"segment {segment.id}: row {lost[0]} ({len(lost)} in all) does not hold the text of its key; "
            "the store was written by another version, ingest its sources anew"
        )
    return [found[key] for key in wanted]


def _earliest_uses(segment: Part, places: Rows) -> Rows:
    """Give the place in the postings of each vector's use by the event that arrived first."""
    postings, seq = segment.postings(), segment.seq
    starts, ends = postings.offsets[places].tolist(), postings.offsets[places + 1].tolist()
    return np.array(
        [lo + int(np.argmin(seq[postings.row[lo:hi]])) for lo, hi in zip(starts, ends, strict=True)], np.intp
    )


def _adopt(ring: Ring, info: ModelInfo) -> None:
    if ring.model is None:
        ring.set_model(info)
        return
    check_same_model(ring.model, info)


def _fold(
    ring: Ring, folding: Folding | None, known: Mapping[str, DamageError] | None = None
) -> tuple[DamageError, ...]:
    """Order what is due; give what is wrong with segments that could not be, besides what is known of some."""
    known, n_made = known or {}, 0
    damaged = list(known.values())
    if folding is not None:
        folding(0, None)
    try:
        n_made = ring.fold()
    except DamageError as error:
        # It is said once all others are done.
        damaged += [] if error.segment_id in known else [error]
    if folding is not None:
        folding(n_made, n_made)
    return tuple(damaged)


def _finish_given(ring: Ring, started: float, folding: Folding | None) -> FillReport:
    with ring.filling():
        segments = ring.unfinished()
        waiting = sum(segment.pending for segment in segments)
        for segment in segments:
            if not segment.pending:
                # A segment that an erasure replaced meanwhile is finished the next time.
                with suppress(StaleError):
                    ring.add_late(segment.id, vectors=None, signals=None, signals_done=True)
    damaged = _fold(ring, folding)
    if waiting:
        raise ModelError(
            f"{waiting} texts wait for a vector, but this store's vectors came with its events and are of no "
            "known model; keep events without vectors in another store"
        )
    return FillReport(0, 0, 0, time.monotonic() - started, finished=True, damaged=damaged)


def _signal_work(segment: Part) -> int:
    return n_answers(segment) if segment.signals_pending else 0
