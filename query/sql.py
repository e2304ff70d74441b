"""SQL over the view `events`, by DuckDB, read-only and shut off from files and network."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from treering.storage.errors import QueryError, ShortageError, TreeringError
from treering.storage.part import Part
from treering.storage.schema import split_physical
from treering.storage.shortage import ADVICE, is_shortage

from .bound import Column
from .duck import COMPUTING, connect, fetch_arrow
from .field_values import arrow_values
from .kinds import by_code
from .rows import Choice, Rows, Snapshot

STAR = re.compile(r"(?i)(select|distinct|,|\.)\s*\*|\bcolumns\s*\(|\bdescribe\b|\bsummarize\b|^\s*from\b")
"""Where all columns are meant."""

HIDDEN = frozenset(("record",))
"""Columns that hold bytes rather than values."""


def run_sql(snapshot: Snapshot, text: str) -> pa.Table:
    """Run SQL over the view `events` and give the answer.

    The view has `ts` (TIMESTAMP_NS, UTC) and `seq`, every canonical field, signal and original path under its
    own name; names that are no SQL words stand in double quotes. A path of whole and fractional numbers is
    DOUBLE, one of several other types is text with JSON for what is not text. Only columns whose names occur
    in `text` are read (all of them with `*`). Raises QueryError with DuckDB's message, ShortageError.
    """
    import duckdb

    if not isinstance(text, str):
        raise QueryError(f"SQL is text, not {type(text).__name__}: write 'select count(*) from events'")
    _check_statement(text)
    rows = Rows.of([Choice(part, slice(0, part.n_rows)) for part in snapshot.parts])
    columns = view_columns(snapshot.parts)
    asked = columns if _wants_all(text) else [c for c in columns if _occurs(c.name, text)]
    events = {column.name: _column(rows, column) for column in asked}
    if not events:  # count(*) and the like still need the rows
        events = {"seq": pa.array(rows.seq)}
    connection = connect()
    try:
        connection.register("events", pa.table(events))
        return fetch_arrow(connection, text)
    except duckdb.Error as error:
        raise _told(error) from None
    finally:
        connection.close()


def _told(error: Exception) -> TreeringError:
    if is_shortage(error):
        return ShortageError(f"memory ran out {COMPUTING}: {ADVICE}")
    return QueryError(f"SQL: {str(error).strip()}")


def _check_statement(text: str) -> None:
    """Refuse what is no single question. Raises QueryError."""
    import duckdb

    try:
        statements = duckdb.extract_statements(text)
    except duckdb.Error as error:
        raise _told(error) from None
    if len(statements) != 1:
        raise QueryError(f"SQL: one SELECT at a time, this is {len(statements) or 'no'} statements")
    kind = statements[0].type
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI):
        raise QueryError(
            f"SQL: only SELECT is answered, this is {kind.name}: the store is read, never changed"
        )


def view_columns(parts: Sequence[Part]) -> list[Column]:
    """The columns of the view: ts and seq, then paths, canonical fields and signals by name."""
    names: dict[str, list[str]] = {"ts": ["ts"], "seq": ["seq"]}
    stored = {name for part in parts for name in part.fields} - HIDDEN
    # Of an original path and a canonical field of one name the latter has the declared type: it is first.
    for name in sorted(stored, key=lambda n: (split_physical(n)[1] != "", n)):
        path, code = split_physical(name)
        if path not in names or (code and all(split_physical(n)[1] for n in names[path])):
            names.setdefault(path, []).append(name)
    seen: set[str] = set()
    out = []
    for path, physical in names.items():
        # DuckDB tells no names apart by case.
        if path.lower() in seen:
            continue
        seen.add(path.lower())
        out.append(Column(path, by_code(physical), "mixed"))
    return out


def _wants_all(text: str) -> bool:
    """Whether all columns may be meant (and not a product or `count(*)`)."""
    return STAR.search(text) is not None


def _occurs(name: str, text: str) -> bool:
    return name.lower() in text.lower()


def _column(rows: Rows, column: Column) -> pa.Array:
    array = arrow_values(rows, column)
    if column.name == "ts":
        return array.cast(pa.timestamp("ns"))
    if pa.types.is_null(array.type):
        return pa.array(np.full(len(rows), None), pa.string())
    return array
