"""All lines of four public system logs and every row of a labelled answer set: each class of query against the
original rows, read and computed here by other means (csv, json, DuckDB, numpy).
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from tests.real_data import real

SYSTEMS = ("BGL", "HDFS", "OpenStack", "Zookeeper")
WORDS = {
    "trace": 1,
    "debug": 2,
    "info": 3,
    "warn": 4,
    "warning": 4,
    "error": 5,
    "severe": 5,
    "fatal": 6,
    "failure": 6,
}

IS_FULL = bool(os.environ.get("TREERING_FULL_TESTS"))
EMBEDDED_ANSWERS = 2240 if IS_FULL else 30
"""Rows of the answer set that also get vectors: all of them take the encoder minutes without an accelerator."""

EMBEDDED_SYSTEMS = SYSTEMS if IS_FULL else ("HDFS", "Zookeeper")
"""Logs whose lines also get vectors."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tr.Store]:
    """Everything, without vectors."""
    with tr.open(tmp_path_factory.mktemp("real") / "ring") as opened:
        for name in SYSTEMS:
            file = real("syslog-loghub", name, f"{name}_2k.log")
            lines = file.read_bytes().count(b"\n") + (not file.read_bytes().endswith(b"\n"))
            summary = opened.ingest(file, embed=False)
            assert (summary.rejected, summary.accepted + summary.joined) == (0, lines)
        answers = opened.ingest(real("hallucination", "halueval_general.jsonl"), embed=False)
        assert (answers.accepted, answers.rejected, answers.joined) == (2240, 0, 0)
        yield opened


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tr.Store]:
    """Lines of logs and a part of the answers, with every vector."""
    folder = tmp_path_factory.mktemp("embedded")
    rows = real("hallucination", "halueval_general.jsonl").read_bytes().split(b"\n")[:EMBEDDED_ANSWERS]
    (folder / "answers.jsonl").write_bytes(b"\n".join(rows))
    with tr.open(folder / "ring") as opened:
        opened.ingest(
            *(real("syslog-loghub", name, f"{name}_2k.log") for name in EMBEDDED_SYSTEMS), embed=False
        )
        summary = opened.ingest(folder / "answers.jsonl")
        assert (summary.accepted, summary.pending) == (EMBEDDED_ANSWERS, 0)
        yield opened


