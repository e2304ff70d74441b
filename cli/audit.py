"""`treering audit`: what was done to a store by hand, and whether somebody altered the account."""

from __future__ import annotations

import sys

import click

from treering.query.cells import dumps, visible

from .app import App, is_terminal, pass_app
from .exits import Exit
from .options import CONTEXT, Verb, common_options, json_option
from .wording import moment, plural


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering audit",
        "treering audit --verify",
        "treering audit --head 5e0c1f...",
    ],
)
@json_option("one JSON object a record [default in a pipe]")
@click.option("--verify", is_flag=True, help="Check the chain of hashes, and print its head.")
@click.option("--head", metavar="HASH", help="Check that HASH, which you kept, is in the chain.")
@common_options
@pass_app
def audit(app: App, /, as_json: bool, verify: bool, head: str | None) -> int:
    """List what was done to the store by hand, and by what words.

    Deletions, expiries, moves to another model, repairs. Each record has the hash of the one before it,
    so that nobody can alter or remove one without making all later ones anew. Keep the head elsewhere to
    notice that too.
    """
    with app.open("r") as store:
        records = store.audit(verify=verify, head=head)
    for record in records:
        if as_json or not is_terminal(sys.stdout):
            click.echo(dumps(record.to_json()))
        else:
            click.echo(visible(f"{moment(record.time_ns)}  {record.action}  {dumps(dict(record.details))}"))
    if verify or head is not None:
        last = records[-1].hash if records else "none yet"
        app.note(f"{plural(len(records), 'record')}, each follows from the one before it; head {last}")
    return Exit.DONE
