"""The moving bar on stderr while logs are read and embedded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .app import App

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

STAGES = {"read": "reading", "embed": "embedding", "fold": "ordering", "copy": "copying", "check": "checking"}
"""What each stage is called on screen."""


@contextmanager
def progress_bar(app: App) -> Iterator[Callable[[Any], None] | None]:
    """Give a callback for `progress=`, or None where nobody looks."""
    if not app.wants_progress():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, no_color=not app.wants_color(sys.stderr))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bars(bar)


class _Bars:
    """One bar a stage, made when the stage first reports."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: Any) -> None:
        """Move the bar of `event.stage` to `event.done` of `event.total` (None: not known)."""
        if event.stage not in self._tasks:
            name = STAGES.get(event.stage, event.stage)
            self._tasks[event.stage] = self._bar.add_task(name, total=event.total, unit=event.unit)
        # A packed source gives more bytes than its file has: better no end than a wrong one.
        total = event.total if event.total and event.done <= event.total else None
        self._bar.update(self._tasks[event.stage], completed=event.done, total=total)
