"""`treering config show`: every setting and where its value comes from."""

from __future__ import annotations

import click

from treering.query.answer import of_rows

from .app import App, pass_app
from .exits import Exit
from .options import CONTEXT, Verb, VerbGroup, common_options, output_options
from .output import Target, put
from .settings import KEYS

EXAMPLES = (
    "treering config show",
    "treering -s logs config show --format jsonl | jq -r 'select(.from != \"default\").name'",
)


@click.group(cls=VerbGroup, context_settings=CONTEXT, examples=EXAMPLES[:1])
def config() -> None:
    """Look at the settings."""


@config.command(cls=Verb, context_settings=CONTEXT, examples=EXAMPLES)
@output_options
@common_options
@pass_app
def show(app: App, /, format_: str | None, output: str | None, fail_empty: bool) -> int:
    """Show every setting, its value and where it comes from.

    Strongest first: flag, environment (TREERING_*), ./treering.toml, the user's config.toml, default.
    """
    rows = [
        {"name": s.name, "value": s.value, "from": s.origin, "what": KEYS[s.name].doc}
        for s in app.settings().values()
    ]
    put(app, of_rows(rows, ("name", "value", "from", "what")), Target(output, format_))
    return Exit.DONE
