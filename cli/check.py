"""`treering check`: what is wrong with a store's files, what can be mended, and what is left of a damaged one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from treering.query.cells import dumps, visible

from .app import App, pass_app
from .confirm import confirm
from .exits import Exit
from .options import CONTEXT, WRITER, Verb, common_options, json_option, waits_for
from .progress import progress_bar
from .wording import plural, span

if TYPE_CHECKING:
    from treering.storage.findings import CheckReport, Finding, Loss

SHOWN = 20
"""Findings of one severity that are shown; `--json` has all."""


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering check",
        "treering check --deep --json",
        "treering check --repair",
        "treering check --salvage --yes",
    ],
)
@click.option("--deep", is_flag=True, help="Read every byte, and compare what the files hold.")
@click.option("--repair", is_flag=True, help="Mend what can be mended without losing anything.")
@click.option("--salvage", is_flag=True, help="Bring a damaged store back with what is left of it.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask before a salvage.")
@json_option("the report as one JSON object")
@waits_for(f"{WRITER}, before a repair or a salvage")
@common_options
@pass_app
def check(app: App, /, *, deep: bool, repair: bool, salvage: bool, is_sure: bool, as_json: bool) -> int:
    """Look at every file of the store, and name all that is wrong.

    It stops at nothing and changes nothing, and others read and write meanwhile. Exit code 0: all is right, 4:
    something is damaged. A salvage keeps what can be read, says what is lost, and destroys nothing: what is
    damaged is put aside below `salvaged/`.
    """
    if repair and salvage:
        raise click.UsageError("--repair and --salvage: choose one; a salvage mends what it can as well")
    if salvage and not is_sure:
        confirm(
            lambda: map(visible, report_lines(_run(app, deep=True))),
            "Keep what can be read, and put aside what is damaged?",
            instead="look first with `treering check --deep`",
        )
    report = _run(app, deep=deep, repair=repair, salvage=salvage)
    for line in [dumps(report.to_json())] if as_json else map(visible, report_lines(report)):
        click.echo(line)
    return Exit.DONE if report.is_clean else Exit.FAILED


def _run(app: App, /, **given: Any) -> CheckReport:
    from treering.query.check import check as check_store

    with progress_bar(app) as progress:
        return check_store(app.setting("store"), **given, wait_s=app.wait_s, progress=progress)


def report_lines(report: CheckReport) -> Iterator[str]:
    """Give what a person reads: findings, what was done, what is lost, and the state in one line."""
    for line in report.repairs:
        yield f"mended  {line}"
    for loss in report.losses:
        yield f"lost  {_loss(loss)}"
    if report.aside is not None:
        yield f"put aside, and not counted on by anything: {report.path / report.aside}"
        yield f"  when you are done with it: rm -r {report.path / report.aside}"
    for severity, found in _by_severity(report):
        for finding in found[:SHOWN]:
            yield f"{severity}  {finding.file}: {_what(finding)}"
            yield f"  {finding.todo}"
        if len(found) > SHOWN:
            yield f"{severity}  and {len(found) - SHOWN:,} more; --json has them all"
    yield _state(report)
    yield f"audit head {report.audit_head or '(no record yet)'}"


def _by_severity(report: CheckReport) -> list[tuple[str, Sequence[Finding]]]:
    names = list(dict.fromkeys(str(finding.severity) for finding in report.findings))
    order = ["note", "leftover", "unfinished", "derived", "damaged"]
    return [
        (name, [one for one in report.findings if one.severity == name]) for name in order if name in names
    ]


def _what(finding: Finding) -> str:
    if not finding.n_rows:
        return finding.what
    when = "" if finding.t_min is None or finding.t_max is None else f" {span(finding.t_min, finding.t_max)}"
    return f"{finding.what}; {plural(finding.n_rows, 'event')}{when} out of reach"


def _loss(loss: Loss) -> str:
    seqs = ", ".join(f"[{first}, {end})" for first, end in loss.seqs[:3])
    more = f" and {len(loss.seqs) - 3:,} ranges more" if len(loss.seqs) > 3 else ""
    numbers = f", sequence numbers in {seqs}{more}" if seqs else ""
    return f"{loss.file}: {loss.what}{numbers}"


def _state(report: CheckReport) -> str:
    counts = Counter(str(finding.severity) for finding in report.findings)
    wrong = [f"{counts[name]:,} {name}" for name in ("damaged", "derived") if counts[name]]
    depth = "every byte" if report.is_deep else "sizes and ends"
    state = ", ".join(wrong) if wrong else "all is right"
    if counts["unfinished"]:
        state += f", an erasure is not finished in {plural(counts['unfinished'], 'segment')}"
    reach = f", {plural(report.n_unreachable, 'event')} out of reach" if report.n_unreachable else ""
    return (
        f"{plural(report.events, 'event')} in {plural(report.segments, 'segment')}, "
        f"{plural(report.files, 'file')}, version {report.version:,} ({depth}): {state}{reach}"
    )
