"""`treering fields`, `stats` and `rejects`: what is in a store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from treering.query.answer import of_rows
from treering.query.cells import cell, dumps

from .app import App, is_terminal, pass_app
from .exits import Exit
from .ingest import reject_object
from .options import CONTEXT, Verb, common_options, json_option, output_options
from .output import Target, put
from .wording import moment


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering fields",
        "treering fields --format jsonl | jq -r 'select(.fill < 0.5).name'",
    ],
)
@output_options
@common_options
@pass_app
def fields(app: App, /, format_: str | None, output: str | None, fail_empty: bool) -> int:
    """List the stored fields.

    With types and how many events have each, share of events that hold a value, unit, examples.
    """
    with app.open("r") as store:
        infos = store.fields()
    columns = ("name", "types", "n", "fill", "unit", "source", "examples")
    rows = [{column: getattr(info, column) for column in columns} for info in infos]
    _keep_all(app)
    put(app, of_rows(rows, columns), Target(output, format_))
    return Exit.NOTHING if fail_empty and not rows else Exit.DONE


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering rejects",
        "treering rejects --format jsonl | jq -r .record > broken.txt",
    ],
)
@output_options
@common_options
@pass_app
def rejects(app: App, /, format_: str | None, output: str | None, fail_empty: bool) -> int:
    """List the records that no reader understood, and why."""
    with app.open("r") as store:
        rows = [reject_object(reject) for reject in store.rejects()]
    columns = ("source", "line", "offset", "reason", "record")
    put(app, of_rows(rows, columns), Target(output, format_))
    return Exit.NOTHING if fail_empty and not rows else Exit.DONE


def _keep_all(app: App) -> None:
    """Lift the default limit of a screen; one that was asked for stays."""
    if app.settings()["limit"].origin == "default":
        app.flags["limit"] = "all"


@click.command(cls=Verb, context_settings=CONTEXT, examples=["treering stats", "treering stats | jq .shards"])
@json_option("one JSON object [default in a pipe]")
@common_options
@pass_app
def stats(app: App, /, as_json: bool) -> int:
    """Show what a store holds.

    Rows, segments, shards and their balance, time range, bytes by file kind, what waits, the model.
    """
    with app.open("r") as store:
        facts = store.stats()
    if as_json or not is_terminal(sys.stdout):
        click.echo(dumps(facts))
        return Exit.DONE
    lines = list(_lines("", facts))
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{name:<{width}}  {value}")
    return Exit.DONE


def _lines(prefix: str, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _lines(f"{prefix}{name}.", value)
        elif isinstance(value, list):
            yield from ((f"{prefix}{name}", _inline(one)) for one in value)
        elif name.endswith("_ns") and value is not None:
            yield prefix + name.removesuffix("_ns"), moment(value)
        else:
            yield prefix + name, cell(value)


def _inline(one: Any) -> str:
    if not isinstance(one, dict):
        return cell(one)
    return "  ".join(f"{name} {cell(value) or 'none'}" for name, value in one.items())
