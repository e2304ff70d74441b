"""Vectors that come with the events: durable, searched exactly, and read beside the writer and after a crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import treering as tr
from tests.query.parts import unit

DIM = 64


def table(rng: np.random.Generator, n: int) -> pa.Table:
    flat = rng.standard_normal(n * DIM, np.float32)
    return pa.table(
        {
            "ts": pa.array(np.arange(n, dtype=np.int64)),
            "id": pa.array(np.arange(n)),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(flat), DIM),
        }
    )


def best(rows: pa.Table, probe: np.ndarray, k: int) -> list[int]:
    """Ids by cosine over the vectors as a store keeps them, the older first among equals."""
    flat = np.asarray(rows["vector"].combine_chunks().flatten()).reshape(-1, DIM).astype(np.float64)
    kept = unit(flat).astype(np.float64)
    return [int(i) for i in np.argsort(-(kept @ probe).astype(np.float32), kind="stable")[:k]]


def test_vectors_in_the_log_alone_are_read_by_others_and_after_a_crash(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = table(rng, 200)
    probe = rng.standard_normal(DIM)
    probe /= np.linalg.norm(probe)
    writer = tr.open(tmp_path / "ring")
    writer.append(rows)
    want = best(rows, probe, 10)
    with tr.open(tmp_path / "ring", "r") as reader:
        assert [r["id"] for r in reader.query("~ $v top 10", params={"v": probe.astype("f4")})] == want
    writer._ring.close()  # as a crash leaves it: nothing was flushed
    with tr.open(tmp_path / "ring") as again:
        assert [r["id"] for r in again.query("~ $v top 10", params={"v": probe.astype("f4")})] == want
        again.flush()
        assert [r["id"] for r in again.query("~ $v top 10", params={"v": probe.astype("f4")})] == want


def test_stats_tell_memory_from_segments(tmp_path: Path) -> None:
    with tr.open(tmp_path / "ring") as store:
        store.append(table(np.random.default_rng(7), 5))
        assert (store.stats()["segments"], store.stats()["rows_in_memory"]) == (0, 5)
        store.flush()
        assert (store.stats()["segments"], store.stats()["rows_in_memory"]) == (1, 0)
