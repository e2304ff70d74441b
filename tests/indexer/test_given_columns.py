"""Vectors and their rows are taken from a table exactly as they stand there, or refused with their row."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.indexer.read_tables import assert_same, from_dicts, from_table
from treering.indexer import tables
from treering.indexer.parts import text_parts
from treering.indexer.tables import TableOptions, row_tables, table_batches
from treering.storage.errors import InputError


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32(), 2), pa.list_(pa.float64()), pa.large_list(pa.int16())]
)
def test_vectors_of_any_list_type_become_unit_vectors(kind: pa.DataType) -> None:
    table = pa.table({"msg": ["a", "b", "c", "d"], "vector": pa.array([[3, 4], None, [0, 2], [6, 8]], kind)})
    (one,) = table_batches(table)
    assert one.vectors is not None and len(one.vectors) == 2
    by_key = {key.tobytes(): vector for key, vector in zip(one.vectors.key, one.vectors.exact(), strict=True)}
    told = [by_key[key.tobytes()].tolist() for key in one.batch.parts.key]
    assert told == [pytest.approx([0.6, 0.8], abs=1e-3), [0.0, 1.0], pytest.approx([0.6, 0.8], abs=1e-3)]
    assert one.batch.parts.row.tolist() == [0, 2, 3]
    assert one.batch.columns["body"].to_pylist() == ["a", "b", "c", "d"]
    assert not any(name.startswith("vector") for name in one.batch.columns)


def test_huge_and_tiny_vectors_have_a_direction() -> None:
    (one,) = table_batches(pa.table({"vector": [[1e300, 1e300], [1e-300, 0.0]]}))
    assert one.vectors is not None
    assert sorted(v.tolist() for v in one.vectors.exact()) == [
        pytest.approx([0.7071] * 2, abs=1e-3),
        [1.0, 0.0],
    ]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ([math.nan, 1.0], "NaN"),
        ([math.inf, 1.0], "NaN"),
        ([0.0, 0.0], "zero length"),
        ([None, 1.0], "NaN"),
        ([1.0], "1 dimensions"),
        ([], "0 dimensions"),
    ],
)
def test_vectors_that_are_none_are_refused_with_their_row(bad: list[Any], told: str) -> None:
    table = pa.table({"vector": pa.chunked_array([[[1.0, 2.0], None], [[3.0, 4.0], bad]])})
    with pytest.raises(InputError, match=rf"'vector', row 3: .*{told}"):
        next(table_batches(table))


def test_a_vector_column_that_is_none_is_an_ordinary_field_or_told() -> None:
    table = pa.table({"msg": ["a"], "vector": ["v1"]})
    batch = from_table(table)
    assert batch.columns["vector#s"].to_pylist() == ["v1"] and len(batch.parts) == 1
    with pytest.raises(InputError, match="expected lists of numbers"):
        from_table(table, vector="vector")
    with pytest.raises(InputError, match="no column 'emb'"):
        from_table(table, vector="emb")
    nothing = pa.table({"msg": ["a"], "vector": pa.array([None], pa.list_(pa.float32()))})
    assert len(from_table(nothing).parts) == 1


def test_rows_with_a_vector_become_tables() -> None:
    rows: list[dict[Any, Any]] = [
        {"msg": "a", "v": [1, 0], 5: None},
        {"msg": 2, "v": np.array([0.0, 1.0])},
        {"n": 2**70},
    ]
    (table,) = row_tables(iter(rows), "v")
    (one,) = table_batches(table, TableOptions("v"))
    assert one.vectors is not None and len(one.vectors) == 2
    told = {n: a.to_pylist() for n, a in one.batch.columns.items() if "#" in n}
    assert told == {"msg#s": ["a", None, None], "msg#i": [None, 2, None], "n#z": [None, None, str(2**70)]}
    with pytest.raises(InputError, match="row 1: its vector"):
        list(row_tables([{"v": [1.0]}, {"v": "x"}], "v"))
    with pytest.raises(InputError, match=r"row 1 is .*expected a mapping"):
        list(row_tables([{"v": [1.0]}, "x"], "v"))  # type: ignore[list-item]


def test_a_long_table_is_cut_and_rows_keep_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH_ROWS", 4)
    table = pa.table(
        {"msg": [f"line {n}" for n in range(10)], "vector": [[1.0, float(n)] for n in range(10)]}
    )
    batches = list(table_batches(table))
    assert [one.batch.n_rows for one in batches] == [4, 4, 2]
    assert [n for one in batches for n in one.batch.columns["source_line"].to_pylist()] == list(range(1, 11))
    assert [one.batch.parts.row.tolist() for one in batches] == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1]]
    assert all((one.batch.template["lo"] != 0).all() for one in batches)


def test_an_empty_table_gives_nothing() -> None:
    assert list(table_batches(pa.table({"n": pa.array([], pa.int64())}))) == []
    assert list(table_batches(pa.table({}))) == []


def test_dotted_names_win_over_nesting() -> None:
    rows: list[dict[str, Any]] = [
        {"a": {"b": 1, "c": 2}, "a.b": "x"},
        {"a": {"b": 3, "c": None}, "a.b": None},
    ]
    batch = from_table(pa.Table.from_pylist(rows))
    assert batch.columns["a.b#s"].to_pylist() == ["x", None]
    assert batch.columns["a.b#i"].to_pylist() == [None, 3]
    assert batch.columns["a.b#[i]"].to_pylist() == [[1], None]
    assert_same(batch, from_dicts(rows))


def test_parts_are_those_of_the_columns() -> None:
    batch = from_table(pa.table({"msg": ["a", None], "response": [None, "b"]}))
    again = text_parts(batch.columns, batch.template)
    assert (batch.parts.key == again.key).all() and len(again) == 2
