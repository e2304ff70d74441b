"""Files of rejects that no list names any more, described by what they hold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from .blame import past_odd
from .files import Files, crc32c, names_below
from .findings import Loss
from .layout import Layout
from .rejects import RejectFile, count_rejects
from .stored_file import StoredFile


@dataclass(slots=True)
class StrayRejects:
    """What was found. taken: files that count, by name. aside: paths that do not, and why. losses: what is lost."""

    directory: str
    taken: dict[str, RejectFile] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)

    def lose(self, name: str, n: int | None, what: str) -> None:
        """Say that a file does not count."""
        path = f"{self.directory}/{name}"
        told = "rejected records" if n is None else f"{n:,} rejected records"
        self.aside[path] = what
        self.losses.append(Loss("rejects", path, n, f"{told}: {what}"))

    def hide(self, what: str) -> None:
        """Put aside all that was found, for a reason that is told."""
        for name, one in self.taken.items():
            self.lose(name, one.n, what)
        self.taken = {}


def find_rejects(files: Files, layout: Layout, known: Collection[str]) -> StrayRejects:
    """Find the files below `rejects/` that are not known."""
    found = StrayRejects(layout.rejects.name)
    for name in names_below(files, layout.rejects):
        if name in known:
            continue
        one = _described(files, layout, name)
        if one is None:
            found.lose(name, None, "they cannot be read")
        else:
            found.taken[name] = one
    return found


def _described(files: Files, layout: Layout, name: str) -> RejectFile | None:
    """Describe a file by itself; None where it cannot be read. No list has its checksum any more."""
    with past_odd():
        data = files.map(layout.rejects / name)
        return RejectFile(StoredFile(name, data.size, crc32c(data)), count_rejects(data))
    return None
