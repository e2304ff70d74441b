"""`treering reembed`: a store moved to another model."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from treering.query.cells import dumps

from .app import App, pass_app
from .exits import Exit
from .options import CONTEXT, Verb, common_options, wait_option
from .progress import progress_bar

if TYPE_CHECKING:
    from treering.indexer.reembed import ReembedReport

KEPT = "what is done is kept: run it again to go on, or `treering reembed --abort` to drop it"


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering reembed --model BAAI/bge-small-en-v1.5",
        "treering reembed --model ./my-model --budget 3600",
        "treering reembed --abort",
    ],
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Stop after that long; what is done is kept.",
)
@click.option("--abort", is_flag=True, help="Drop what was done of a move that is not at its end.")
@click.option("--yes", is_flag=True, help="Also lose vectors that were given with the events.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@wait_option
@common_options
@pass_app
def reembed(app: App, /, budget: float | None, abort: bool, yes: bool, as_json: bool) -> int:
    """Move the store to the model that --model names.

    Every text is embedded anew, beside the store, which answers as before until all is done and then with the
    new vectors, from one moment to the next. It takes the disk of the store once more while it runs.
    """
    model = app.flags.get("model")
    if abort:
        return _abort(app, as_json)
    if model is None:
        raise click.UsageError("say which model to move to: --model NAME")
    from treering.indexer.model import DEFAULT_HUB_NAME, DEFAULT_NAME

    with app.open("rw") as store, progress_bar(app) as progress:
        try:
            report = store.reembed(str(model), drops_given=yes, budget_s=budget, progress=progress)
        except KeyboardInterrupt:
            app.note(KEPT)
            raise
    if as_json:
        click.echo(dumps(asdict(report) | {"seconds": round(report.seconds, 3)}))
    if report.was_restarted:
        app.note(
            "what was done before was of another model, or of events that were deleted since: it began anew"
        )
    app.note(report_line(report))
    if not report.finished:
        app.note(KEPT)
    elif report.was_moved and model not in (DEFAULT_NAME, DEFAULT_HUB_NAME):
        app.note(f"from now on name it wherever texts are embedded: --model {model}, or TREERING_MODEL")
    return Exit.DONE


def report_line(report: ReembedReport) -> str:
    """Give what was done as one line."""
    rate = f" ({report.texts / report.seconds:,.0f} texts/s)" if report.texts and report.seconds else ""
    done = f"embedded {report.texts:,} texts for {report.rows:,} events in {report.seconds:.1f} s{rate}"
    if not report.finished:
        return f"{done}; the store is still of {report.old}"
    if not report.was_moved:
        return f"{done}; the store is of {report.new}, there was nothing to move"
    return f"{done}; moved from {report.old} to {report.new}, segments {report.segments:,}"


def _abort(app: App, as_json: bool) -> int:
    with app.open("rw") as store:
        was_dropped = store.abort_reembed()
    if as_json:
        click.echo(dumps({"dropped": was_dropped}))
    app.note("dropped what was done of the move" if was_dropped else "no move to another model was begun")
    return Exit.DONE
