"""`treering demo`: a day of an LLM service, its incidents found by query, and every answer checked."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treering.query.answer import Row
from treering.storage.errors import ConfigError

from .app import App, is_terminal, pass_app
from .demo_story import Chapter, story
from .exits import Exit
from .ingest import summary_line
from .options import CONTEXT, Verb, common_options
from .progress import progress_bar

if TYPE_CHECKING:
    from treering.indexer.demo_traffic import DemoTraffic
    from treering.query.plan import Plan
    from treering.query.store import Store

SHOWN_ROWS = 5
"""Rows of each answer that are printed; checks see all of them."""


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=["treering demo", "treering demo --keep demo && ls demo/logs"],
)
@click.option("--keep", metavar="DIR", help="Leave logs and store in DIR, a new or empty directory.")
@click.option("--seed", metavar="N", default=7, show_default=True, help="Seed of the made-up traffic.")
@click.option(
    "--requests", "n_requests", metavar="N", default=2400, show_default=True, help="Number of requests."
)
@common_options
@pass_app
def demo(app: App, /, keep: str | None, seed: int, n_requests: int) -> int:
    """Ingest a made-up day of an LLM service and find its incidents.

    The traffic is generated, so it is known which requests went wrong: every answer is checked against that,
    and the exit code is 1 when one is wrong.
    """
    from treering.indexer.demo_traffic import generate
    from treering.query.opening import open_store

    traffic = generate(seed, n_requests, n_server_lines=6000)
    with _place(keep) as directory, open_store(directory / "store", model=app.setting("model")) as store:
        right = [
            _ingest(app, store, traffic, directory),
            *(_tell(app, store, one) for one in story(traffic.truth)),
        ]
    click.echo(f"{sum(right)} of {len(right)} answers are right.")
    if keep:
        click.echo(f"Go on with: treering -s {Path(keep) / 'store'} query '...'")
    return Exit.DONE if all(right) else Exit.NOTHING


@contextmanager
def _place(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="treering-demo-") as directory:
            yield Path(directory)
        return
    place = Path(keep)
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise ConfigError(f"--keep {keep}: the directory is not empty; name a new one")
    yield place


def _ingest(app: App, store: Store, traffic: DemoTraffic, directory: Path) -> bool:
    """Take the logs in and tell whether all records and only the torn one were refused."""
    truth = traffic.truth
    paths = traffic.write(directory / "logs")
    _heading("A day of three models: the request log of a gateway, the log of one vLLM server")
    for path in paths:
        click.echo(f"  {path.relative_to(directory)}  {path.stat().st_size / 1e6:.1f} MB")
    with progress_bar(app) as progress:
        summary = store.ingest(*paths, year=2026, tz="UTC", progress=progress)
    click.echo(f"  {summary_line(summary)}")
    for reject in summary.rejects:
        click.echo(f"  {Path(reject.source).name}:{reject.line}: {reject.reason}")
    places = [(str(Path(reject.source).name), reject.line) for reject in summary.rejects]
    is_right = summary.pending == 0 and places == [(Path(truth.torn_file).name, truth.torn_line)]
    _verdict(
        app, is_right, "every record is in, the torn one is named" if is_right else "expected one torn record"
    )
    return is_right


def _tell(app: App, store: Store, chapter: Chapter) -> bool:
    _heading(chapter.title)
    click.echo(f"  $ treering query '{chapter.query}'")
    started = time.perf_counter()
    result = store.query(chapter.query)
    rows = list(result)
    took_s = time.perf_counter() - started
    _show(app, rows, result.columns)
    click.echo(f"  {_plan_line(result.plan)}, {took_s * 1e3:.1f} ms")
    finding = chapter.check(rows)
    _verdict(app, finding.is_right, finding.text)
    return finding.is_right


def _heading(text: str) -> None:
    click.echo()
    click.secho(text, bold=is_terminal(sys.stdout))


def _verdict(app: App, is_right: bool, text: str) -> None:
    color = app.wants_color(sys.stdout)
    mark = click.style("right", fg="green") if is_right else click.style("WRONG", fg="red", bold=True)
    click.echo(f"  {mark}: {text}", color=color)


def _show(app: App, rows: Sequence[Row], columns: Sequence[str]) -> None:
    from .table import draw_table

    width = min(shutil.get_terminal_size().columns, 140) if is_terminal(sys.stdout) else 110
    color = app.wants_color(sys.stdout)
    sys.stdout.flush()
    draw_table(rows[:SHOWN_ROWS], columns, sys.stdout, color=color, width=width, first=columns)
    if len(rows) > SHOWN_ROWS:
        click.echo(f"  ... and {len(rows) - SHOWN_ROWS} more")


def _plan_line(plan: Plan) -> str:
    """Give the plan on one line: exact or not, how much was skipped and looked at."""
    parts = [
        "exact" if plan.exact else "approximate",
        f"{plan.parts_skipped} of {plan.parts} parts skipped",
        f"{plan.rows_candidate:,} of {plan.rows:,} rows looked at",
    ]
    if plan.meaning:
        parts.append(f"{plan.vectors_scored:,} vectors compared ({', '.join(plan.meaning)})")
    return ", ".join(parts)
