"""`python -m benchmarks.compaction`: what a merge of segments costs, part by part, and how much memory it takes.

Figures are processor seconds of this process, so that a busy machine matters little; what counts is their ratio.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from treering.storage.batch import KEY, ColumnBatch, TextParts, Vectors
from treering.storage.cells import covering_cell
from treering.storage.columns import place_columns
from treering.storage.files import OS_FILES
from treering.storage.fold import FOLD_BYTES, FOLD_ROWS
from treering.storage.memory import MemoryPart, build, merge
from treering.storage.merged_columns import merge_columns
from treering.storage.postings import index_keys, join_parts
from treering.storage.segment import Segment
from treering.storage.segment_writer import write
from treering.storage.tree import Tree
from treering.storage.tree_sources import Source
from treering.storage.vectors import merge_tables

START_NS = 1_777_593_600 * 10**9
STEP_NS = 10_000_000
N_NUMBERS = 30
N_TEMPLATES = 2000
SCALE = (0.02,) * 136


def make_batch(n_rows: int, first: int, *, shift_ns: int, text_bytes: int = 0, seed: int = 0) -> ColumnBatch:
    """Service logs: a record, a body that is part of it, 30 numbers and six short texts an event.

    text_bytes: length of a prompt and of a response; they are no repetition of anything.
    """
    rng = np.random.default_rng(seed + first)
    template = rng.zipf(1.3, n_rows) % N_TEMPLATES
    body = [f"worker {t % 17} finished request {first + i} of tenant {t}" for i, t in enumerate(template)]
    columns: dict[str, pa.Array] = {
        "ts": pa.array(START_NS + shift_ns + np.arange(n_rows) * STEP_NS),
        "seq": pa.array(np.arange(first, first + n_rows)),
        "body": pa.array(body),
        "level": pa.array(rng.integers(1, 7, n_rows).astype(np.uint8)),
    }
    for k in range(N_NUMBERS):
        columns[f"n{k}#f"] = pa.array(rng.random(n_rows), mask=rng.random(n_rows) < 0.1 * (k % 5))
    for k in range(6):
        columns[f"t{k}#s"] = pa.array([f"value {x}" for x in rng.integers(0, 10 * 4**k, n_rows)])
    numbers = rng.random((n_rows, 4)).round(6).tolist()
    records = [orjson.dumps({"message": b, "n": n}) for b, n in zip(body, numbers, strict=True)]
    columns["record"] = pa.array(records, pa.binary())
    if text_bytes:
        words = np.array([f"w{i}" for i in range(50_000)])
        for name in ("prompt", "response"):
            columns[name] = pa.array(
                [" ".join(words[rng.integers(0, 50_000, text_bytes // 6)]) for _ in range(n_rows)]
            )
    keys = np.zeros(n_rows, KEY)
    keys["hi"] = template.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys["lo"] = template
    first_rows = np.arange(n_rows, dtype=np.int32)
    parts = TextParts(
        first_rows, np.zeros(n_rows, np.uint8), np.zeros(n_rows, np.int16), keys, np.ones(n_rows, np.bool_)
    )
    return ColumnBatch(n_rows, columns, parts, keys)


def vectors_of(keys: np.ndarray[tuple[int], np.dtype[np.void]]) -> Vectors:
    """Vectors that are a function of their key."""
    rng = np.random.default_rng(len(keys))
    vectors = Vectors.blank(keys, 384, n_heads=72, n_qls=136)
    vectors.values[:] = rng.integers(-20_000, 20_000, vectors.values.shape)
    vectors.step[:] = 1e-5
    vectors.head[:] = (keys["lo"] % 12).astype(np.uint8)
    vectors.second[:] = (keys["lo"] // 12 % 12).astype(np.uint8)
    vectors.qls[:] = rng.integers(-127, 128, vectors.qls.shape)
    return vectors


def store(directory: Path, batches: Sequence[ColumnBatch]) -> list[Segment]:
    """Write each batch as a segment that was folded once."""
    directory.mkdir(exist_ok=True)
    segments = []
    for k, batch in enumerate(batches):
        young = build(
            [batch],
            lambda keys: (np.ones(len(keys), np.bool_), vectors_of(keys)),
            dim=384,
            part_id=f"young{k}",
            qls_scale=SCALE,
            signals_pending=False,
        )
        folded = merge([young], f"s{k}", qls_scale=SCALE)
        level, cell = covering_cell(folded.t_min, folded.t_max)
        path = directory / folded.id
        meta = write(OS_FILES, path, folded, level=level, cell=cell, generation=1)
        segments.append(Segment.open(OS_FILES, path, meta, qls_scale=SCALE))
    return segments


def timed(work: Callable[[], object], runs: int = 3) -> float:
    """Least processor seconds of some runs."""
    taken = []
    for _ in range(runs):
        gc.collect()
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def measure(n_rows: int, n_parts: int, *, is_apart: bool) -> dict[str, float]:
    """Time a merge part by part, in processor seconds."""
    span = n_rows * STEP_NS
    batches = [
        make_batch(n_rows, k * n_rows, shift_ns=k * span if is_apart else k * 1000) for k in range(n_parts)
    ]
    with tempfile.TemporaryDirectory() as place:
        segments = store(Path(place), batches)
        del batches
        sources = [Source.of(segment, has_tree=True) for segment in segments]
        texts = join_parts([s.parts() for s in segments], [s.n_rows for s in segments])
        keys, _ = index_keys(texts.key)
        columns = merge_columns(segments, None)
        merged = merge(segments, "m", qls_scale=SCALE)
        order = np.lexsort((merged.seq, merged.ts))
        took = {
            "keys and vectors": timed(
                lambda: (index_keys(texts.key), merge_tables(keys, [s.vectors() for s in segments]))
            ),
            "columns joined and ordered": timed(lambda: merge_columns(segments, order)),
            "columns placed and coded": timed(lambda: place_columns(columns, len(order))),
            "tree from the rows": timed(lambda: _tree_of(merged, None)),
            "tree taken over": timed(lambda: _tree_of(merged, sources)),
            "postings": timed(merged._postings_of_parts),
            "postings of templates": timed(merged.template_rows),
        }
        n_written = 0

        def all_of_it() -> None:
            nonlocal n_written
            part = merge(segments, f"out{n_written}", qls_scale=SCALE, sources=lambda: sources)
            write(OS_FILES, Path(place) / part.id, part, level=44, cell=0, generation=2)
            n_written += 1

        return took | {"all, with writing": timed(all_of_it)}


def _tree_of(part: MemoryPart, sources: Sequence[Source] | None) -> Tree:
    part.__dict__.pop("_tree", None)
    part._sources = None if sources is None else lambda: sources
    return part.tree


def measure_memory(kind: str) -> None:
    """Merge in this process, and print its bytes: of the columns in memory, of the files, and the peak."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "benchmarks.compaction", "--write", kind, "--place", place]
        subprocess.run(command, check=True)
        subprocess.run([*command[:3], "--merge", kind, "--place", place], check=True)


