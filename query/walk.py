"""Questions about an abstract query that need no store: which fields it names, whether it asks for meaning."""

from __future__ import annotations

from collections.abc import Iterator

from .ast import And, Compare, Cond, Exists, Has, In, Matches, Name, Not, Or, Phrase, Query, Similar


def names_of(query: Query) -> set[str]:
    """Every field name that the query and its later stages mention, as written."""
    return {name.text for name in _query_names(query)}


def uses_meaning(query: Query) -> bool:
    """Whether any stage compares with a text or an event by meaning."""
    here = query.near is not None or query.like is not None or _has_similar(query.where)
    return here or (query.then is not None and uses_meaning(query.then))


def has_phrase(cond: Cond | None) -> bool:
    """Whether a condition searches for a bare phrase."""
    match cond:
        case Phrase():
            return True
        case Not():
            return has_phrase(cond.item)
        case And() | Or():
            return any(has_phrase(item) for item in cond.items)
    return False


def _query_names(query: Query) -> Iterator[Name]:
    yield from _cond_names(query.where)
    if query.near is not None and query.near.field is not None:
        yield query.near.field
    if query.like is not None:
        yield query.like.field
    if query.rank is not None:
        yield query.rank.field
    yield from (key.field for key in query.sort)
    yield from (stat.field for stat in query.stats if stat.field is not None)
    yield from query.by
    yield from (output.field for output in query.fields)
    if query.then is not None:
        yield from _query_names(query.then)


def _cond_names(cond: Cond | None) -> Iterator[Name]:
    match cond:
        case Compare() | In() | Exists() | Has() | Matches():
            yield cond.field
        case Similar():
            if cond.field is not None:
                yield cond.field
        case Not():
            yield from _cond_names(cond.item)
        case And() | Or():
            for item in cond.items:
                yield from _cond_names(item)


def _has_similar(cond: Cond | None) -> bool:
    match cond:
        case Similar():
            return True
        case Not():
            return _has_similar(cond.item)
        case And() | Or():
            return any(_has_similar(item) for item in cond.items)
    return False
