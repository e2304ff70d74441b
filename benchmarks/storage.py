"""What a store costs: bytes an event by file kind beside other formats, writes for a write, opening, memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import treering as tr
from treering.query.intake import accept_vectors
from treering.storage.ring import Ring

from .events import Events, make_events, make_lines
from .timing import Timing

QLS_BYTES = 136
REPOSITORY = Path(__file__).resolve().parents[1]
SPARSE_NS = 1 << 53
"""Events further apart than this come into segments of their own."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes an event of one set: by file kind of the store, and as other formats hold the same rows."""

    label: str
    n_rows: int
    by_kind: dict[str, float]
    others: dict[str, float]
    amplification: float

    @property
    def total(self) -> float:
        """All files of the store."""
        return sum(self.by_kind.values())


@dataclass(frozen=True, slots=True)
class Opening:
    """How long a reader takes to open a store of so many segments and take a snapshot; manifest bytes."""

    n_segments: int
    timing: Timing
    manifest_bytes: int


def measure_costs(n_lines: int, n_events: int) -> list[Cost]:
    """Load service logs, and events whose vectors are all distinct, and weigh what lies on disk."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        return [_logs(directory / "logs", n_lines), _vectors(directory / "vectors", n_events)]


def _logs(directory: Path, n_lines: int) -> Cost:
    directory.mkdir()
    raw = make_lines(n_lines)
    (directory / "raw.log").write_bytes(raw)
    with tr.open(directory / "ring") as store:
        store.ingest(str(directory / "raw.log"), year=2026)
        store.compact()
        table = store.query("").to_arrow()
        written = store.stats()["write_amplification"]
    others = {"as it came": len(raw), "gzip of it": len(gzip.compress(raw, 6))}
    others |= _as_tables(directory, table)
    return _cost("service logs", directory / "ring", n_lines, others, written)


def _vectors(directory: Path, n_events: int) -> Cost:
    directory.mkdir()
    events = make_events(n_events)
    with tr.open(directory / "ring") as store:
        for piece, vectors in _pieces(events):
            _append(store._ring, piece, vectors)
        store.embed()
        store.compact()
        written = store.stats()["write_amplification"]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(events.vectors.ravel()), events.vectors.shape[1])
    others = _as_tables(directory, events.table.append_column("vector", vectors))
    return _cost("distinct vectors, with QLS", directory / "ring", n_events, others, written)


def _append(ring: Ring, table: pa.Table, vectors: pa.Array) -> None:
    """Append events with vectors that have a signature too, as those of a model do."""
    from treering.indexer.tables import TableOptions, table_batches

    dice = np.random.default_rng(table.num_rows)
    for part in table_batches(table.append_column("vector", vectors), TableOptions()):
        assert part.vectors is not None
        accept_vectors(ring, vectors.type.list_size)
        qls = dice.integers(-127, 128, (len(part.vectors), QLS_BYTES)).astype(np.int8)
        ring.append_columns(part.batch, replace(part.vectors, qls=qls))


def _pieces(events: Events, size: int = 50_000) -> Iterator[tuple[pa.Table, pa.Array]]:
    for lo in range(0, events.table.num_rows, size):
        rows = events.vectors[lo : lo + size]
        flat = pa.array(rows.ravel())
        yield events.table.slice(lo, size), pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def _as_tables(directory: Path, table: pa.Table) -> dict[str, int]:
    """Bytes of the same rows as Parquet (zstd) and in DuckDB."""
    pq.write_table(table, directory / "rows.parquet", compression="zstd")
    with duckdb.connect(str(directory / "rows.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("create table events as select * from given")
        connection.execute("checkpoint")
    return {
        "Parquet + zstd": (directory / "rows.parquet").stat().st_size,
        "DuckDB": (directory / "rows.duckdb").stat().st_size,
    }


def _cost(label: str, ring: Path, n_rows: int, others: dict[str, int], amplification: float) -> Cost:
    sizes: Counter[str] = Counter()
    for file in ring.rglob("*"):
        if file.is_file():
            kind = file.name if file.parent.parent.name == "seg" else file.relative_to(ring).parts[0]
            sizes[kind.partition("-")[0]] += file.stat().st_size
    per_row = {kind: n / n_rows for kind, n in sorted(sizes.items())}
    return Cost(label, n_rows, per_row, {name: n / n_rows for name, n in others.items()}, amplification)


def measure_openings(sizes: Sequence[int], *, budget_s: float) -> list[Opening]:
    """Time opening and one snapshot of stores of so many segments, in a process that has loaded its modules.

    It holds nothing else: the collector of garbage would walk it at every opening.
    """
    found = []
    for n_segments in sizes:
        with tempfile.TemporaryDirectory() as place:
            ring = Path(place) / "ring"
            _make_segments(ring, n_segments)
            command = [sys.executable, "-c", _OPEN, str(ring), str(budget_s)]
            told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
            n_bytes = sum(f.stat().st_size for d in ("meta", "_manifest") for f in (ring / d).iterdir())
            found.append(Opening(n_segments, Timing(*json.loads(told.stdout)), n_bytes))
    return found


_OPEN = """
import json, sys
import treering as tr
from benchmarks.timing import time_each
def look(_):
    with tr.open(sys.argv[1], mode="r") as store, store._ring.snapshot():
        pass
