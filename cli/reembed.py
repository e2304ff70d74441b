"""`treering reembed`: a store moved to another model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from treering.query.cells import dumps

from .app import App, pass_app
from .exits import Exit
from .options import CONTEXT, WRITER, Verb, common_options, json_option, waits_for
from .progress import progress_bar
from .wording import embedded_line

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
@json_option("the summary as one JSON object")
@waits_for(WRITER)
@common_options
@pass_app
def reembed(app: App, /, budget: float | None, abort: bool, yes: bool, as_json: bool) -> int:
    """Move the store to the model that --model names.

    Every text is embedded anew, beside the store, which answers as before until all is done and then with the
    new vectors, from one moment to the next. It takes the disk of the store once more while it runs.
    """
    if abort:
        return _abort(app, as_json=as_json)
    model = app.flags.get("model")
    if model is None:
        raise click.UsageError("say which model to move to: --model NAME")
    report = _move(app, str(model), drops_given=yes, budget_s=budget)
    if as_json:
        click.echo(dumps(asdict(report) | {"seconds": round(report.seconds, 3)}))
    for line in report_lines(report, str(model)):
        app.note(line)
    return Exit.DONE


def _move(app: App, /, model: str, *, drops_given: bool, budget_s: float | None) -> ReembedReport:
    with app.open_present() as store, progress_bar(app) as progress:
        try:
            return store.reembed(model, drops_given=drops_given, budget_s=budget_s, progress=progress)
        except KeyboardInterrupt:
            app.note(KEPT)
            raise


def report_lines(report: ReembedReport, model: str) -> Iterator[str]:
    """Say what was done, and what is to be done now. model: as it was named."""
    from treering.indexer.model import DEFAULT_HUB_NAME, DEFAULT_NAME

    if report.was_restarted:
        yield "what was done before was of another model, or of events that were deleted since: it began anew"
    yield f"{embedded_line(report)}; {_state(report)}"
    if not report.finished:
        yield KEPT
    elif report.was_moved and model not in (DEFAULT_NAME, DEFAULT_HUB_NAME):
        yield f"from now on name it wherever texts are embedded: --model {model}, or TREERING_MODEL"


def _state(report: ReembedReport) -> str:
    if not report.finished:
        return f"the store is still of {report.old}"
    if not report.was_moved:
        return f"the store is of {report.new}, there was nothing to move"
    return f"moved from {report.old} to {report.new}, segments {report.segments:,}"


def _abort(app: App, /, *, as_json: bool) -> int:
    with app.open_present() as store:
        was_dropped = store.abort_reembed()
    if as_json:
        click.echo(dumps({"dropped": was_dropped}))
    app.note("dropped what was done of the move" if was_dropped else "no move to another model was begun")
    return Exit.DONE
