"""What goes into a store: files, rows and tables, each by its own way, and the account of one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from treering.indexer.ingest import MAX_TOLD_REJECTS, IngestOptions, IngestReport, ingest, ingest_rows
from treering.indexer.model import GIVEN, is_given, locate
from treering.indexer.rows_in import is_rows
from treering.indexer.times import zone
from treering.storage.errors import ModelError, TreeringError
from treering.storage.rejects import Reject
from treering.storage.ring import Ring

from .embedding import embed
from .progress import Progress, reading


@dataclass(slots=True)
class IngestSummary:
    """What one call of `ingest` did.

    accepted: events stored. joined: lines that continue another event. rejected: records kept aside with a reason.
    pending: texts that still wait for their vector. embedded: texts that went through the model; miss_share is
    embedded / accepted. seconds: wall time; of it `read_s` until everything was acknowledged. rejects: the first
    hundred of the rejected; `Store.rejects` gives all.
    """

    accepted: int = 0
    rejected: int = 0
    joined: int = 0
    lines: int = 0
    skipped: int = 0
    pending: int = 0
    embedded: int = 0
    miss_share: float = 0.0
    seconds: float = 0.0
    read_s: float = 0.0
    sources: int = 0
    warnings: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def add(self, report: IngestReport) -> None:
        """Count what came of some of the inputs."""
        self.accepted += report.accepted
        self.rejected += report.rejected
        self.joined += report.joined
        self.lines += report.lines
        self.skipped += report.skipped_bytes
        self.sources += report.sources
        self.warnings += report.warnings
        self.rejects += report.rejects[: MAX_TOLD_REJECTS - len(self.rejects)]


class Intake:
    """Takes data into one ring. model: name or path of the model for new texts, None: the default one."""

    def __init__(self, ring: Ring, model: str | None) -> None:
        self._ring = ring
        self._model = model

    def ingest(
        self, inputs: Sequence[Any], options: IngestOptions, *, embeds: bool, progress: Progress | None
    ) -> IngestSummary:
        """Take inputs of any kind: files first, then rows, then tables; embeds: their texts as well.

        An error that ends it early has the summary of what was taken as `done`.
        """
        started_s, summary = time.monotonic(), IngestSummary()
        with _telling(lambda: summary):
            if embeds:
                self._check_model(inputs)
            self._read(inputs, options, progress, summary)
            summary.read_s = time.monotonic() - started_s
            if embeds:
                filled = embed(self._ring, self._model, progress)
                summary.embedded = filled.texts
                # Damage elsewhere is no failure of this load.
                summary.warnings += map(str, filled.damaged)
                summary.miss_share = summary.embedded / summary.accepted if summary.accepted else 0.0
            with self._ring.snapshot() as snapshot:
                summary.pending = snapshot.pending
        summary.seconds = time.monotonic() - started_s
        return summary

    def append(self, data: Any, vector: str | None) -> int:
        """Append a table, a frame or dicts and give the number of events. vector: where their embedding is.

        An error that ends it early has the number so far as `done`.
        """
        report = IngestReport()
        with _telling(lambda: report.accepted):
            if is_table(data) or not is_rows(data):
                self._append_table(data, IngestOptions(), report, vector)
            elif vector is None:
                ingest_rows(self._ring, data, report=report)
            else:
                from treering.indexer.tables import row_tables

                for table in row_tables(data, vector):
                    self._append_table(table, IngestOptions(), report, vector, first_row=report.accepted)
        return report.accepted

    def _check_model(self, inputs: Sequence[Any]) -> None:
        """Say that a model is nowhere before anything is taken in; tables may bring their own vectors."""
        stored = self._ring.model
        has_given_vectors = stored is not None and is_given(stored)
        if not has_given_vectors and not all(map(is_table, inputs)):
            locate(self._model)

    def _read(
        self,
        inputs: Sequence[Any],
        options: IngestOptions,
        progress: Progress | None,
        summary: IngestSummary,
    ) -> None:
        told = reading(progress)
        tables = [one for one in inputs if is_table(one)]
        others = [one for one in inputs if not is_table(one)]
        if files := [one for one in others if not is_rows(one)]:
            with _counted(summary) as report:
                ingest(self._ring, files, options=options, progress=told, report=report)
        for rows in filter(is_rows, others):
            with _counted(summary) as report:
                ingest_rows(self._ring, rows, options=options, progress=told, report=report)
        for table in tables:
            with _counted(summary) as report:
                self._append_table(table, options, report)

    def _append_table(
        self,
        data: Any,
        options: IngestOptions,
        report: IngestReport,
        vector: str | None = None,
        *,
        first_row: int = 0,
    ) -> None:
        from treering.indexer.tables import TableOptions, table_batches, to_table

        told = TableOptions(vector, options.map, zone(options.tz))
        n_undated, n_future = 0, 0
        for part in table_batches(to_table(data), told, first_row=first_row):
            if part.vectors is not None:
                accept_vectors(self._ring, part.vectors.dim)
            self._ring.append_columns(part.batch, part.vectors)
            report.accepted += part.batch.n_rows
            n_undated, n_future = n_undated + part.n_undated, n_future + part.n_future
        report.sources = int(report.accepted > 0)
        report.warn_of_times("table", n_undated=n_undated, n_future=n_future)


def accept_vectors(ring: Ring, dim: int) -> None:
    """Hold a store to one kind of vectors: those of `dim` dimensions that come with events."""
    from treering.storage.batch import ModelInfo
    from treering.storage.signature import N_VALUES

    stored = ring.model
    if stored is None:
        ring.set_model(ModelInfo(f"{GIVEN}{dim}", dim, 0, 0, 0, "none", "none", (1.0,) * N_VALUES))
    elif stored.dim != dim:
        raise ModelError(
            f"{ring.path}: the store holds vectors of {stored.dim} dimensions, these have {dim}; give such "
            "as it holds, or open another store"
        )


@contextmanager
def _counted(summary: IngestSummary) -> Iterator[IngestReport]:
    """Give a report to count in, which the summary gets whatever happens."""
    report = IngestReport()
    try:
        yield report
    finally:
        summary.add(report)


@contextmanager
def _telling(done: Callable[[], object]) -> Iterator[None]:
    """Let an error tell what was done before it."""
    try:
        yield
    except TreeringError as error:
        error.done = done()
        raise


def is_table(one: Any) -> bool:
    """Whether something is an Arrow table or a frame, told without importing their libraries."""
    return type(one).__module__.partition(".")[0] in ("pyarrow", "pandas", "polars")
