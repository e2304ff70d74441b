"""The question before what cannot be taken back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from .app import is_terminal


def confirm(show: Callable[[], Iterable[str]], question: str, *, instead: str) -> None:
    """Show on stderr what is at stake, and ask; in a pipe nobody can answer, and that is refused.

    show: gives the lines, once it is clear that somebody reads them. instead: what to do where nobody is there,
    beside `--yes`. Raises click.UsageError, and click.Abort for any other answer than yes.
    """
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"nobody is there to ask: say --yes, or {instead}")
    for line in show():
        click.echo(line, err=True)
    click.confirm(question, abort=True, err=True)
