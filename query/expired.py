"""Answers while the store goes on: a reader of a bucket holds nothing, so that what it reads may expire."""

from __future__ import annotations

from collections.abc import Callable

from treering.storage.remote import GoneError

from .result import Result


def followed(ask: Callable[[], Result]) -> Result:
    """Give the answer of `ask`; where a file of its version is gone, that of the newest version, which it says.

    Raises DamageError where the newest version lacks a file too.
    """
    try:
        return ask()
    except GoneError:
        result = ask()
        hint = "the version that was being read has expired; this is the answer of the newest one"
        result.meta["hints"] = [*result.meta.get("hints", ()), hint]
        return result
