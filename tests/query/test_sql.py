"""SQL sees the events under their names, and nothing outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.query.parts import Event, PlainPart, PlainSnapshot
from treering.query.sql import run_sql
from treering.storage.errors import QueryError


def snapshot() -> PlainSnapshot:
    first: list[dict[str, Any]] = [
        {"a.b#i": 1, "m#s": "x", "request_model": "x", "record": b"{}"},
        {"a.b#f": 0.5, "m#i": 7, "score": 0.25, "level": 5},
    ]
    second: list[dict[str, Any]] = [{"a.b#i": 3, "tags#[s]": ["p", "q"]}]
    return PlainSnapshot(
        [
            PlainPart([Event(i, i, v) for i, v in enumerate(first)]),
            PlainPart([Event(10 + i, 2 + i, v) for i, v in enumerate(second)]),
        ]
    )


def test_fields_stand_under_their_names_with_merged_types() -> None:
    sql = 'SELECT seq, "a.b", m, score, level, tags FROM events ORDER BY seq'
    assert run_sql(snapshot(), sql).to_pylist() == [
        {"seq": 0, "a.b": 1.0, "m": "x", "score": None, "level": None, "tags": None},
        {"seq": 1, "a.b": 0.5, "m": "7", "score": 0.25, "level": "error", "tags": None},
        {"seq": 2, "a.b": 3.0, "m": None, "score": None, "level": None, "tags": ["p", "q"]},
    ]


def test_star_gives_every_column_but_the_raw_record() -> None:
    names = run_sql(snapshot(), "SELECT * FROM events").column_names
    assert set(names) == {"ts", "seq", "request_model", "score", "level", "a.b", "m", "tags"}


def test_count_without_columns_counts_rows() -> None:
    assert run_sql(snapshot(), "SELECT count(*) AS n FROM events").to_pylist() == [{"n": 3}]
    assert run_sql(PlainSnapshot([]), "SELECT count(*) AS n FROM events").to_pylist() == [{"n": 0}]


def test_times_are_nanosecond_timestamps() -> None:
    found = run_sql(snapshot(), "SELECT epoch_ns(max(ts)) AS t FROM events").to_pylist()
    assert found == [{"t": 10}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{path}')",
        "COPY events TO '{path}'",
        "ATTACH '{path}' AS other",
        "SELECT * FROM '{path}'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "SELECT no_such_column FROM events",
        "SELEC 1",
    ],
)
def test_files_network_and_settings_are_out_of_reach(sql: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    with pytest.raises(QueryError, match="SQL"):
        run_sql(snapshot(), sql.format(path=path))
    assert path.read_text() == "a\n1\n"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "one SELECT at a time, this is no"),
        (" ; -- nothing", "one SELECT at a time, this is no"),
        ("SELECT 1; SELECT 2", "this is 2 statements"),
        ("DROP TABLE events", "only SELECT"),
        ("drop view events", "only SELECT"),
        ("CREATE TABLE t AS SELECT 1", "only SELECT"),
        ("INSERT INTO events VALUES (1)", "only SELECT"),
        ("PRAGMA version", "only SELECT"),
    ],
)
def test_only_one_question_is_answered(sql: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        run_sql(snapshot(), sql)


@pytest.mark.parametrize(
    "sql",
    [
        "-- a comment\nSELECT m FROM events;",
        "WITH t AS (SELECT m FROM events) SELECT m FROM t",
        "FROM events",
        "VALUES (1), (2), (3)",
        "SUMMARIZE SELECT m, score, level FROM events",
    ],
)
def test_every_way_to_ask_is_answered(sql: str) -> None:
    assert run_sql(snapshot(), sql).num_rows == 3
    assert run_sql(snapshot(), "EXPLAIN SELECT m FROM events").num_rows == 1