@pytest.fixture(scope="module")
def lines() -> dict[str, list[str]]:
    found = {}
    for name in SYSTEMS:
        text = real("syslog-loghub", name, f"{name}_2k.log").read_text("utf-8", errors="replace")
        found[name] = text.removesuffix("\n").split("\n")
    return found


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    text = real("hallucination", "halueval_general.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line.strip()]


@pytest.fixture(scope="module")
def events(store: tr.Store, answers: list[dict[str, Any]]) -> Any:
    """The original rows as a DuckDB table: LogHub's own parse of its lines, and the answers as they are."""
    rows = []
    for name in SYSTEMS:
        with real("syslog-loghub", name, f"{name}_2k.log_structured.csv").open(
            encoding="utf-8", newline=""
        ) as file:
            for row in csv.DictReader(file):
                rows.append(
                    {
                        "system": name,
                        "line": int(row["LineId"]),
                        "content": row["Content"],
                        "word": row["Level"],
                    }
                )
    connection = duckdb.connect()
    connection.register("logs", pa.Table.from_pylist(rows))
    keep = ("ID", "user_query", "chatgpt_response", "hallucination")
    connection.register("answers", pa.Table.from_pylist([{k: a[k] for k in keep} for a in answers]))
    return connection


def found_lines(result: tr.Result) -> list[tuple[str, int]]:
    return sorted(
        (Path(str(row["source"])).name.partition("_")[0], int(row["source_line"])) for row in result
    )


def test_every_line_of_every_log_is_there_as_it_was(store: tr.Store, lines: dict[str, list[str]]) -> None:
    kept: dict[str, dict[int, bytes]] = {name: {} for name in SYSTEMS}
    with store._ring.snapshot() as snapshot:
        for part in snapshot.parts:
            rows = (part.column(name).to_pylist() for name in ("source", "source_line", "record"))
            for source, line, record in zip(*rows, strict=True):
                kept.get(Path(source).name.partition("_")[0], {})[line] = record
    for name in SYSTEMS:
        text = b"\n".join(record.rstrip(b"\n") for _, record in sorted(kept[name].items()))
        assert text.decode("utf-8", "replace").split("\n") == lines[name]


@pytest.mark.parametrize("level", ["info", "warn", "error", "fatal"])
def test_severity_counts_equal_the_labels(store: tr.Store, events: Any, level: str) -> None:
    words = [w for w, code in WORDS.items() if code >= WORDS[level]]
    marks = ", ".join("?" for _ in words)
    want = events.execute(
        f"SELECT system, count(*) FROM logs WHERE lower(word) IN ({marks}) GROUP BY 1 ORDER BY 1", words
    ).fetchall()
    got = store.query(f"level >= {level} count by source").to_list()
    by_system = {
        Path(row["source"]).name.partition("_")[0]: row["count"] for row in got if "_2k" in row["source"]
    }
    assert sorted(by_system.items()) == want


@pytest.mark.parametrize(
    "phrase", ["packetresponder 1", "Exception", "connection request", "instance:", "core.1"]
)
def test_a_phrase_finds_the_same_lines_as_folding_every_one(
    store: tr.Store, events: Any, phrase: str
) -> None:
    want = events.execute(
        "SELECT system, line FROM logs WHERE contains(lower(content), lower(?)) ORDER BY 1, 2", [phrase]
    ).fetchall()
    result = store.query(f'"{phrase}" and source =~ /_2k/ fields source, source_line')
    assert found_lines(result) == want


@pytest.mark.parametrize(
    "pattern", [r"blk_-?\d{18,}", r"\bstatus: (4|5)\d\d", r"^Got .* block", r"10\.250\.\d+\.\d+"]
)
def test_a_regular_expression_finds_the_same_lines(store: tr.Store, events: Any, pattern: str) -> None:
    want = events.execute(
        "SELECT system, line FROM logs WHERE regexp_matches(content, ?) ORDER BY 1, 2", [pattern]
    ).fetchall()
    result = store.query(f"body =~ /{pattern}/ and source =~ /_2k/ fields source, source_line")
    assert found_lines(result) == want


def test_has_is_case_exact(store: tr.Store, events: Any) -> None:
    want = events.execute("SELECT count(*) FROM logs WHERE contains(content, 'Received')").fetchone()[0]
    assert store.query('body has "Received" and source =~ /_2k/ count').to_list() == [{"count": want}]


def test_comparisons_part_the_answers(store: tr.Store, events: Any) -> None:
    yes = events.execute("SELECT count(*) FROM answers WHERE hallucination = 'yes'").fetchone()[0]
    total = store.query("count").to_list()[0]["count"]
    assert store.query('`hallucination` = "yes" count').to_list() == [{"count": yes}]
    assert store.query('`hallucination` != "yes" count').to_list() == [{"count": total - yes}]
    assert store.query("user_query exists count").to_list() == [{"count": 2240}]
    assert store.query("user_query missing count").to_list() == [{"count": total - 2240}]


def test_counts_by_time_bucket_equal_numpy(store: tr.Store) -> None:
    ts = np.sort(
        np.asarray(store.sql("SELECT epoch_ns(ts) AS ns FROM events WHERE source LIKE '%HDFS%'")["ns"])
    )
    want = {
        int(b): int(n) for b, n in zip(*np.unique(ts // 3_600_000_000_000, return_counts=True), strict=True)
    }
    got = store.query("since 2008-11-09 until 2008-11-12 count every 1h").to_list()
    hours = {
        int(np.datetime64(row["ts"].removesuffix("Z").partition(".")[0], "h").astype(np.int64)): row["count"]
        for row in got
    }
    assert {h: n for h, n in hours.items() if n} == want
    assert len(got) == 72


def test_statistics_equal_duckdb(store: tr.Store, events: Any) -> None:
    table = store.sql(
        "SELECT response_repetition_ratio AS r FROM events WHERE response_repetition_ratio IS NOT NULL"
    )
    values = np.asarray(table["r"])
    row = store.query(
        "count, avg(response_repetition_ratio) as a, p95(response_repetition_ratio) as p, "
        "min(response_repetition_ratio) as lo, max(response_repetition_ratio) as hi | limit 1"
    ).to_list()[0]
    assert row["p"] == pytest.approx(np.quantile(values, 0.95), abs=1e-12)
    assert row["a"] == pytest.approx(values.mean(), abs=1e-12)
    assert (row["lo"], row["hi"]) == (values.min(), values.max())


@pytest.mark.model
def test_top_by_a_signal_equals_a_full_sort(embedded: tr.Store) -> None:
    table = embedded.sql(
        "SELECT epoch_ns(ts) AS ns, seq, attention_collapse AS s FROM events WHERE s IS NOT NULL"
    )
    order = np.lexsort((np.asarray(table["seq"]), np.asarray(table["ns"]), -np.asarray(table["s"])))
    want = np.asarray(table["seq"])[order[:10]].tolist()
    got = [row["seq"] for row in embedded.query("top-k attention-collapse fields seq")]
    assert got == want


@pytest.mark.model
@pytest.mark.parametrize(
    "condition",
    [
        "",
        "level >= warn",
        'user_query exists and `hallucination` = "yes"',
        "since 2008-11-10 until 2008-11-11",
    ],
)
def test_meaning_equals_brute_force_over_every_stored_vector(embedded: tr.Store, condition: str) -> None:
    text = "connection was refused by the remote machine"
    probe = embedded._questions._encoder.encode(text, embedded._ring.model)
    keep = {row["seq"] for row in embedded.query(f"{condition or '*'} | fields seq")}
    scored = []
    with embedded._ring.snapshot() as snapshot:
        for part in snapshot.parts:
            table = part.vectors()
            exact = table.exact(np.arange(len(table))) @ probe
            best = np.full(part.n_rows, -np.inf, np.float32)
            parts = part.parts()
            ids = np.searchsorted(part.vectors().key, parts.key)
            np.maximum.at(best, parts.row, exact[ids])
            scored += [
                (-s, t, q)
                for s, t, q in zip(best, part.ts, part.seq, strict=True)
                if q in keep and s > -np.inf
            ]
    want = [q for _, _, q in sorted(scored)[:10]]
    got = [row["seq"] for row in embedded.query(f'{condition} ~ "{text}" top 10 fields seq')]
    assert got == want