def write_parts(kind: str, place: Path) -> None:
    """Write the segments of a memory measurement."""
    n_parts = 16 if kind == "logs" else 32
    n_rows = FOLD_ROWS // n_parts if kind == "logs" else 500
    text_bytes = 0 if kind == "logs" else 20_000
    metas, size = [], 0
    for k in range(n_parts):
        batch = make_batch(n_rows, k * n_rows, shift_ns=k * n_rows * STEP_NS, text_bytes=text_bytes, seed=k)
        directory = place / str(k)
        directory.mkdir()
        [segment] = store(directory, [batch])
        size += segment.meta.n_bytes
        if kind == "texts" and size > FOLD_BYTES:
            break
        metas.append((str(segment.directory), segment.meta))
    (place / "metas").write_bytes(pickle.dumps(metas))


def merge_parts(kind: str, place: Path) -> None:
    """Merge what `write_parts` wrote, and print what it took."""
    metas = pickle.loads((place / "metas").read_bytes())
    segments = [Segment.open(OS_FILES, Path(path), meta, qls_scale=SCALE) for path, meta in metas]
    files = sum(meta.n_bytes for _, meta in metas)
    _write_warm(place)
    peak = _Peak()
    with peak:
        sources = [Source.of(segment, has_tree=True) for segment in segments]
        merged = merge(segments, "m", qls_scale=SCALE, sources=lambda: sources)
        at_merge = peak.bytes
        write(OS_FILES, place / "out", merged, level=44, cell=0, generation=2)
    held = {id(a): a.nbytes for a in (*merged.placed.hot.values(), *merged.placed.cold.values())}
    table = merged.vectors()
    columns = sum(held.values()) + table.codes.nbytes + table.rest.nbytes + table.qls.nbytes
    print(
        f"{kind}: {merged.n_rows:,} rows, files {files >> 20} MiB, result in memory {columns >> 20} MiB, "
        f"most in memory {peak.bytes >> 20} MiB ({at_merge >> 20} before writing): "
        f"{peak.bytes / columns:.2f} of the result, {peak.bytes / files:.2f} of the files"
    )


class _Peak:
    """The most anonymous memory of this process in a `with`, above that at its beginning; mapped files are left out."""

    def __init__(self) -> None:
        self._first, self.bytes = _anonymous_bytes(), 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.002):
            self.bytes = max(self.bytes, _anonymous_bytes() - self._first)


def _anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def _write_warm(place: Path) -> None:
    """Load what a first merge loads: compiled loops and compression."""
    [segment] = store(place / "warm", [make_batch(2000, 0, shift_ns=0)])
    write(OS_FILES, place / "warmed", merge([segment], "w", qls_scale=SCALE), level=44, cell=0, generation=2)


def main() -> None:
    """Print the figures of `docs/design/compaction.md`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=65_536, help="events of each of four segments")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--merge", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=("time", "memory"), help="one half of it")
    args = parser.parse_args()
    if args.write:
        write_parts(args.write, args.place)
        return
    if args.merge:
        merge_parts(args.merge, args.place)
        return
    if args.only != "memory":
        for is_apart in (True, False):
            took = measure(args.rows, 4, is_apart=is_apart)
            whole = took["all, with writing"]
            print("one behind the other" if is_apart else "all at the same time")
            for name, seconds in took.items():
                print(f"  {name:28} {seconds:7.3f} s  {seconds / whole:6.1%}")
    if args.only != "time":
        for kind in ("logs", "texts"):
            measure_memory(kind)


if __name__ == "__main__":
    main()
