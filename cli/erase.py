"""`treering delete` and `treering expire`: events out of the store, with a receipt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from treering.query.cells import dumps

from .app import App, pass_app
from .confirm import confirm
from .exits import Exit
from .options import (
    CONTEXT,
    WRITER_AND_READERS,
    Verb,
    common_options,
    json_option,
    params,
    query_options,
    together,
    waits_for,
)
from .progress import progress_bar
from .receipt import preview_lines, receipt_lines

if TYPE_CHECKING:
    from treering.query.receipts import Receipt
    from treering.query.store import Store

    Erase = Callable[..., Receipt]
    """Erases in a store, or with `dry_run=True` says what would go."""

erase_options = together(
    json_option("the receipt as one JSON object"),
    click.option(
        "--no-embed", is_flag=True, help="Leave vectors that are to be made again to `treering embed`."
    ),
    waits_for(WRITER_AND_READERS),
    click.option("--yes", "is_sure", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Only say what would go."),
)
"""What both verbs take."""


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering delete --dry-run 'session_id = \"u-77\"'",
        "treering delete --yes 'session_id = $id' --param id=u-77",
        "treering delete --yes 'prompt has \"4111 1111\"' --wait 30",
    ],
)
@click.argument("text", metavar="DSL")
@query_options
@erase_options
@common_options
@pass_app
def delete(
    app: App, /, text: str, now: str | None, pairs: list[tuple[str, str]], *, is_sure: bool, **how: bool
) -> int:
    """Erase the events and rejected records that match a condition.

    Nobody sees them from then on; then their bytes go out of every file of the store: texts, dictionaries,
    vectors that were made of them. The act is kept in `treering audit`, with DSL as it stands here: give what
    must not stay as --param.
    """
    given: dict[str, Any] = {"params": params(pairs), "now": now}
    return _erase(app, lambda store, **more: store.delete(text, **given, **more), asks=not is_sure, **how)


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering expire --older-than 30d",
        "treering expire --max-bytes 10GB",
        "treering expire 'level <= debug until 2026-05-01' --yes",
    ],
)
@click.argument("text", metavar="[DSL]", required=False)
@click.option("--older-than", metavar="DURATION", help="Erase events that are older, e.g. 30d.")
@click.option("--max-bytes", metavar="SIZE", help="Erase the oldest segments until the rest fits, e.g. 10GB.")
@query_options
@erase_options
@common_options
@pass_app
def expire(
    app: App,
    /,
    text: str | None,
    older_than: str | None,
    max_bytes: str | None,
    now: str | None,
    pairs: list[tuple[str, str]],
    *,
    is_sure: bool,
    **how: bool,
) -> int:
    """Erase what is old, or beyond a size, or matches a condition.

    Made for a schedule: with --older-than and --max-bytes it does not ask. Events dated in the future never
    expire by age.
    """
    given: dict[str, Any] = {"older_than": older_than, "max_bytes": max_bytes, "query": text}
    given |= {"params": params(pairs), "now": now}
    is_by_rule = text is None
    return _erase(
        app, lambda store, **more: store.expire(**given, **more), asks=not (is_sure or is_by_rule), **how
    )


def _erase(app: App, /, erase: Erase, *, asks: bool, dry_run: bool, as_json: bool, no_embed: bool) -> int:
    """Erase, or say what would go, or do the one after the other for who has to be sure."""
    if dry_run:
        _preview(app, erase, as_json=as_json)
        return Exit.DONE
    if asks:
        confirm(
            lambda: preview_lines(_would_go(app, erase)),
            "Erase them for good?",
            instead="--dry-run to see what would go",
        )
    with app.open_present() as store, progress_bar(app) as progress:
        receipt = erase(store, wait_s=app.wait_s)
        if as_json:
            click.echo(dumps(receipt.to_json()))
        for line in receipt_lines(receipt):
            app.note(line)
        if receipt.vectors and not no_embed:
            _embed(app, store, progress)
    return Exit.FAILED if receipt.damaged else Exit.DONE


def _would_go(app: App, /, erase: Erase) -> Receipt:
    with app.open("r") as store:
        return erase(store, dry_run=True)


def _preview(app: App, /, erase: Erase, *, as_json: bool) -> None:
    receipt = _would_go(app, erase)
    for line in [dumps(receipt.to_json())] if as_json else preview_lines(receipt):
        click.echo(line)


def _embed(app: App, /, store: Store, progress: Any) -> None:
    from treering.storage.errors import ModelError

    try:
        store.embed(progress=progress)
    except ModelError as error:
        # What was asked for is done.
        app.note(f"warning: vectors wait for `treering embed`: {error}")
