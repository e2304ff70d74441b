"""What all verbs of one run share: the global flags, the settings, and the way to the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from .settings import Setting, resolve

if TYPE_CHECKING:
    from treering.query.store import Store


class App:
    """One run of the command line.

    flags: global and verb flags that are settings too, as given (None: not given). debug: show tracebacks.
    quiet: no progress, no summary, no hints; errors are still said. wait_s: how long to wait for another writer.
    """

    def __init__(self) -> None:
        self.flags: dict[str, Any] = {}
        self.debug = False
        self.quiet = False
        self.wait_s = 0.0

    def settings(self) -> Mapping[str, Setting]:
        """Give every setting; flags count from the moment they were parsed."""
        return resolve(self.flags)

    def setting(self, name: str) -> Any:
        """Give the value of one setting."""
        return self.settings()[name].value

    def open(self, mode: Literal["r", "rw"]) -> Store:
        """Open the store; `rw` makes it when it is not there."""
        from treering.query.opening import open_store

        settings = self.settings()
        return open_store(settings["store"].value, mode, model=settings["model"].value, wait_s=self.wait_s)

    def open_present(self) -> Store:
        """Open a store to change what it holds; one that is misspelt is not made for that."""
        self.open("r").close()
        return self.open("rw")

    def wants_color(self, stream: TextIO) -> bool:
        """Whether text on `stream` is coloured."""
        choice = self.setting("color")
        if choice != "auto":
            return bool(choice == "always")
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
            return True
        return is_terminal(stream)

    def wants_progress(self) -> bool:
        """Whether a moving bar may be drawn on stderr."""
        return not self.quiet and is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"

    def note(self, text: str) -> None:
        """Say something on stderr beside the answer, unless `--quiet`."""
        if not self.quiet:
            click.echo(text, err=True, color=False)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads `stream` (None: the stream was closed before the start)."""
    return stream is not None and stream.isatty()


pass_app = click.make_pass_decorator(App)
"""Give a verb the App as its first argument."""
