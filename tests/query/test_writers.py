from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.query.answer import Answer, of_rows, of_table
from treering.query.writers import WRITERS

ROWS: list[dict[str, Any]] = [
    {"n": 1, "text": 'a,"b"\nc', "list": [1, 2], "x": 0.1},
    {"n": None, "text": "", "list": None, "x": float("nan")},
    {"text": "退款|x\ty\\z"},
]
COLUMNS = ("n", "text", "list", "x")


def written(answer: Answer, format: str) -> bytes:
    file = io.BytesIO()
    WRITERS[format](answer, file)
    return file.getvalue()


def test_jsonl_has_a_strict_object_a_line() -> None:
    lines = written(of_rows(ROWS, COLUMNS), "jsonl").decode().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [ROWS[0], {**ROWS[1], "x": None}, ROWS[2]]
    assert lines[-1] == ""


@pytest.mark.parametrize("n", [0, 1, 3])
def test_json_is_one_array(n: int) -> None:
    assert len(json.loads(written(of_rows(ROWS[:n], COLUMNS), "json"))) == n


def test_csv_tells_missing_from_empty() -> None:
    text = written(of_rows(ROWS, COLUMNS), "csv").decode()
    assert text == 'n,text,list,x\n1,"a,""b""\nc","[1,2]",0.1\n,"",,\n,退款|x\ty\\z,,\n'


@given(
    st.lists(
        st.fixed_dictionaries(
            {"a": st.text(st.characters(exclude_categories=["Cs"])), "b": st.text('ab,"\n\r ')}
        )
    )
)
def test_csv_reads_back(rows: list[dict[str, str]]) -> None:
    text = written(of_rows(rows, ("a", "b")), "csv").decode()
    assert list(csv.DictReader(io.StringIO(text, newline=""))) == rows


@given(st.lists(st.text("ab\t\n\r\\", min_size=1)))
def test_tsv_reads_back(values: list[str]) -> None:
    lines = written(of_rows([{"v": v} for v in values], ("v",)), "tsv").decode().split("\n")
    plain = [
        line.replace("\\\\", "\0").replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r")
        for line in lines
    ]
    assert [line.replace("\0", "\\") for line in plain[1:-1]] == values


def test_md_keeps_one_line_a_row() -> None:
    lines = written(of_rows(ROWS, COLUMNS), "md").decode().split("\n")
    assert lines[1] == "| --- | --- | --- | --- |"
    assert lines[2] == '| 1 | a,"b"\\nc | [1,2] | 0.1 |'
    assert lines[4].startswith("|  | 退款\\|x\\ty")
    assert len(lines) == 6


def test_parquet_and_arrow_keep_types_and_rows() -> None:
    table = pa.table(
        {"ts": pa.array([1, 2], pa.timestamp("ns", "UTC")), "n": pa.array([1, None], pa.int64())}
    )
    assert pq.read_table(io.BytesIO(written(of_table(table), "parquet"))).equals(table)
    assert pa.ipc.open_file(written(of_table(table), "arrow")).read_all().equals(table)


def test_a_table_keeps_nanoseconds_in_text_formats() -> None:
    table = pa.table({"ts": pa.array([1_000_000_007], pa.timestamp("ns", "UTC"))})
    assert json.loads(written(of_table(table), "jsonl")) == {"ts": "1970-01-01T00:00:01.000000007Z"}
    assert written(of_table(table), "csv") == b"ts\n1970-01-01T00:00:01.000000007Z\n"
