"""`treering completion SHELL`: the script that makes Tab work."""

from __future__ import annotations

import click

from .exits import Exit
from .options import CONTEXT, Verb

SHELLS = ("bash", "zsh", "fish")
"""Shells that click can complete in."""


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        'eval "$(treering completion bash)"',
        "treering completion fish > ~/.config/fish/completions/treering.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    from .main import cli

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    click.echo(script(cli, {}, "treering", "_TREERING_COMPLETE").source())
    return Exit.DONE
