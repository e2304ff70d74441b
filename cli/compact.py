"""`treering compact`: as few segments as can be."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from treering.query.cells import dumps

from .app import App, pass_app
from .exits import Exit
from .options import CONTEXT, WRITER_AND_READERS, Verb, common_options, json_option, waits_for
from .wording import held_line

if TYPE_CHECKING:
    from treering.storage.compactor import CompactReport


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=["treering compact", "treering embed && treering compact"],
)
@json_option("what was done as one JSON object")
@waits_for(WRITER_AND_READERS)
@common_options
@pass_app
def compact(app: App, /, as_json: bool) -> int:
    """Rewrite the store into as few segments as can be.

    A writer compacts by itself as far as that pays; this joins the rest, whatever it costs. Segments that
    wait for vectors are joined with each other only: `treering embed` first.
    """
    with app.open_present() as store:
        report = store.compact(wait_s=app.wait_s)
    if as_json:
        click.echo(dumps(asdict(report) | {"seconds": round(report.seconds, 3)}))
    else:
        click.echo(report_line(report))
    if report.waiting:
        app.note(
            f"segments that wait for vectors: {report.waiting:,}, joined with no finished one; "
            "run `treering embed`, then compact again"
        )
    if report.held:
        app.note(held_line(report.held))
    return Exit.DONE


def report_line(report: CompactReport) -> str:
    """Give what a compaction did as one line."""
    return (
        f"segments {report.segments_before:,} -> {report.segments_after:,}, "
        f"bytes {report.bytes_before:,} -> {report.bytes_after:,}, "
        f"{report.rows:,} rows in {report.seconds:.1f} s"
    )
