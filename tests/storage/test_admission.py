from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.records import decode, raw_batch
from treering.storage.admission import check_table
from treering.storage.batch import KEY, ColumnBatch
from treering.storage.errors import ConfigError


def nowhere(name: str) -> None:
    """A store without any column."""


def table(**columns: pa.Array) -> ColumnBatch:
    batch = decode(raw_batch(range(3)), 0)
    batch.columns.update({name.replace("__", "#"): array for name, array in columns.items()})
    return batch


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"level": pa.array([1, None, 6], pa.uint8())},
        {"request_model": pa.array(["a", None, "a"]).dictionary_encode()},
        {"context": pa.array([["a"], None, []], pa.list_(pa.string()))},
        {"surprise": pa.array([1.0, None, 2.0])},
        {"prompt": pa.nulls(3), "response": pa.array(["a", "b", None], pa.large_string())},
        {"x__[s]": pa.array([["a"], None, []], pa.large_list(pa.large_string()))},
        {"label": pa.array(["a", "b", None])},
        {"x__z": pa.array(["1" * 30, None, None])},
        {"x__[f]": pa.array([[1.0], None, None], pa.list_(pa.float64()))},
    ],
)
def test_a_table_whose_types_fit_their_names_is_taken(columns: dict[str, pa.Array]) -> None:
    check_table(table(**columns), nowhere)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"level": pa.array([1, 2, 3])}, "column level: is int64, expected uint8"),
        ({"duration_s": pa.array([1, 2, 3])}, "column duration_s: is int64, expected double"),
        ({"body": pa.array([b"a", b"b", b"c"])}, "column body: is binary, expected string"),
        ({"x__i": pa.array(["1", "2", "3"])}, "column x#i: is string, expected int64"),
        ({"surprise": pa.array([1, 2, 3])}, "column surprise: is int64, expected double or string"),
        ({"surprise": pa.array([1.0])}, "column surprise: 1 values, expected 3"),
        ({"~residual": pa.array([b"{}", None, None])}, "column ~residual: the store keeps this name"),
        ({"ts": pa.array([1, None, 3])}, "column ts: missing or null"),
        ({"ts": pa.array([1, 2, 3], pa.timestamp("ns"))}, "column ts: is timestamp.* expected int64"),
    ],
)
def test_a_column_that_could_never_be_flushed_is_named(columns: dict[str, pa.Array], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_table(table(**columns), nowhere)


def test_each_row_has_a_template_key() -> None:
    batch = table()
    batch.template = np.zeros(2, KEY)
    with pytest.raises(ConfigError, match="template: 2 keys, the table has 3 rows"):
        check_table(batch, nowhere)


def test_a_column_of_another_type_than_the_store_has_is_named() -> None:
    kinds = {"score": pa.string(), "x#s": pa.float64()}
    with pytest.raises(ConfigError, match="column score: is double, the store has it as string"):
        check_table(table(score=pa.array([1.0, None, 2.0])), kinds.get)
    check_table(table(score=pa.array(["a", None, "b"]).dictionary_encode()), kinds.get)
    check_table(table(score=pa.nulls(3, pa.float64())), kinds.get)
    check_table(table(x__s=pa.array(["a", "b", "c"])), kinds.get)
