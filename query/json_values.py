"""Names, values and containers of the JSON form, each checked where it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from treering.storage.errors import QueryError

from .ast import Name, Param, Value
from .literals import check_scalar, make_name, read_backticks

Json = Any
"""What a JSON reader gives."""


def read_name(text: Json) -> Name:
    """Give the name that a JSON key or string spells; backticks take it exactly."""
    text = as_text(text, "a field name")
    if len(text) > 1 and text.startswith("`") and text.endswith("`"):
        return read_backticks(text)
    return make_name(text)


def as_value(obj: Json) -> Value:
    """Give a literal, or the parameter `{"param": name}`."""
    if isinstance(obj, Mapping):
        check_keys(obj, {"param"}, "a value")
        return Param(as_text(obj.get("param"), '"param"'))
    return check_scalar(obj)


def as_number(obj: Json, what: str) -> Value:
    """Give a number or a parameter."""
    value = as_value(obj)
    if isinstance(value, (str, bool)):
        raise QueryError(f"{what} takes a number, not {value!r}")
    return value


def as_text_or_param(obj: Json, what: str) -> Value:
    """Give a text or a parameter."""
    return as_value(obj) if isinstance(obj, Mapping) else as_text(obj, what)


def as_text(obj: Json, what: str) -> str:
    """Give a text."""
    if not isinstance(obj, str):
        raise QueryError(f"{what} takes a text, not {_kind(obj)}")
    return obj


def as_flag(obj: Json, what: str) -> bool:
    """Give true or false."""
    if not isinstance(obj, bool):
        raise QueryError(f"{what} takes true or false, not {_kind(obj)}")
    return obj


def as_list(obj: Json, what: str) -> list[Json]:
    """Give a list."""
    if isinstance(obj, (list, tuple)):
        return list(obj)
    raise QueryError(f"{what} takes a list, not {_kind(obj)}")


def as_object(obj: Json, what: str) -> Mapping[str, Json]:
    """Give an object."""
    if not isinstance(obj, Mapping):
        raise QueryError(f"{what} takes an object, not {_kind(obj)}")
    return obj


def _kind(obj: Json) -> str:
    return "null" if obj is None else type(obj).__name__


def check_keys(obj: Mapping[str, Json], known: Iterable[str], what: str) -> None:
    """Refuse keys that are not known."""
    for key in obj:
        if key not in known:
            raise QueryError(f'unknown key "{key}" of {what}: there are {", ".join(sorted(known))}')
