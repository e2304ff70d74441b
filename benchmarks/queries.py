"""The query table: meaning in windows, with a predicate, top by signal, words, percentiles, one id; all on one set."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import treering as tr

from .events import DAY_NS, START_NS, Events
from .peers import DuckPeer, FaissPeer, NumpyPeer
from .timing import Timing, time_each, time_once

WINDOWS = (1.0, 0.1, 0.01, 0.001)
THRESHOLD = 0.3


@dataclass(slots=True)
class Cell:
    """One figure: a system, what it did, how long, and how right."""

    work: str
    system: str
    timing: Timing
    recall: float | None = None


@dataclass(slots=True)
class Load:
    """One load: rows a second until durable with all that the system builds, and bytes an event on disk."""

    system: str
    rows_per_s: float
    bytes_per_event: float | None


def measure(events: Events, *, budget_s: float) -> tuple[list[Cell], list[Load]]:
    """Load every system with the same events and time the same queries on each."""
    cells: list[Cell] = []
    loads: list[Load] = []
    n = events.table.num_rows
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        numpy_peer = NumpyPeer(events)
        truth = _truth(events, numpy_peer)
        cells += _meaning(numpy_peer.name, numpy_peer.meaning, events, truth, budget_s)
        for ivf in (False, True):
            seconds, faiss_peer = time_once(partial(FaissPeer, events, ivf=ivf))
            loads.append(Load(f"{faiss_peer.name} (vectors only, in memory)", n / seconds, None))
            cells += _meaning(faiss_peer.name, faiss_peer.meaning, events, truth, budget_s)
            del faiss_peer
        duck = DuckPeer(directory)
        seconds, _ = time_once(lambda: duck.load(events))
        loads.append(Load(duck.name, n / seconds, duck.bytes() / n))
        cells += _meaning(duck.name, duck.meaning, events, truth, budget_s)
        cells += _others(
            duck.name, duck.top_signal, duck.newest_word, duck.p99_by_model, duck.by_id, events, budget_s
        )
        duck.close()
        ours, load = _ours(directory / "ring", events, truth, budget_s)
        return cells + ours, [*loads, load]


def _ours(
    place: Path, events: Events, truth: dict[Any, list[int]], budget_s: float
) -> tuple[list[Cell], Load]:
    n = events.table.num_rows
    with tr.open(place) as store:
        seconds, _ = time_once(lambda: _load(store, events))
        size = sum(f.stat().st_size for f in place.rglob("*") if f.is_file())
        load = Load("treering", n / seconds, size / n)

        def meaning(q: npt.NDArray[np.float32], start: int, end: int, threshold: float | None) -> list[int]:
            more = "" if threshold is None else f" hallucination > {threshold}"
            rows = store.query(f"between {start} and {end}{more} ~ $v top 10", params={"v": q})
            return [int(t) for t in rows.times_ns()]

        def top_signal(start: int, end: int) -> list[Any]:
            return store.query(
                f"between {start} and {end} hallucination > 0.3 top 10 by attention_collapse"
            ).to_list()

        def newest_word(word: str, start: int, end: int) -> list[Any]:
            return store.query(f'between {start} and {end} "{word}" sort by ts desc limit 10').to_list()

        def p99_by_model() -> Any:
            return store.query("p99(latency_ms) by model every 1m").to_arrow()

        def by_id(request_id: str) -> list[Any]:
            return store.query(f'request_id = "{request_id}"').to_list()

        cells = _meaning("treering", meaning, events, truth, budget_s)
        cells += _others("treering", top_signal, newest_word, p99_by_model, by_id, events, budget_s)
    return cells, load


def _load(store: tr.Store, events: Events) -> None:
    import pyarrow as pa

    dim = events.vectors.shape[1]
    for lo in range(0, events.table.num_rows, 50_000):
        part = events.table.slice(lo, 50_000)
        flat = pa.array(events.vectors[lo : lo + 50_000].reshape(-1))
        store.append(part.append_column("vector", pa.FixedSizeListArray.from_arrays(flat, dim)))
    store.embed()  # nothing to embed: folds what was written into ordered segments


def _windows(events: Events, share: float) -> list[tuple[int, int]]:
    """Start and end times of windows that hold `share` of the rows, one a query, spread over the day."""
    ts = np.asarray(events.table["ts"])
    n = len(ts)
    if share >= 1:
        return [(START_NS, START_NS + DAY_NS)] * len(events.queries)
    width = max(1, round(n * share))
    starts = np.linspace(0, n - width - 1, len(events.queries)).astype(int)
    return [(int(ts[s]), int(ts[s + width])) for s in starts]


def _truth(events: Events, exact: NumpyPeer) -> dict[Any, list[int]]:
    found = {}
    for share in WINDOWS:
        for i, (start, end) in enumerate(_windows(events, share)):
            for threshold in (None, THRESHOLD):
                found[share, i, threshold] = exact.meaning(events.queries[i], start, end, threshold)
    return found


def _meaning(
    name: str, ask: Callable[..., list[int]], events: Events, truth: dict[Any, list[int]], budget_s: float
) -> list[Cell]:
    cells = []
    for threshold in (None, THRESHOLD):
        for share in WINDOWS:
            windows = _windows(events, share)
            inputs = [(events.queries[i], s, e, threshold) for i, (s, e) in enumerate(windows)]
            hits = [_recall(ask(*one), truth[share, i, threshold]) for i, one in enumerate(inputs)]
            timing = time_each(lambda one: ask(*one), inputs, budget_s=budget_s)
            label = "meaning" if threshold is None else f"meaning + hallucination > {threshold}"
            cells.append(Cell(f"{label}, window {share:.1%}", name, timing, float(np.mean(hits))))
    return cells


def _recall(got: list[int], want: list[int]) -> float:
    return len(set(got) & set(want)) / len(want) if want else 1.0


def _others(
    name: str,
    top_signal: Callable[..., Any],
    newest_word: Callable[..., Any],
    p99_by_model: Callable[[], Any],
    by_id: Callable[[str], Any],
    events: Events,
    budget_s: float,
) -> list[Cell]:
    words = ["retried while", "evicted by", "stalled under", "loaded at"]
    ids = (
        events.table["request_id"]
        .take(list(range(0, events.table.num_rows, max(1, events.table.num_rows // 20))))
        .to_pylist()
    )
    cells = [
        Cell(
            "filter + top 10 by a signal, window 1.0%",
            name,
            time_each(lambda w: top_signal(*w), _windows(events, 0.01), budget_s=budget_s),
        )
    ]
    for share in (1.0, 0.1, 0.01):
        inputs = [(words[i % len(words)], s, e) for i, (s, e) in enumerate(_windows(events, share))]
        timing = time_each(lambda one: newest_word(*one), inputs, budget_s=budget_s)
        cells.append(Cell(f"newest 10 with a phrase, window {share:.1%}", name, timing))
    cells.append(
        Cell(
            "p99 by model and minute, all",
            name,
            time_each(lambda _: p99_by_model(), [0] * 3, budget_s=budget_s),
        )
    )
    cells.append(Cell("one id, no time range", name, time_each(by_id, ids, budget_s=budget_s)))
    return cells
