"""The store a person works with: records in, answers out. Every command of the command line is one call here."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_not
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treering.indexer.decode import Decoder
from treering.indexer.ingest import MAX_TOLD_REJECTS, IngestOptions, IngestReport, ingest, ingest_rows
from treering.indexer.model import GIVEN, check_same_model, is_given, is_same_model, locate
from treering.indexer.rows_in import is_rows
from treering.indexer.times import zone
from treering.storage.backup import BackupReport
from treering.storage.compactor import CompactReport
from treering.storage.errors import ConfigError, DamageError, ModelError, QueryError, TreeringError
from treering.storage.locking import Patience
from treering.storage.rejects import Reject
from treering.storage.ring import Ring
from treering.storage.snapshot import Snapshot

from . import ast
from .bind import bind
from .bound import BoundQuery, Column
from .execute import execute, find_anchor
from .expired import followed
from .names import Catalog
from .overview import FieldInfo, compaction_stats, field_infos, move_stats, store_stats
from .plan import Plan
from .result import Result
from .times import parse_now

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.indexer.fill import FillReport
    from treering.indexer.reembed import ReembedReport
    from treering.storage.audit import AuditRecord
    from treering.storage.batch import ModelInfo
    from treering.storage.findings import CheckReport

    from .receipts import Erasure, Receipt


@dataclass(frozen=True, slots=True)
class Step:
    """How far a long call is; done and total (None: not known) in `unit`.

    stage: `read`, `embed`, `fold`, `copy` or `check`.
    """

    stage: str
    done: int
    total: int | None
    unit: str


Progress = Callable[[Step], None]


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


class Store:
    """An open store. Use as a context manager; a writer holds the store's lock until `close`."""

    def __init__(self, ring: Ring, *, model: str | None = None, writes: bool = True) -> None:
        self._ring = ring
        self._writes = writes
        self._model_name = model
        self._encoder: Any = None
        self._known: tuple[Any, Catalog] | None = None
        self._is_closed = False
        self.path = ring.path

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except TreeringError as failed:
            if error is None:
                raise
            error.add_note(f"closing the store failed too: {failed}")  # the first failure is the one to see

    def close(self) -> None:
        """Release the lock and the open files, whatever happens; a writer writes what is in memory first.

        Twice is once. Raises StoreError where that last write fails: what was accepted is durable all the same.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._writes and not self._ring.is_stopped:
                self._ring.flush()
        finally:
            self._ring.close()

    # -- in -------------------------------------------------------------------------------------------------------

    def ingest(
        self,
        *inputs: Any,
        reader: str | None = None,
        map: Mapping[str, str] | None = None,
        tz: str | None = None,
        year: int | None = None,
        base_time: str | None = None,
        again: bool = False,
        strict: bool = False,
        join: bool = True,
        embed: bool = True,
        progress: Progress | None = None,
    ) -> IngestSummary:
        """Take in paths, globs, folders, file objects, `-` (stdin), dicts, iterables of dicts, Arrow tables or frames.

        Durable when it returns, and block by block before. What files hold is taken once (unless `again`);
        rows and tables are new events each time. embed: also wait until every text has its vector. Raises
        InputError when a source cannot be read; single bad records are counted in the summary and kept
        (`rejects`).
        """
        started = time.monotonic()
        tables = [i for i in inputs if _is_table(i)]
        rows = [i for i in inputs if not _is_table(i) and is_rows(i)]
        files = [i for i in inputs if not _is_table(i) and not is_rows(i)]
        if embed and (files or rows) and not self._has_given_vectors():
            locate(self._model_name)  # a model that is nowhere is said before anything is taken in
        options = IngestOptions(
            reader=reader,
            map=dict(map or {}),
            tz=tz or "UTC",
            year=year,
            base_time=base_time,
            again=again,
            strict=strict,
            join=join,
        )
        summary = IngestSummary()
        read = _reading(progress)
        if files:
            _add(summary, ingest(self._ring, files, options=options, progress=read))
        for one in rows:
            _add(summary, ingest_rows(self._ring, one, options=options, progress=read))
        for one in tables:
            _add(summary, self._append_table(one, options))
        summary.read_s = time.monotonic() - started
        if embed:
            report = self.embed(progress=progress)
            summary.embedded = report.texts
            summary.miss_share = report.texts / summary.accepted if summary.accepted else 0.0
        with self._ring.snapshot() as snapshot:
            summary.pending = snapshot.pending
        summary.seconds = time.monotonic() - started
        return summary

    def append(self, data: Any, *, vector: str | None = None) -> int:
        """Append an Arrow table, a frame, or dicts; a table's column `vector` is taken as the events' embedding.

        vector: another column of a table, or a key of dicts, that holds the embedding as a list of numbers. Gives
        the number of events. Durable when it returns; a long table or stream is durable piece by piece.
        """
        if _is_table(data) or not is_rows(data):
            return self._append_table(data, IngestOptions(), vector).accepted
        if vector is None:
            return ingest_rows(self._ring, data).accepted
        from treering.indexer.tables import row_tables

        accepted = 0
        for table in row_tables(data, vector):
            accepted += self._append_table(table, IngestOptions(), vector, first_row=accepted).accepted
        return accepted

    def flush(self) -> None:
        """Write what is in memory as segments. Not needed for durability: what was accepted is durable already."""
        self._ring.flush()

    def embed(self, *, progress: Progress | None = None) -> FillReport:
        """Give every waiting text its vector, compute the signals that need vectors, and order finished segments."""
        from treering.indexer.fill import fill_ring

        self._ring.flush()
        return fill_ring(
            self._ring, model=self._model_name, progress=_embedding(progress), folding=_folding(progress)
        )

    def reembed(
        self,
        model: str,
        *,
        drops_given: bool = False,
        budget_s: float | None = None,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """Move the store to another model: every text is embedded anew, then all of it is the new model's at once.

        Until then queries answer as before, and events that come are taken along. What is done is kept on disk: where
        this is interrupted, or `budget_s` runs out (`finished` is False), the next call with this model goes on; one
        with another model, and a deletion, begin anew. drops_given: also where the vectors were given with the events;
        they are lost, and the events' texts are embedded. Raises ModelError; DamageError where an event cannot be read.
        """
        from treering.indexer.embedder import Embedder
        from treering.indexer.reembed import check_movable, reembed

        check_movable(self._ring, drops_given=drops_given)
        report = reembed(
            self._ring,
            Embedder(locate(model)),
            drops_given=drops_given,
            progress=_embedding(progress),
            folding=_folding(progress),
            copied=_copying(progress, "events"),
            budget=budget_s,
        )
        if report.finished:
            self._model_name = model
        self._known = None  # it holds on to files that are gone
        return report

    def abort_reembed(self) -> bool:
        """Drop what was done of a move to another model that is not at its end; give whether there was something."""
        return self._ring.abort_move()

    def settle(self) -> None:
        """Write what is in memory as segments, and wait for the compaction that is due; before a process ends.

        Not needed for durability. What goes wrong with a compaction is in `stats()["compaction_error"]`.
        """
        self._ring.settle()

    def compact(self) -> CompactReport:
        """Flush, then rewrite segments into as few as the limits of a segment allow; appends and queries go on.

        A store that is open for writing compacts in the background by itself, as far as that pays: this joins the
        rest, whatever it costs. Segments whose vectors are to come are joined only among themselves (`waiting` in
        the report) until `embed` finishes them. Raises DamageError for a damaged segment once all others are joined.
        """
        return self._ring.compact()

    def rejects(self) -> Iterator[Reject]:
        """Records that no reader understood, with source, line and reason."""
        return self._ring.rejects()

    # -- out ------------------------------------------------------------------------------------------------------

    def query(
        self,
        query: Any,
        *,
        params: Mapping[str, Any] | None = None,
        now: Any = None,
        damaged: Literal["fail", "skip"] = "fail",
    ) -> Result:
        """Run a query: text, JSON form (a dict) or the Python builder.

        params: values for `$name`; a float32 vector may stand for the text of `~`. now: pins the clock (RFC 3339 or
        ns). damaged: what to do where the answer needs a segment that is damaged: `fail`, or `skip` it, then
        `meta["complete"]` is False and `meta["unreachable"]` says what was left out. Raises QueryError; DamageError,
        which names the file and the events out of reach.
        """
        if damaged not in ("fail", "skip"):
            raise ConfigError(f"damaged is {damaged!r}, expected 'fail' or 'skip'")
        is_skipping = damaged == "skip"
        return followed(lambda: self._run(query, params, now, raw_files=False, skip_damaged=is_skipping))

    def explain(self, query: Any, *, params: Mapping[str, Any] | None = None, now: Any = None) -> Plan:
        """Run a query and give its plan: exact or not, what was skipped, rows and time of each step."""
        return self.query(query, params=params, now=now).plan

    def sql(self, text: str) -> pa.Table:
        """Run SQL (DuckDB) over the view `events`, read-only, without access to files or network.

        Raises QueryError with DuckDB's message, DamageError where a segment that it needs is damaged.
        """
        from .sql import run_sql

        with self._ring.snapshot() as snapshot:
            return run_sql(snapshot, text)

    def fields(self) -> list[FieldInfo]:
        """Every stored field: types with counts, fill rate, unit, examples."""
        with self._ring.snapshot() as snapshot:
            return field_infos(snapshot)

    def stats(self) -> dict[str, Any]:
        """Rows, segments, shards and their balance, time range, bytes by file kind, what waits, what was rejected."""
        with self._ring.snapshot() as snapshot:
            facts = store_stats(snapshot, self.path, self._ring.sizes(), self._ring.model)
            facts |= {"reembed": move_stats(self._ring.move_state(), snapshot.n_rows)}
            return facts | compaction_stats(self._ring.amplification, self._ring.compaction_error)

    def export(
        self,
        query: Any,
        target: Any,
        *,
        format: str | None = None,
        params: Mapping[str, Any] | None = None,
        now: Any = None,
    ) -> int:
        """Write the answer of a query to a path or binary file: parquet, arrow, jsonl or csv. Gives the row count."""
        from .export import export_result

        return export_result(self.query(query, params=params, now=now), target, format=format)

    # -- away -----------------------------------------------------------------------------------------------------

    def delete(
        self,
        query: Any,
        *,
        dry_run: bool = False,
        params: Mapping[str, Any] | None = None,
        now: Any = None,
        wait_s: float = 0.0,
    ) -> Receipt:
        """Erase the events and rejects that match a condition: at once nobody sees them, then their bytes go.

        Everything goes: texts, values in dictionaries, statistics, and vectors that were made of their texts, which
        `embed` makes again of what is left. dry_run: only say what would go. wait_s: how long to wait for readers
        of older versions, whose files stay as long as they read. Raises QueryError for anything but a condition,
        and where the condition asks for vectors that are still to come.
        """
        return self._erase(self._condition("delete", query, params, now), dry_run, wait_s)

    def expire(
        self,
        *,
        older_than: str | None = None,
        max_bytes: int | str | None = None,
        query: Any = None,
        params: Mapping[str, Any] | None = None,
        now: Any = None,
        dry_run: bool = False,
        wait_s: float = 0.0,
    ) -> Receipt:
        """Erase what is older than a duration (`30d`), or the oldest segments until the rest has at most `max_bytes`.

        query: erase what matches a condition instead, like `delete`. By age no event stays that is older; by size
        whole segments go. Vectors stay as long as an event that is left uses them, but for those of `query`.
        """
        given = [one for one in (older_than, max_bytes, query) if one is not None]
        if len(given) != 1:
            raise ConfigError("expire takes one of older_than, max_bytes and query")
        from .receipts import of_age, of_size

        if older_than is not None:
            return self._erase(of_age(older_than, parse_now(now)), dry_run, wait_s)
        if max_bytes is not None:
            return self._erase(of_size(max_bytes), dry_run, wait_s)
        return self._erase(self._condition("expire", query, params, now), dry_run, wait_s)

    def audit(self, *, verify: bool = False, head: str | None = None) -> list[AuditRecord]:
        """Give what was done to the store by hand, oldest first.

        verify: check the chain of hashes. head: the hash of a record that was kept elsewhere, which must be one of
        the chain. Raises DamageError where either is not so.
        """
        from treering.storage.audit import check_chain

        records, last = self._ring.audit()
        if verify or head is not None:
            check_chain(records, last)
        if head is not None and head not in {record.hash for record in records}:
            raise DamageError(
                f"audit: no record has the hash {head}; records were removed, or it is of another store"
            )
        return records

    def check(
        self, *, deep: bool = False, repair: bool = False, progress: Progress | None = None
    ) -> CheckReport:
        """Look at every file of the store and find all that is wrong: nothing stops it, and others write meanwhile.

        deep: read every byte, and compare what the files hold with each other. repair: mend then what can be mended
        without losing anything (in a store that is open for writing). A store that does not open is looked at, and
        salvaged, by `treering.check`.
        """
        from .check import checking

        if repair:
            return self._ring.repair(deep=deep, progress=checking(progress))
        return self._ring.check(deep=deep, progress=checking(progress))

    # -- copies ---------------------------------------------------------------------------------------------------

    def backup(
        self, dest: str | os.PathLike[str], *, verify: bool = False, progress: Progress | None = None
    ) -> BackupReport:
        """Bring a backup in `dest` to the store as it is now; only what is new is copied, everything is checked.

        `dest` is made where it is missing, is a store itself at every moment, and is readable at once. Others write
        meanwhile. verify: read what is there, too, and bring anew what is damaged. Raises DamageError for a damaged
        file of this store; StoreError where `dest` is no backup of it, was written to, or is newer: then it stays as
        it was.
        """
        return self._ring.backup(os.fspath(dest), verify=verify, progress=_copying(progress))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _condition(self, action: str, query: Any, params: Mapping[str, Any] | None, now: Any) -> Erasure:
        from .receipts import of_condition

        now_ns, text = parse_now(now), query if isinstance(query, str) else None

        def bound(unbound: ast.Query, catalog: Catalog) -> BoundQuery:
            return bind(
                unbound,
                catalog,
                now_ns=now_ns,
                params=dict(params or {}),
                embed=lambda of: self._embed_query(of, self._ring.model),
                find_anchor=lambda column, value: None,
                text=text,
            )

        return of_condition(action, query, to_ast(query), bound)

    def _erase(self, erasure: Erasure, dry_run: bool, wait_s: float) -> Receipt:
        if dry_run:
            return erasure.preview(self._ring)
        try:
            return erasure.run(self._ring, wait_s=wait_s)
        finally:
            self._known = None  # it holds on to files that are gone

    def _append_table(
        self, data: Any, options: IngestOptions, vector: str | None = None, *, first_row: int = 0
    ) -> IngestReport:
        from treering.indexer.tables import TableOptions, table_batches, to_table

        told = TableOptions(vector, options.map, zone(options.tz))
        report, n_undated, n_future = IngestReport(), 0, 0
        for part in table_batches(to_table(data), told, first_row=first_row):
            if part.vectors is not None:
                self._accept_vectors(part.vectors.dim)
            self._ring.append_columns(part.batch, part.vectors)
            report.accepted += part.batch.n_rows
            n_undated, n_future = n_undated + part.n_undated, n_future + part.n_future
        report.sources = int(report.accepted > 0)
        report.warn_of_times("table", n_undated=n_undated, n_future=n_future)
        return report

    def _run(
        self,
        query: Any,
        params: Mapping[str, Any] | None,
        now: Any,
        *,
        raw_files: bool,
        skip_damaged: bool = False,
    ) -> Result:
        unbound = to_ast(query)
        snapshot = self._ring.snapshot()
        text = query if isinstance(query, str) else None

        def ask(state: Snapshot) -> Result:
            return execute(state, self._bind(unbound, state, params, now, raw_files=raw_files, text=text))

        if skip_damaged:
            from .damage import ask_what_is_left

            result = ask_what_is_left(snapshot, ask)
        else:
            result = ask(snapshot)
        result.keep_alive(snapshot)
        return result

    def _bind(
        self,
        query: ast.Query,
        snapshot: Snapshot,
        params: Mapping[str, Any] | None,
        now: Any,
        *,
        raw_files: bool,
        text: str | None,
    ) -> BoundQuery:
        def anchor(column: Column, value: Any) -> tuple[npt.NDArray[np.float32], int] | None:
            return find_anchor(snapshot, column, value)

        return bind(
            query,
            self._catalog(snapshot),
            now_ns=parse_now(now),
            params=dict(params or {}),
            embed=lambda of: self._embed_query(of, snapshot.model),
            find_anchor=anchor,
            raw_files=raw_files,
            text=text,
        )

    def _catalog(self, snapshot: Snapshot) -> Catalog:
        """The stored fields, gathered once for each state of the store."""
        known = self._known
        if (
            known is None
            or len(known[0]) != len(snapshot.parts)
            or any(map(is_not, known[0], snapshot.parts))
        ):
            known = self._known = (snapshot.parts, Catalog.of(snapshot.parts))
        return known[1]

    def _has_given_vectors(self) -> bool:
        return self._ring.model is not None and is_given(self._ring.model)

    def _embed_query(self, text: str, stored: ModelInfo | None) -> npt.NDArray[np.float32]:
        """Vector of a query text, by the model that the stored vectors were made with, None where there are none."""
        from treering.indexer.light import load_query_encoder

        if stored is not None and is_given(stored):
            raise QueryError(
                "the vectors of this store were given with the events, no model is known for texts: pass a vector, "
                'e.g. `~ $v` with params={"v": vector}'
            )
        if self._encoder is None or (stored is not None and not is_same_model(stored, self._encoder.info)):
            # None yet, or one of the model that the store had before it was moved.
            self._encoder = load_query_encoder(self._model_name)
        if stored is not None:
            check_same_model(stored, self._encoder.info)
        vector: npt.NDArray[np.float32] = self._encoder.encode_query(text)
        return vector

    def _accept_vectors(self, dim: int) -> None:
        """Hold the store to one kind of vectors."""
        from treering.storage.batch import ModelInfo

        stored = self._ring.model
        if stored is None:
            self._ring.set_model(ModelInfo(f"{GIVEN}{dim}", dim, 0, 0, 0, "none", "none", (1.0,) * 136))
        elif stored.dim != dim:
            raise ModelError(f"this store holds vectors of {stored.dim} dimensions, these have {dim}")


def open_store(
    path: str | os.PathLike[str] | None = None,
    mode: Literal["rw", "r"] = "rw",
    *,
    model: str | None = None,
    wait_s: float | None = None,
    compacts: bool = True,
) -> Store:
    """Open a store; mode `rw` creates it and takes the writer's lock, `r` reads beside a live writer.

    path defaults to $TREERING_STORE, else ./.treering; `s3://bucket/prefix` is a store in a bucket.
    model: a sentence-transformers name or path for a new store.
    wait_s: how long to wait for another writer (None: not at all; `math.inf`: as long as it takes).
    compacts: whether a writer compacts in the background, in a thread that lives only while something is due.
    Raises StoreError when another writer holds the lock, DamageError when a file is damaged.
    """
    if mode not in ("rw", "r"):
        raise ConfigError(f"mode is {mode!r}, expected 'rw' or 'r'")
    place = os.fspath(path or os.environ.get("TREERING_STORE") or ".treering")
    patience = Patience(wait_s or 0.0)
    ring = Ring.open(
        place, "w" if mode == "rw" else "r", decoder=Decoder(), patience=patience, compacts=compacts
    )
    return Store(ring, model=model or os.environ.get("TREERING_MODEL"), writes=mode == "rw")


def restore(
    src: str | os.PathLike[str], dest: str | os.PathLike[str], *, progress: Progress | None = None
) -> BackupReport:
    """Copy a backup, or any store, into a new or empty directory, and check every file on the way.

    The result is the same store in another place: it keeps its id, and is no backup. Raises DamageError for a damaged
    file of `src`, after which there is no store in `dest`; StoreError where there is something in `dest`.
    """
    with Ring.open(os.fspath(src), "r", decoder=Decoder()) as ring:
        return ring.restore(os.fspath(dest), progress=_copying(progress))


def query_files(
    query: Any,
    files: Iterable[Any],
    *,
    params: Mapping[str, Any] | None = None,
    now: Any = None,
    model: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Query raw files without a store: a throw-away index that lives as long as the answer.

    Texts are embedded only when the query asks for meaning or for a signal that needs vectors. On raw files
    `last 1h` counts back from the newest event.
    """
    unbound = to_ast(query)
    place = tempfile.TemporaryDirectory(prefix="treering-")
    store = open_store(place.name, model=model, compacts=False)
    given = (files,) if isinstance(files, (str, os.PathLike)) else tuple(files)
    try:
        summary = store.ingest(*given, embed=needs_vectors(unbound), progress=progress, **options)
        result = store._run(unbound, params, now, raw_files=True)
        result.meta["ingest"] = summary
    except BaseException as error:
        with place:
            store.__exit__(type(error), error, error.__traceback__)
        raise
    result.keep_alive(store, place)
    return result


