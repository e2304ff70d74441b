"""`treering sql`: DuckDB over the view `events`."""

from __future__ import annotations

import click

from treering.query.answer import of_table

from .app import App, pass_app
from .exits import Exit
from .options import CONTEXT, Verb, common_options, output_options
from .output import Target, put


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering sql 'SELECT request_model, count(*) FROM events GROUP BY 1 ORDER BY 2 DESC'",
        "treering sql 'SELECT * FROM events WHERE input_tokens > 8000' -o long.parquet",
    ],
)
@click.argument("text", metavar="SQL")
@output_options
@common_options
@pass_app
def sql(app: App, /, text: str, format_: str | None, output: str | None, fail_empty: bool) -> int:
    """Ask the store in SQL over the view `events`.

    The dialect is DuckDB's; nothing can be written and no other file be read.
    """
    with app.open("r") as store:
        table = store.sql(text)
    put(app, of_table(table), Target(output, format_))
    return Exit.NOTHING if fail_empty and not table.num_rows else Exit.DONE
