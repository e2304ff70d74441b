"""`treering query`, `explain` and `export`: questions in the query language."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from treering.query.answer import of_result
from treering.query.cells import dumps
from treering.query.json_form import read_json

from .app import App, pass_app
from .exits import Exit
from .ingest import reading, report_faults
from .options import (
    CONTEXT,
    Verb,
    common_options,
    json_option,
    output_options,
    params,
    query_options,
    read_options,
)
from .output import Target, put
from .progress import progress_bar

if TYPE_CHECKING:
    from treering.query.intake import IngestSummary
    from treering.query.result import Result


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering query 'last 1h where hallucination > 0.3 top 10 by attention_collapse'",
        "treering query '\"out of blocks\" level >= warn count every 10m' vllm.log",
        "treering query '~ \"answered in the wrong language\" limit 5' --format md",
        "treering query 'model = $m p95(e2e_latency_s)' --param m=llama-3-8b-instruct",
    ],
)
@click.argument("text", metavar="DSL")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@query_options
@output_options
@click.option("--explain", is_flag=True, help="Say on stderr how the answer was found.")
@click.option("--json-query", is_flag=True, help="DSL is the JSON form of a query.")
@click.option("--skip-damaged", is_flag=True, help="Leave out segments that cannot be read, and say which.")
@read_options
@click.option("--input-tz", metavar="ZONE", help="Zone of times in FILE that name none [default: UTC].")
@common_options
@pass_app
def query(
    app: App,
    /,
    text: str,
    files: tuple[str, ...],
    format_: str | None,
    output: str | None,
    explain: bool,
    json_query: bool,
    skip_damaged: bool,
    fail_empty: bool,
    now: str | None,
    pairs: list[tuple[str, str]],
    **options: Any,
) -> int:
    """Ask the store, or FILEs without any set-up.

    The answer is a table on a terminal and JSON lines in a pipe. With FILEs, `last 1h` counts back from their
    newest event, and texts are embedded only where the query needs it.
    """
    asked = read_json(text) if json_query else text
    given: dict[str, Any] = {"params": params(pairs), "now": now}
    shown: dict[str, Any] = {"target": Target(output, format_), "explain": explain, "fail_empty": fail_empty}
    if files:
        result = _ask_files(app, asked, files, **given, **reading(app, **options))
        return _with_faults(app, _answer(app, result, **shown), result.meta["ingest"])
    with app.open("r") as store:
        result = store.query(asked, damaged="skip" if skip_damaged else "fail", **given)
        return _answer(app, result, **shown)


def _ask_files(app: App, /, asked: Any, files: tuple[str, ...], **given: Any) -> Result:
    from treering.query.raw_files import query_files

    with progress_bar(app) as progress:
        return query_files(asked, files, model=app.setting("model"), progress=progress, **given)


def _with_faults(app: App, /, code: int, summary: IngestSummary) -> int:
    """Say what was wrong with the files behind the answer, and give the exit code of both."""
    report_faults(app, summary)
    return Exit.REJECTED if summary.rejected and code == Exit.DONE else code


def _answer(app: App, /, result: Result, *, target: Target, explain: bool, fail_empty: bool) -> int:
    if app.settings()["tz"].origin != "default":
        result.zone = app.setting("tz")
    put(app, of_result(result), target)
    for hint in result.meta.get("hints", ()):
        app.note(f"hint: {hint}")
    if result.plan.pending:
        app.note(f"{result.plan.pending:,} texts still wait for their vector: `treering embed` makes them")
    for one in result.meta.get("unreachable", ()):
        app.note(f"damaged: {one}")
    if explain:
        click.echo(str(result.plan), err=True)
    return Exit.NOTHING if fail_empty and not len(result) else Exit.DONE


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering explain 'last 1h ~ \"connection reset\" top 10'",
        "treering explain --json 'top-k attention-collapse'",
    ],
)
@click.argument("text", metavar="DSL")
@query_options
@json_option("the JSON form of the query; needs no store")
@common_options
@pass_app
def explain(app: App, /, text: str, now: str | None, pairs: list[tuple[str, str]], as_json: bool) -> int:
    """Run a query and say how it was answered.

    Exact or not, what was skipped, how many rows were looked at, the time of each step.
    """
    if as_json:
        from treering.query.json_form import to_json
        from treering.query.parse import parse

        click.echo(dumps(to_json(parse(text))))
        return Exit.DONE
    with app.open("r") as store:
        click.echo(str(store.explain(text, params=params(pairs), now=now)))
    return Exit.DONE


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering export 'on 2026-03-17 model = \"llama-3-8b-instruct\"' -o day.parquet",
        "treering export '*' -o - --format csv | head",
    ],
)
@click.argument("text", metavar="DSL")
@query_options
@click.option("-o", "--output", metavar="FILE", required=True, help="Write to FILE (- for stdout).")
@click.option(
    "--format", "format_", metavar="FORMAT", help="Format, where the ending of FILE does not say it."
)
@common_options
@pass_app
def export(
    app: App, /, text: str, output: str, format_: str | None, now: str | None, pairs: list[tuple[str, str]]
) -> int:
    """Write the whole answer of a query to a file.

    Its ending picks the format: .parquet .arrow .jsonl .json .csv .tsv .md; .gz .zst .bz2 behind it compress.
    """
    app.flags["limit"] = "all"
    if output == "-" and format_ is None:
        format_ = "jsonl"
    with app.open("r") as store:
        result = store.query(text, params=params(pairs), now=now)
        put(app, of_result(result), Target(output, format_))
        app.note(f"{len(result):,} rows to {output if output != '-' else sys.stdout.name}")
    return Exit.DONE