taken = time_each(look, [None] * 10, budget_s=float(sys.argv[2]))
print(json.dumps([taken.median_s, taken.min_s, taken.runs]))
"""


def _make_segments(ring: Path, n_segments: int) -> None:
    """Make a store of events so far apart that each lies in a segment of its own; a flush makes 1,000."""
    with tr.open(ring) as store:
        for start in range(0, n_segments, 1000):
            n = min(1000, n_segments - start)
            store.append(
                pa.table(
                    {
                        "ts": pa.array([i * SPARSE_NS for i in range(n)], pa.int64()),
                        "message": pa.array([f"event {start + i}" for i in range(n)]),
                        "request_id": pa.array([f"req-{start + i:08x}" for i in range(n)]),
                        "latency_ms": pa.array([float(i) for i in range(n)]),
                        "model": pa.array(["llama-3-8b"] * n),
                    }
                )
            )
            store.flush()


def measure_memory(n_rows: int) -> dict[str, dict[str, float]]:
    """Resident megabytes of a process: modules loaded, store open, after a window, after a scan of everything."""
    with tempfile.TemporaryDirectory() as place:
        ring = Path(place) / "ring"
        with tr.open(ring) as store:
            for piece, vectors in _pieces(make_events(n_rows)):
                _append(store._ring, piece, vectors)
            store.embed()
            store.compact()
        told = subprocess.run(
            [sys.executable, "-c", _LOOK, str(ring)], capture_output=True, text=True, check=True
        )
    figures: dict[str, dict[str, float]] = json.loads(told.stdout)
    return figures


_LOOK = """
import json, sys
import treering as tr
import treering.query.store
def rss(kind):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(l for l in lines if l.startswith(kind)).split()[1]) / 1024
def now():
    return {"resident": rss("VmRSS"), "of it anonymous": rss("RssAnon")}
store = tr.open(sys.argv[1], mode="r")
out = {"modules loaded": now()}
snapshot = store._ring.snapshot()
out["store open"] = now()
newest = max(part.t_max for part in snapshot.parts)
store.query(f"ts > {newest - 864 * 10**9} latency_ms > 100 top 10 by latency_ms").to_list()
out["after a 1 % window"] = now()
store.query("latency_ms > 100 top 10 by latency_ms").to_list()
out["after a scan of a column"] = now()
store.query("~ $v top 10", params={"v": [1.0] + [0.0] * 383}).to_list()
out["after a scan of all vectors"] = now()
print(json.dumps(out))
"""


def measure_growth(n_lines: int, n_loads: int) -> list[tuple[int, float, int]]:
    """Load a log in many pieces into one store: rows, amplification and segments after each quarter."""
    found = []
    lines = make_lines(n_lines).splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as place, tr.open(Path(place) / "ring") as store:
        step = max(1, n_lines // n_loads)
        for number, start in enumerate(range(0, n_lines, step), 1):
            file = Path(place) / f"{number}.log"
            file.write_bytes(b"".join(lines[start : start + step]))
            store.ingest(str(file), year=2026)
            if number % max(1, n_loads // 4) == 0:
                stats = store.stats()
                found.append((stats["rows"], stats["write_amplification"], stats["segments"]))
    return found
