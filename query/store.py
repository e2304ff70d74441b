"""The store a person works with: records in, answers out. Every command of the command line is one call here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from treering.indexer.ingest import IngestOptions
from treering.storage.backup import BackupReport
from treering.storage.compactor import CompactReport
from treering.storage.errors import ConfigError, DamageError, TreeringError
from treering.storage.locking import Patience
from treering.storage.rejects import Reject
from treering.storage.ring import Ring

from .embedding import embed, reembed
from .expired import followed
from .intake import IngestSummary, Intake
from .overview import FieldInfo, compaction_stats, field_infos, move_stats, store_stats
from .plan import Plan
from .progress import Progress, checking, counting
from .questions import Questions
from .result import Result
from .times import parse_now

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.indexer.fill import FillReport
    from treering.indexer.reembed import ReembedReport
    from treering.storage.audit import AuditRecord
    from treering.storage.findings import CheckReport

    from .receipts import Erasure, Receipt


class Store:
    """An open store. Use as a context manager; a writer holds the store's lock until `close`."""

    def __init__(self, ring: Ring, *, model: str | None = None, writes: bool = True) -> None:
        self._ring = ring
        self._writes = writes
        self._model = model
        self._questions = Questions(ring, model)
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
        return Intake(self._ring, self._model).ingest(inputs, options, embeds=embed, progress=progress)

    def append(self, data: Any, *, vector: str | None = None) -> int:
        """Append an Arrow table, a frame, or dicts; a table's column `vector` is taken as the events' embedding.

        vector: another column of a table, or a key of dicts, that holds the embedding as a list of numbers. Gives
        the number of events. Durable when it returns; a long table or stream is durable piece by piece.
        """
        return Intake(self._ring, self._model).append(data, vector)

    def flush(self) -> None:
        """Write what is in memory as segments. Not needed for durability: what was accepted is durable already."""
        self._ring.flush()

    def embed(self, *, progress: Progress | None = None) -> FillReport:
        """Give every waiting text its vector, compute the signals that need vectors, and order finished segments."""
        return embed(self._ring, self._model, progress)

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
        report = reembed(self._ring, model, drops_given=drops_given, budget_s=budget_s, progress=progress)
        if report.finished:
            self._model = model
        self._questions = Questions(self._ring, self._model)  # of the old one files are gone
        return report

    def abort_reembed(self) -> bool:
        """Drop what was done of a move to another model that is not at its end; give whether there was something."""
        return self._ring.abort_move()

    def settle(self) -> None:
        """Write what is in memory as segments, and wait for the compaction that is due; before a process ends.

        Not needed for durability. What goes wrong with a compaction is in `stats()["compaction_error"]`.
        """
        self._ring.settle()

    def compact(self, *, wait_s: float = 0.0) -> CompactReport:
        """Flush, then rewrite segments into as few as the limits of a segment allow; appends and queries go on.

        A store that is open for writing compacts in the background by itself, as far as that pays: this joins the
        rest, whatever it costs. Segments whose vectors are to come are joined only among themselves (`waiting` in
        the report) until `embed` finishes them. wait_s: how long to wait for readers of older versions, whose files
        (`held`) stay as long as they read. Raises DamageError for a damaged segment once all others are joined.
        """
        return self._ring.compact(patience=Patience(wait_s))

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
        return followed(lambda: self._questions.ask(query, params, now, skip_damaged=is_skipping))

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
        from .export import check_target, export_result

        check_target(target)
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
        return self._erase(self._questions.condition("delete", query, params, now), dry_run, wait_s)

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
        from .receipts import check_one_rule, of_age, of_size

        check_one_rule(older_than=older_than, max_bytes=max_bytes, query=query)
        if older_than is not None:
            return self._erase(of_age(older_than, parse_now(now)), dry_run, wait_s)
        if max_bytes is not None:
            return self._erase(of_size(max_bytes), dry_run, wait_s)
        return self._erase(self._questions.condition("expire", query, params, now), dry_run, wait_s)

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
                f"{self.path}: in its audit no record has the hash {head}; records were removed, or it is of another "
                "store: compare with a backup"
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
        if repair:
            return self._ring.repair(deep=deep, progress=checking(progress))
        return self._ring.check(deep=deep, progress=checking(progress))

    # -- copies ---------------------------------------------------------------------------------------------------

    def backup(
        self,
        dest: str | os.PathLike[str],
        *,
        verify: bool = False,
        wait_s: float = 0.0,
        progress: Progress | None = None,
    ) -> BackupReport:
        """Bring a backup in `dest` to the store as it is now; only what is new is copied, everything is checked.

        `dest` is made where it is missing, is a store itself at every moment, and is readable at once. Others write
        meanwhile. verify: read what is there, too, and bring anew what is damaged. wait_s: how long to wait for
        another process that writes to `dest`. Raises DamageError for a damaged file of this store; StoreError where
        `dest` is no backup of it, was written to, or is newer: then it stays as it was.
        """
        return self._ring.backup(
            os.fspath(dest),
            verify=verify,
            patience=Patience(wait_s),
            progress=counting(progress, "copy", "bytes"),
        )

    def _erase(self, erasure: Erasure, dry_run: bool, wait_s: float) -> Receipt:
        if dry_run:
            return erasure.preview(self._ring)
        try:
            return erasure.run(self._ring, wait_s=wait_s)
        finally:
            self._questions.forget()
