"""`treering ingest` and `treering embed`: logs in, vectors made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from treering.query.cells import dumps, visible
from treering.storage.errors import TreeringError

from .app import App, pass_app
from .exits import Exit
from .options import CONTEXT, WRITER, Verb, common_options, json_option, read_options, waits_for
from .progress import progress_bar
from .wording import embedded_line

if TYPE_CHECKING:
    from treering.query.intake import IngestSummary
    from treering.storage.rejects import Reject

SHOWN_REJECTS = 10
"""Rejected records that are named one by one after an ingest; `treering rejects` gives them all."""


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering ingest app.jsonl.gz vllm.log",
        "treering ingest --map response=answer --map context=docs rag.jsonl",
        "kubectl logs vllm-0 | treering ingest --year 2026 -",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...|-")
@read_options
@click.option("--tz", "input_tz", metavar="ZONE", help="Zone of times that name none [default: UTC].")
@click.option("--again", is_flag=True, help="Take in what this store has taken in before.")
@click.option("--no-embed", is_flag=True, help="Leave the vectors to a later `treering embed`.")
@json_option("the summary as one JSON object")
@waits_for(WRITER)
@common_options
@pass_app
def ingest(
    app: App, /, files: tuple[str, ...], as_json: bool, no_embed: bool, again: bool, **options: Any
) -> int:
    """Take logs into the store.

    Files, folders, globs, .gz .zst .bz2, or - for stdin; the format is detected. What the store took in
    before is recognised and not taken in again.
    """
    summary: IngestSummary | None = None
    try:
        with app.open("rw") as store, progress_bar(app) as progress:
            summary = store.ingest(
                *files, again=again, embed=not no_embed, progress=progress, **reading(app, **options)
            )
            if no_embed:
                store.settle()
    except TreeringError as error:
        _report_failure(app, summary or error.done, error, as_json=as_json)
        raise
    if as_json:
        click.echo(dumps(summary_object(summary)))
    _report(app, summary)
    return Exit.REJECTED if summary.rejected else Exit.DONE


def reading(
    app: App,
    /,
    *,
    reader: str | None,
    mapping: list[tuple[str, str]],
    year: int | None,
    base_time: str | None,
    no_join: bool,
    strict: bool,
    input_tz: str | None,
) -> dict[str, Any]:
    """Give the options of `Store.ingest` for the reading options of a verb."""
    return {
        "reader": reader,
        "map": dict(mapping) or None,
        "tz": input_tz or app.setting("input_tz"),
        "year": year,
        "base_time": base_time,
        "join": not no_join,
        "strict": strict,
    }


def summary_object(summary: IngestSummary) -> dict[str, Any]:
    """Give what `ingest --json` prints."""
    return {
        "accepted": summary.accepted,
        "rejected": summary.rejected,
        "joined": summary.joined,
        "pending": summary.pending,
        "lines": summary.lines,
        "skipped_bytes": summary.skipped,
        "embedded": summary.embedded,
        "miss_share": round(summary.miss_share, 4),
        "seconds": round(summary.seconds, 3),
        "warnings": summary.warnings,
        "rejects": [reject_object(reject) for reject in summary.rejects[:SHOWN_REJECTS]],
    }


def reject_object(reject: Reject) -> dict[str, Any]:
    """Give a rejected record as a row."""
    return {
        "source": reject.source,
        "line": reject.line,
        "offset": reject.offset,
        "reason": reject.reason,
        "record": reject.record,
    }


def _report(app: App, /, summary: IngestSummary) -> None:
    report_faults(app, summary)
    app.note(summary_line(summary))


def _report_failure(app: App, /, done: object, error: TreeringError, *, as_json: bool) -> None:
    """Say what was taken in before a load failed: that is in the store, and is not to be loaded again."""
    from treering.query.intake import IngestSummary

    if not isinstance(done, IngestSummary):
        return
    if as_json:
        click.echo(dumps({**summary_object(done), "pending": None, "failed": str(error)}))
    if done.accepted or done.rejected:
        report_faults(app, done)
        app.note(
            f"accepted {done.accepted:,}, rejected {done.rejected:,} before it failed; these are in the store"
        )


def report_faults(app: App, /, summary: IngestSummary) -> None:
    """Say what was guessed, and name the first records that were rejected."""
    for warning, sources in _grouped(summary.warnings).items():
        app.note(f"warning: {visible(sources)}: {visible(warning)}")
    for reject in summary.rejects[:SHOWN_REJECTS]:
        app.note(visible(f"{reject.source}:{reject.line}: {reject.reason}"))
    if summary.rejected > len(summary.rejects[:SHOWN_REJECTS]):
        app.note(f"{summary.rejected:,} rejected in all; `treering rejects` lists them")


def _grouped(warnings: Sequence[str]) -> dict[str, str]:
    """Give each kind of warning once, with the source it is about and how many others."""
    sources: dict[str, list[str]] = {}
    for warning in warnings:
        source, _, text = warning.rpartition(": ")
        sources.setdefault(text, []).append(source)
    return {
        text: names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        for text, names in sources.items()
    }


def summary_line(summary: IngestSummary) -> str:
    """Give the one line that stands at the end of an ingest."""
    parts = [f"accepted {summary.accepted:,}", f"rejected {summary.rejected:,}", f"joined {summary.joined:,}"]
    parts.append(f"pending {summary.pending:,}")
    if summary.embedded:
        parts.append(f"embedded {summary.embedded:,} new texts ({summary.miss_share:.3g} an event)")
    if summary.skipped and not summary.accepted:
        parts.append("already in the store (--again takes it in once more)")
    made = f", {summary.read_s:.1f} s until all was on disk" if summary.embedded else ""
    return f"{', '.join(parts)} in {summary.seconds:.1f} s{made}"


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering ingest --no-embed big.jsonl && treering embed",
    ],
)
@json_option("the summary as one JSON object")
@waits_for(WRITER)
@common_options
@pass_app
def embed(app: App, /, as_json: bool) -> int:
    """Give every waiting text its vector.

    Then the signals that need vectors are computed and finished segments are put in order.
    """
    with app.open_present() as store, progress_bar(app) as progress:
        report = store.embed(progress=progress)
    if as_json:
        told = {"texts": report.texts, "rows": report.rows, "seconds": round(report.seconds, 3)}
        click.echo(dumps({**told, "damaged": [str(damage) for damage in report.damaged]}))
    app.note(embedded_line(report))
    for damage in report.damaged:
        click.echo(f"error: {visible(str(damage))}", err=True)
    return Exit.FAILED if report.damaged else Exit.DONE
