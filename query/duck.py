"""DuckDB as a calculator: in memory, shut off from files and network."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pyarrow as pa

from treering.storage.shortage import shortage_told

SETTINGS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET TimeZone = 'UTC'",
    "SET lock_configuration = true",
)
"""Locked last, so that no SQL text can open files, load extensions or reach the network."""

COMPUTING = "while DuckDB computed the answer (a shorter time range or fewer groups take less)"
"""What was being done, where memory runs out."""


def connect() -> Any:
    """Give a connection that reads nothing but the tables registered with it, to a database of its own."""
    with shortage_told(COMPUTING):
        import duckdb

        connection = duckdb.connect(":memory:", config={"enable_external_access": "false"})
        for setting in SETTINGS:
            connection.execute(setting)
        return connection


def calculator() -> Any:
    """Give such a connection for statements of our own, which leave nothing behind.

    Starting DuckDB takes 35 ms, so these connections share one instance; tables are registered with one of
    them only. For statements of others use `connect`.
    """
    return _shared(os.getpid()).cursor()


@cache
def _shared(process: int) -> Any:
    """One instance a process: its threads do not live on in a fork."""
    return connect()


def fetch_arrow(connection: Any, sql: str) -> pa.Table:
    """Run SQL and give the answer as a table; a statement without an answer gives no columns."""
    with shortage_told(COMPUTING):
        answer = connection.sql(sql)
        return pa.table({}) if answer is None else answer.to_arrow_table()
