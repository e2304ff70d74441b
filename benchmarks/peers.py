"""What a user would pick instead, on the same rows: DuckDB, numpy by hand, faiss flat and IVF."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .events import Events

K = 10


class DuckPeer:
    """DuckDB with the vectors as FLOAT[dim] arrays."""

    name = "duckdb"

    def __init__(self, directory: Path) -> None:
        import duckdb

        self.path = directory / "peer.duckdb"
        self._con: Any = duckdb.connect(str(self.path))

    def load(self, events: Events) -> None:
        """Insert everything in batches of 50,000 rows and make it durable."""
        dim = events.vectors.shape[1]
        self._dim = dim
        table = events.table
        for lo in range(0, table.num_rows, 50_000):
            part = table.slice(lo, 50_000)
            flat = pa.array(events.vectors[lo : lo + 50_000].reshape(-1))
            part = part.append_column("vector", pa.FixedSizeListArray.from_arrays(flat, dim))
            self._con.register("part", part)
            verb = "CREATE TABLE events AS" if lo == 0 else "INSERT INTO events"
            self._con.execute(f"{verb} SELECT * REPLACE (vector::FLOAT[{dim}] AS vector) FROM part")
            self._con.unregister("part")
        self._con.execute("CHECKPOINT")

    def meaning(
        self, query: npt.NDArray[np.float32], start: int, end: int, threshold: float | None
    ) -> list[int]:
        """Row times of the ten best by inner product in a window."""
        more = "" if threshold is None else f"AND hallucination > {threshold}"
        sql = (
            f"SELECT ts FROM events WHERE ts >= {start} AND ts < {end} {more} "
            f"ORDER BY array_inner_product(vector, ?::FLOAT[{self._dim}]) DESC LIMIT {K}"
        )
        return [r[0] for r in self._con.execute(sql, [query.tolist()]).fetchall()]

    def top_signal(self, start: int, end: int) -> list[Any]:
        """Filter and the ten highest by a signal."""
        sql = (
            f"SELECT ts, message FROM events WHERE ts >= {start} AND ts < {end} AND hallucination > 0.3 "
            f"ORDER BY attention_collapse DESC LIMIT {K}"
        )
        return list(self._con.execute(sql).fetchall())

    def newest_word(self, word: str, start: int, end: int) -> list[Any]:
        """The ten newest rows whose message holds a phrase."""
        sql = (
            f"SELECT ts, message FROM events WHERE ts >= {start} AND ts < {end} AND message ILIKE ? "
            f"ORDER BY ts DESC LIMIT {K}"
        )
        return list(self._con.execute(sql, [f"%{word}%"]).fetchall())

    def p99_by_model(self) -> list[Any]:
        """Exact p99 of the latency for each model and minute."""
        sql = (
            "SELECT model, ts // 60000000000 AS minute, quantile_cont(latency_ms, 0.99) FROM events "
            "GROUP BY model, minute"
        )
        return list(self._con.execute(sql).fetchall())

    def by_id(self, request_id: str) -> list[Any]:
        """One event by its id, no time range."""
        return list(
            self._con.execute("SELECT ts, message FROM events WHERE request_id = ?", [request_id]).fetchall()
        )

    def bytes(self) -> int:
        """Size on disk."""
        return self.path.stat().st_size

    def close(self) -> None:
        """Close the database."""
        self._con.close()


class NumpyPeer:
    """The exact answer, hand-written over arrays in memory."""

    name = "numpy"

    def __init__(self, events: Events) -> None:
        self._ts = np.asarray(events.table["ts"])
        self._vectors = events.vectors
        self._hallucination = np.asarray(events.table["hallucination"])

    def meaning(
        self, query: npt.NDArray[np.float32], start: int, end: int, threshold: float | None
    ) -> list[int]:
        """Row times of the ten best by inner product in a window."""
        lo, hi = np.searchsorted(self._ts, [start, end])
        if threshold is None:
            scores = self._vectors[lo:hi] @ query
            rows = np.arange(lo, hi)
        else:
            rows = lo + np.flatnonzero(self._hallucination[lo:hi] > threshold)
            scores = self._vectors[rows] @ query
        best = _top(scores)
        return self._ts[rows[best]].tolist()  # type: ignore[no-any-return]


class FaissPeer:
    """faiss, flat or IVF with a range selector on the time-ordered ids."""

    def __init__(self, events: Events, *, ivf: bool, nprobe: int = 32) -> None:
        import faiss

        self._index: Any
        self._params: Any
        self.name = f"faiss ivf np{nprobe}" if ivf else "faiss flat"
        self._faiss = faiss
        self._ts = np.asarray(events.table["ts"])
        self._hallucination = np.asarray(events.table["hallucination"])
        n, dim = events.vectors.shape
        if ivf:
            cells = max(64, min(4096, 1 << round(math.log2(4 * math.sqrt(n)))))
            quantizer = faiss.IndexFlatIP(dim)
            self._index = faiss.IndexIVFFlat(quantizer, dim, cells, faiss.METRIC_INNER_PRODUCT)
            sample = events.vectors[:: max(1, n // (40 * cells))]
            self._index.train(np.ascontiguousarray(sample))
            self._params = faiss.SearchParametersIVF
            self._extra = {"nprobe": nprobe}
        else:
            self._index = faiss.IndexFlatIP(dim)
            self._params = faiss.SearchParameters
            self._extra = {}
        self._index.add(events.vectors)

    def meaning(
        self, query: npt.NDArray[np.float32], start: int, end: int, threshold: float | None
    ) -> list[int]:
        """Row times of the ten best by inner product in a window."""
        lo, hi = np.searchsorted(self._ts, [start, end])
        if threshold is None:
            selector: Any = self._faiss.IDSelectorRange(int(lo), int(hi))
        else:
            rows = lo + np.flatnonzero(self._hallucination[lo:hi] > threshold)
            selector = self._faiss.IDSelectorBatch(rows)
        params = self._params(sel=selector, **self._extra)
        _, ids = self._index.search(query[None, :], K, params=params)
        return [int(self._ts[i]) for i in ids[0] if i >= 0]


def _top(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    if len(scores) > K:
        best = np.argpartition(-scores, K)[:K]
        return best[np.argsort(-scores[best], kind="stable")]
    return np.argsort(-scores, kind="stable")
