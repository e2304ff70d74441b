"""The three spellings of a query (text, JSON form, builder) as the abstract query that they mean alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treering.storage.errors import QueryError

from . import ast


def to_ast(query: Any) -> ast.Query:
    """Give the abstract query of text, JSON form or builder. Raises QueryError."""
    if isinstance(query, ast.Query):
        return query
    if isinstance(query, str):
        from .parse import parse

        return parse(query)
    if isinstance(query, Mapping):
        from .json_form import from_json

        return from_json(query)
    built = getattr(query, "query", None)
    if isinstance(built, ast.Query):
        return built
    raise QueryError(
        f"cannot run {type(query).__name__} as a query: give text, a dict (JSON form) or treering.where(...)"
    )
