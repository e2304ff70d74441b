"""The benchmark of the store runs, on a few events: what it calls is still there."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")

from benchmarks.storage import measure_costs, measure_openings


def test_the_cost_of_a_store_is_measured_file_by_file() -> None:
    logs, vectors = measure_costs(200, 50)
    assert logs.by_kind["text.arrow"] > 0
    assert vectors.by_kind["vec.arrow"] > 384
    assert set(vectors.others) == {"Parquet + zstd", "DuckDB"}


def test_opening_is_timed_at_every_number_of_segments() -> None:
    assert [one.n_segments for one in measure_openings([1, 3], budget_s=0)] == [1, 3]
