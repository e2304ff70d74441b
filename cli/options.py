"""Options that several verbs share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeVar

import click

from treering.indexer.whole_numbers import whole_number

from .app import App
from .settings import COLORS, FORMATS, read_limit

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """Adds to a command and gives it back."""

    def __call__(self, command: F, /) -> F:
        """Add to `command`."""
        ...


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Click settings of every verb."""


class Verb(click.Command):
    """A verb whose help shows examples before its options."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the options."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")
        super().format_options(ctx, formatter)


class VerbGroup(Verb, click.Group):
    """A verb of several commands."""


def split_pairs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    """Split each `NAME=VALUE` at its first `=`; the value may hold `=` itself."""
    return [_split_pair(ctx, param, text) for text in values]


def _split_pair(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise click.BadParameter(f"{text!r}: expected {param.make_metavar(ctx)}", ctx, param)
    return name, value


def typed(text: str) -> Any:
    """Give the value of a `--param`: JSON number, boolean, "text" or list of numbers; all else is text.

    So `h=0.3` is a number, `id=77` too, and `id='"77"'` is the text 77.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_int=whole_number)
    except ValueError:
        return text
    if isinstance(value, bool | int | float | str | Decimal):
        return value
    is_vector = isinstance(value, list) and all(
        isinstance(x, int | float | Decimal) and not isinstance(x, bool) for x in value
    )
    return value if is_vector else text


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def params(pairs: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """Give the `--param` options as query parameters."""
    return {name: typed(text) for name, text in pairs} or None


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Lay a flag that is a setting into the App, where the verb's flag wins over the global one."""
    app = ctx.ensure_object(App)
    if value is not None and param.name:
        app.flags[param.name] = value
    return value


def _keep_limit(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    try:
        read_limit("all" if value is None else value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}", ctx, param) from error
    _keep(ctx, param, value)


def _debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    app = ctx.ensure_object(App)
    app.debug = app.debug or value


def _quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    app = ctx.ensure_object(App)
    app.quiet = app.quiet or value


def _keep_wait(ctx: click.Context, param: click.Parameter, value: float) -> None:
    ctx.ensure_object(App).wait_s = value


def waits_for(whom: str) -> Decorator:
    """Give `--wait` for a verb that writes: `App.wait_s`, which `App.open` waits for another writer."""
    return click.option(
        "--wait",
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="SECONDS",
        callback=_keep_wait,
        expose_value=False,
        help=f"Wait that long for {whom}.",
    )


WRITER = "another process that writes to the store"
"""Whom most verbs wait for."""

WRITER_AND_READERS = f"{WRITER}, and for readers that still hold old files"
"""Whom verbs wait for that take files away."""


def together(*options: Decorator) -> Decorator:
    """Give several options as one decorator; help shows them last to first."""

    def add(command: F, /) -> F:
        for option in options:
            command = option(command)
        return command

    return add


def json_option(what: str) -> Decorator:
    """Give `--json`, which prints `what` for programs."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what}.")


common_options = together(
    click.option("--debug", is_flag=True, callback=_debug, expose_value=False, help="Show tracebacks."),
    click.option("-q", "--quiet", is_flag=True, callback=_quiet, expose_value=False, help="Say errors only."),
    click.option(
        "--color",
        type=click.Choice(COLORS),
        callback=_keep,
        expose_value=False,
        help="When to use colour.",
    ),
    click.option("--model", metavar="NAME", callback=_keep, expose_value=False, help="Embedding model."),
    click.option(
        "-s",
        "--store",
        metavar="DIR",
        callback=_keep,
        expose_value=False,
        help="Store: a directory or s3://BUCKET/PREFIX [default: .treering].",
    ),
)
"""Options that stand before or after the verb."""

read_options = together(
    click.option("--strict", is_flag=True, help="Stop at the first bad record instead of counting it."),
    click.option("--no-join", is_flag=True, help="Keep one event per line instead of one per request."),
    click.option("--base-time", metavar="T", help="Time of lines that have none at all."),
    click.option(
        "--year", metavar="YEAR", type=click.IntRange(1970, 2261), help="Year of times without one."
    ),
    click.option(
        "--map",
        "mapping",
        metavar="CANONICAL=FIELD",
        multiple=True,
        callback=split_pairs,
        help="Where your logs keep a field, e.g. response=answer. Repeatable.",
    ),
    click.option("--reader", metavar="NAME", help="Reader to use instead of the detected one."),
)
"""How logs are read."""

output_options = together(
    click.option("--fail-empty", is_flag=True, help="Exit with 1 when there is no row."),
    click.option("--tz", metavar="ZONE", callback=_keep, expose_value=False, help="Zone of the times shown."),
    click.option(
        "--limit",
        metavar="N|all",
        callback=_keep_limit,
        expose_value=False,
        help="Rows to show [default: 100 on a terminal, else all].",
    ),
    click.option("-o", "--output", metavar="FILE", help="Write to FILE; its ending picks the format."),
    click.option("--format", "format_", type=click.Choice(FORMATS), help="Output format."),
)
"""How rows are written."""

query_options = together(
    click.option("--now", metavar="T", help="Count `last 1h` back from T instead of the clock."),
    click.option(
        "--param",
        "pairs",
        metavar="NAME=VALUE",
        multiple=True,
        callback=split_pairs,
        help="Value of $NAME: JSON number, true, false, or text. Repeatable.",
    ),
)
"""What belongs to the query itself."""
