"""The benchmark page: conditions, then tables with the ratio to each peer of the same run."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version

from .ingest import LineLoad
from .queries import Cell, Load
from .storage import Cost, Opening

_LIBRARIES = ("numpy", "pyarrow", "duckdb", "faiss-cpu", "numba", "torch", "sentence-transformers")


def conditions(arguments: str) -> list[str]:
    """What the figures depend on."""
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    load = os.getloadavg()[0]
    return [
        f'- Command: `make bench BENCH_ARGS="{arguments}"`; {time.strftime("%Y-%m-%d", time.gmtime())}.',
        f"- Machine: {os.cpu_count()} cores, {_cpu_name()}, {platform.system()}, Python {platform.python_version()}; "
        f"load average at the start {load:.1f}.",
        f"- Versions: {libraries}.",
        "- Machines are shared and noisy: read ratios, not absolute times. Cells are `median (minimum)` in ms, warm, "
        "one client, each engine's default threads; recall@10 is against exact numpy.",
        "- treering searches the 16-bit vectors that it stores, exactly; a recall of .99 is a near-tie that float32 "
        "decides otherwise.",
    ]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def query_table(cells: Sequence[Cell]) -> list[str]:
    """One row a kind of work, one column a system, and how many times faster treering is than DuckDB and numpy."""
    systems = list(dict.fromkeys(c.system for c in cells))
    works = list(dict.fromkeys(c.work for c in cells if c.system == "treering"))
    by = {(c.work, c.system): c for c in cells}
    ours = "treering"
    others = [s for s in systems if s != ours]
    head = ["work", ours, *others, *(f"{s} / treering" for s in others)]
    rows = []
    for work in works:
        mine = by[work, ours]
        row = [work, _cell(mine)]
        row += [_cell(by.get((work, s))) for s in others]
        row += [_ratio(by.get((work, s)), mine) for s in others]
        rows.append(row)
    return _markdown(head, rows)


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    return cell.timing.ms() + (f" r={cell.recall:.3f}" if cell.recall is not None else "")


def _ratio(other: Cell | None, mine: Cell) -> str:
    return "–" if other is None else f"{other.timing.median_s / mine.timing.median_s:.2g}×"


def load_table(loads: Sequence[Load]) -> list[str]:
    """Loads with vectors given."""
    mine = next(one for one in loads if one.system == "treering")
    rows = [
        [
            one.system,
            f"{one.rows_per_s:,.0f}",
            f"{mine.rows_per_s / one.rows_per_s:.2g}×",
            "–" if one.bytes_per_event is None else f"{one.bytes_per_event:,.0f}",
        ]
        for one in loads
    ]
    return _markdown(["system", "rows/s, durable", "treering / it", "bytes/event on disk"], rows)


def line_table(loads: Iterable[LineLoad]) -> list[str]:
    """Raw lines."""
    rows = [
        [
            one.label,
            f"{one.lines:,}",
            f"{one.acknowledged_per_s:,.0f}",
            f"{one.filled_per_s:,.0f}",
            f"{one.miss_share:.3%}",
            f"{one.encoder_per_s:,.0f}",
            f"{one.filled_per_s / one.bound_per_s:.2f}",
            f"{one.bytes_per_event:.0f}",
            f"{one.text_bytes_per_event:.0f}",
        ]
        for one in loads
    ]
    head = [
        "run",
        "lines",
        "acknowledged/s",
        "every vector filled/s",
        "miss share",
        "encoder texts/s",
        "filled / min(acknowledged, encoder ÷ miss)",
        "bytes/event",
        "of it text.arrow, whole store",
    ]
    return _markdown(head, rows)


def cost_tables(costs: Iterable[Cost]) -> list[str]:
    """Bytes an event, by file kind and beside other formats."""
    lines: list[str] = []
    for cost in costs:
        lines += [f"### {cost.label}, {cost.n_rows:,} events", ""]
        lines += [
            f"{cost.total:,.0f} B/event in all, {cost.total - cost.by_kind['text.arrow']:,.0f} beside the compressed "
            f"text; bytes written in all / bytes acknowledged {cost.amplification:.2f}.",
            "",
        ]
        rows = [["treering, whole store", f"{cost.total:,.1f}", "1×"]]
        rows += [[f"– {kind}", f"{n:,.1f}", ""] for kind, n in cost.by_kind.items() if n >= 0.05]
        rows += [[name, f"{n:,.1f}", f"{cost.total / n:.2g}×"] for name, n in cost.others.items()]
        lines += [*_markdown(["what", "bytes/event", "treering / it"], rows), ""]
    return lines


def opening_table(openings: Iterable[Opening]) -> list[str]:
    """Opening a store to read, with one snapshot."""
    rows = [[f"{o.n_segments:,}", o.timing.ms(), f"{o.manifest_bytes:,}"] for o in openings]
    return _markdown(["segments", "open to read and take a snapshot", "bytes of manifest and lists"], rows)


def memory_table(figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Memory of a process that reads."""
    rows = [
        [moment, f"{told['resident']:.0f}", f"{told['of it anonymous']:.0f}"]
        for moment, told in figures.items()
    ]
    return _markdown(["moment", "resident MB", "of it not from files MB"], rows)


def growth_table(steps: Iterable[tuple[int, float, int]]) -> list[str]:
    """Bytes written for bytes acknowledged while a store grows."""
    rows = [[f"{rows:,}", f"{ratio:.2f}", f"{segments:,}"] for rows, ratio, segments in steps]
    return _markdown(["events", "bytes written / acknowledged", "segments"], rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return lines
