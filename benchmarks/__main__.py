"""`python -m benchmarks`: measure, and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from .events import make_events
from .ingest import measure_lines
from .queries import measure
from .report import conditions, line_table, load_table, query_table

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
    args.out.write_text("\n".join(page), encoding="utf-8")
    print("\n".join(page))


if __name__ == "__main__":
    main()
