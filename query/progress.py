"""How far a long call is: one kind of step for the caller, of what the rooms below count in their own ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """How far a long call is; done and total (None: not known) in `unit`.

    stage: `read`, `embed`, `fold`, `copy` or `check`.
    """

    stage: str
    done: int
    total: int | None
    unit: str


Progress = Callable[[Step], None]


def counting(progress: Progress | None, stage: str, unit: str) -> Callable[[int, int | None], None] | None:
    """Give the callback of a stage that counts `done, total`; None where nobody asks."""
    if progress is None:
        return None
    return lambda done, total: progress(Step(stage, done, total, unit))


def reading(progress: Progress | None) -> Callable[[Any], None] | None:
    """Give the callback of a load, which counts the bytes of one source after another."""
    if progress is None:
        return None
    return lambda at: progress(Step("read", at.taken_bytes, at.size_bytes, "bytes"))


def checking(progress: Progress | None) -> Callable[[int, int, str], None] | None:
    """Give the callback of a check, which names the unit itself: files while it looks, segments while it mends."""
    if progress is None:
        return None
    return lambda done, total, unit: progress(Step("check", done, total, unit))