def needs_vectors(query: ast.Query) -> bool:
    """Whether a query asks for meaning or names a signal that is computed from vectors."""
    from treering.indexer.signals import SIGNALS

    from .names import fold_name
    from .walk import names_of, uses_meaning

    needing = {s.name for s in SIGNALS.values() if s.needs_vectors}
    return uses_meaning(query) or any(fold_name(n) in needing for n in names_of(query))


def to_ast(query: Any) -> ast.Query:
    """Give the abstract query of text, JSON form or builder. Raises QueryError."""
    if isinstance(query, ast.Query):
        return query
    if isinstance(query, str):
        from .parse import parse

        return parse(query)
    if isinstance(query, Mapping):
        from .json_form import from_json

        return from_json(query)
    built = getattr(query, "query", None)
    if isinstance(built, ast.Query):
        return built
    raise QueryError(
        f"cannot run {type(query).__name__} as a query: give text, a dict (JSON form) or treering.where(...)"
    )


def _reading(progress: Progress | None) -> Callable[[Any], None] | None:
    if progress is None:
        return None
    return lambda at: progress(Step("read", at.taken_bytes, at.size_bytes, "bytes"))


def _embedding(progress: Progress | None) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(Step("embed", done, total, "texts"))


def _folding(progress: Progress | None) -> Callable[[int, int | None], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(Step("fold", done, total, "segments"))


def _copying(progress: Progress | None, unit: str = "bytes") -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(Step("copy", done, total, unit))


def _is_table(one: Any) -> bool:
    return type(one).__module__.partition(".")[0] in ("pyarrow", "pandas", "polars")


def _add(summary: IngestSummary, report: IngestReport) -> None:
    summary.accepted += report.accepted
    summary.rejected += report.rejected
    summary.joined += report.joined
    summary.lines += report.lines
    summary.skipped += report.skipped_bytes
    summary.sources += report.sources
    summary.warnings += report.warnings
    summary.rejects += report.rejects[: MAX_TOLD_REJECTS - len(summary.rejects)]
