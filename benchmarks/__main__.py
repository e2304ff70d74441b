"""`python -m benchmarks`: measure, and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from .events import make_events
from .ingest import measure_lines
from .queries import measure
from .report import (
    conditions,
    cost_tables,
    growth_table,
    line_table,
    load_table,
    memory_table,
    opening_table,
    query_table,
)
from .storage import measure_costs, measure_growth, measure_memory, measure_openings

SEGMENTS = (1, 100, 1000, 10_000)
"""Sizes of the stores that are opened."""

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def main() -> None:
    """Run all parts and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="events with vectors for the query tables")
    parser.add_argument("--lines", type=int, default=500_000, help="raw log lines for the ingest table")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds spent on each cell")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    args = parser.parse_args()
    page = ["# Benchmarks", "", *conditions(shlex.join(sys.argv[1:])), ""]
    page += ["## Raw log lines in", "", *line_table(measure_lines(args.lines)), ""]
    events = make_events(args.rows)
    cells, loads = measure(events, budget_s=args.budget)
    page += [f"## {args.rows:,} events with vectors given", "", *load_table(loads), ""]
    page += [f"## Queries over {args.rows:,} events", "", *query_table(cells), ""]
    page += ["## What a store costs on disk", "", *cost_tables(measure_costs(args.lines, args.rows))]
    page += ["## Opening", "", *opening_table(measure_openings(SEGMENTS, budget_s=args.budget)), ""]
    page += [
        f"## Memory, {args.rows:,} events with vectors",
        "",
        *memory_table(measure_memory(args.rows)),
        "",
    ]
    page += ["## A log that arrives in 40 pieces", "", *growth_table(measure_growth(args.lines, 40)), ""]
    args.out.write_text("\n".join(page), encoding="utf-8")
    print("\n".join(page))


if __name__ == "__main__":
    main()
