"""Lists of several types: kept as one list for each type, null at the places of the others, and shown as they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from treering.indexer.whole_numbers import is_whole, whole_number
from treering.storage.schema import split_physical

from .compare import INT64_MAX, INT64_MIN
from .pieces import MARK

KIND = "list"
"""Kind of a list of several types (`list of` another kind is one of a single type); its values are JSON."""

OF_ONE = "list of "
"""What the kind of a list of one type begins with."""


def list_path(physical: str) -> str | None:
    """Path of a column that may hold some elements of a list, the others being in its neighbours; else None."""
    path, code = split_physical(physical)
    if code.startswith("["):
        return path
    name, mark, kind = physical.rpartition(MARK)
    return name if mark and kind.startswith(OF_ONE) else None


def whole_list(pieces: Sequence[list[Any] | None]) -> list[Any]:
    """The list that was kept as these; None: it has no elements of that type."""
    held = [piece for piece in pieces if piece is not None]
    return [next((item for item in items if item is not None), None) for items in zip(*held, strict=True)]


def pieces_of_list(items: Sequence[Any]) -> dict[str, list[Any]]:
    """A list as it is kept: by kind, null at the places of the other elements."""
    whole = [item for item in items if is_whole(item)]
    is_small = all(INT64_MIN <= item <= INT64_MAX for item in whole)
    kinds = [None if item is None else _kind(item, is_small=is_small) for item in items]
    return {
        OF_ONE + kind: [item if of == kind else None for item, of in zip(items, kinds, strict=True)]
        for kind in dict.fromkeys(kinds)
        if kind is not None
    }


def read_list(text: str) -> list[Any]:
    """Read a value of `KIND`."""
    items: list[Any] = json.loads(text, parse_int=whole_number)
    return items


def _kind(item: Any, *, is_small: bool) -> str:
    if isinstance(item, bool):
        return "bool"
    if isinstance(item, float):
        return "float"
    if isinstance(item, str):
        return "text"
    return "int" if is_small else "decimal"
