"""Documents of older formats as the current one has them; nothing else knows that there were others.

A store is read in whatever format it was written. The first commit writes its root, and from then on every
list that changes, in the current format; an older treering refuses the store from that commit on.
"""

from __future__ import annotations

from collections.abc import Callable

from .stored_file import Json

FORMAT = 2
"""Version of what is written. Of older ones those down to OLDEST are read; newer ones are refused."""

OLDEST = 1
"""Oldest version that is read."""


def upgraded(kind: str, version: int, body: Json) -> Json:
    """Give the body of a document of format `version` as the current format has it."""
    if version < 2:
        return _TO_2.get(kind, dict)(body)
    return body


def _root_to_2(body: Json) -> Json:
    # A store of format 1 gets its id at the first commit.
    return {**body, "store_id": "", "written": {}, "audit": [], "audit_head": ""}


def _segments_to_2(body: Json) -> Json:
    entries = {key: {**entry, "partitions": {}} for key, entry in body["entries"].items()}
    return {"names": [], "entries": entries}


def _ledger_to_2(body: Json) -> Json:
    return {"entries": {key: position_to_2(entry) for key, entry in body["entries"].items()}}


def _rejects_to_2(body: Json) -> Json:
    return {"entries": {key: {**entry, "written_ns": None} for key, entry in body["entries"].items()}}


def position_to_2(body: Json) -> Json:
    """Give a position of format 1 as format 2 has it, also one from a frame of the log."""
    return {**body, "marks": [], "run": [0, 0, 0], "first_line": "", "unfinished": 0}


_TO_2: dict[str, Callable[[Json], Json]] = {
    "manifest": _root_to_2,
    "segments": _segments_to_2,
    "ledger": _ledger_to_2,
    "rejects": _rejects_to_2,
}
