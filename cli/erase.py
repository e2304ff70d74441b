"""`treering delete` and `treering expire`: events out of the store, with a receipt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from treering.query.cells import dumps, visible

from .app import App, is_terminal, pass_app
from .exits import Exit
from .options import CONTEXT, Verb, common_options, params, query_options
from .progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.query.receipts import Receipt
    from treering.query.store import Store

    Erase = Callable[..., Receipt]

_EXAMPLE_CHARACTERS = 200


def _keep_wait(ctx: click.Context, param: click.Parameter, value: float) -> float:
    ctx.ensure_object(App).wait_s = value
    return value


def erase_options(command: Any) -> Any:
    """Add the options of both verbs."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the receipt as one JSON object."),
        click.option(
            "--no-embed", is_flag=True, help="Leave vectors that are to be made again to `treering embed`."
        ),
        click.option(
            "--wait",
            "wait_s",
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="SECONDS",
            callback=_keep_wait,
            help="Wait for another process that writes, and for readers that still hold old files.",
        ),
        click.option("--yes", "is_sure", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only say what would go."),
    ):
        command = option(command)
    return command


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
    app: App,
    /,
    text: str,
    now: str | None,
    pairs: list[tuple[str, str]],
    *,
    dry_run: bool,
    is_sure: bool,
    as_json: bool,
    no_embed: bool,
    wait_s: float,
) -> int:
    """Erase the events that match a condition, and the rejected records.

    Nobody sees them from then on; then their bytes go out of every file of the store: texts, dictionaries,
    vectors that were made of them. The act is kept in `treering audit`, with DSL as it stands here: give what
    must not stay as --param.
    """
    given: dict[str, Any] = {"params": params(pairs), "now": now}

    def erase(store: Store, **more: Any) -> Receipt:
        return store.delete(text, **given, **more)

    if dry_run or not is_sure:
        _check_sure(app, dry_run=dry_run, erase=erase, as_json=as_json)
    if dry_run:
        return Exit.DONE
    return _erase(app, erase, wait_s=wait_s, as_json=as_json, no_embed=no_embed)


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
    dry_run: bool,
    is_sure: bool,
    as_json: bool,
    no_embed: bool,
    wait_s: float,
) -> int:
    """Erase what is older than DURATION, or the oldest beyond SIZE, or what matches a condition.

    Made for a schedule: with --older-than and --max-bytes it does not ask. Events dated in the future never
    expire by age.
    """
    given: dict[str, Any] = {"older_than": older_than, "max_bytes": max_bytes, "query": text}
    given |= {"params": params(pairs), "now": now}

    def erase(store: Store, **more: Any) -> Receipt:
        return store.expire(**given, **more)

    if dry_run or (text is not None and not is_sure):
        _check_sure(app, dry_run=dry_run, erase=erase, as_json=as_json)
    if dry_run:
        return Exit.DONE
    return _erase(app, erase, wait_s=wait_s, as_json=as_json, no_embed=no_embed)


def _check_sure(app: App, /, *, dry_run: bool, erase: Erase, as_json: bool) -> None:
    """Say what would go, and unless that is all, ask. Nobody is asked in a pipe: that is refused."""
    if not dry_run and not is_terminal(sys.stdin):
        raise click.UsageError("nobody is there to ask: say --yes, or --dry-run to see what would go")
    with app.open("r") as store:
        receipt = erase(store, dry_run=True)
    if dry_run and as_json:
        click.echo(dumps(receipt.to_json()))
        return
    for line in preview_lines(receipt):
        click.echo(line, err=not dry_run)
    if not dry_run:
        click.confirm("Erase them for good?", abort=True, err=True)


def _erase(app: App, /, erase: Erase, *, wait_s: float, as_json: bool, no_embed: bool) -> int:
    # To write, a store is made where there is none; one that is misspelt has nothing to erase.
    app.open("r").close()
    with app.open("rw") as store, progress_bar(app) as progress:
        receipt = erase(store, wait_s=wait_s)
        if as_json:
            click.echo(dumps(receipt.to_json()))
        for line in receipt_lines(receipt):
            app.note(line)
        if receipt.vectors and not no_embed:
            _embed(app, store, progress)
    return Exit.FAILED if receipt.damaged else Exit.DONE


def _embed(app: App, /, store: Store, progress: Any) -> None:
    from treering.storage.errors import ModelError

    try:
        store.embed(progress=progress)
    except ModelError as error:
        # What was asked for is done.
        app.note(f"warning: vectors wait for `treering embed`: {error}")


def preview_lines(receipt: Receipt) -> list[str]:
    """Give what a dry run says."""
    lines = [_counted(receipt, "would go")]
    lines += [f"from {_moment(receipt.first_ns)} to {_moment(receipt.last_ns)}"] if receipt.events else []
    for example in receipt.examples:
        text = visible(dumps(example))
        lines.append(f"  {text[:_EXAMPLE_CHARACTERS]}{'…' if len(text) > _EXAMPLE_CHARACTERS else ''}")
    return lines + _hints(receipt)


def receipt_lines(receipt: Receipt) -> list[str]:
    """Give what stands at the end of an erasure."""
    lines = [_counted(receipt, "gone"), *_hints(receipt)]
    if receipt.vectors:
        lines.append(f"to be made again of what is left: {_plural(receipt.vectors, 'vector')}")
    lines += [f"error: {visible(text)}" for text in receipt.damaged]
    if receipt.waiting:
        lines.append(
            f"readers still hold {_plural(receipt.waiting, 'old file')}, to go when they are done "
            "(--wait SECONDS waits for that)"
        )
    if receipt.id:
        erased = "erased from every file" if receipt.erased else "not erased from every file yet"
        lines.append(f"receipt {receipt.id}, version {receipt.version}: {erased}")
    return lines


def _counted(receipt: Receipt, verb: str) -> str:
    what = [_plural(receipt.events, "event")]
    what += [_plural(receipt.rejects, "rejected record")] if receipt.rejects else []
    n_segments = receipt.segments_dropped + len(receipt.rewritten)
    return f"{' and '.join(what)} in {_plural(n_segments, 'segment')} {verb}"


def _plural(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _hints(receipt: Receipt) -> list[str]:
    undated = f"{_plural(receipt.undated, 'file')} of rejects kept: nobody knows when they were written"
    return [f"hint: {hint}" for hint in receipt.hints] + ([undated] if receipt.undated else [])


def _moment(ns: int | None) -> str:
    from .look import moment

    return "" if ns is None else moment(ns)
