"""Which events and rejects a deletion takes: a condition of the query language, evaluated exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.indexer.attention import INDEX
from treering.indexer.signals import SIGNALS
from treering.storage.deletion import Derived
from treering.storage.errors import QueryError
from treering.storage.part import FieldStats, Part
from treering.storage.rejects import Reject

from . import ast
from .bound import BAnd, BCond, BExists, BNot, BOr, BoundQuery, BSimilar
from .columns_used import physical_columns, uses_meaning
from .names import Catalog, fold_name
from .prune import candidates
from .rows import RowIds
from .scan import check_conditions
from .table_part import TablePart
from .walk import names_of

FROM_VECTORS = (
    Derived("attention_source", INDEX, ("attention_collapse", "attention_entropy_decay", "attention_source")),
)
"""Signals that are made of the vector of an event's text, and so perhaps of another event's words."""

REJECT_KINDS = {"source": "text", "source_line": "int", "source_offset": "int", "body": "text"}
"""Fields of a rejected record; its bytes are the body."""

Bind = Callable[[ast.Query, Catalog], BoundQuery]

_ORDER = "a deletion takes every event that matches: leave out {}"
_CLAUSES: tuple[tuple[str, frozenset[str], str], ...] = (
    ("then", frozenset({"_PIPE"}), "a deletion has one stage: write the conditions without `|`"),
    (
        "stats",
        frozenset({"COUNT", "FUNCTION"}),
        "a deletion takes events, not statistics: give a condition alone",
    ),
    ("top", frozenset({"TOP", "BOTTOM", "TOP_K", "TOP_K_"}), _ORDER.format("`top` or `bottom`")),
    ("near", frozenset({"TILDE"}), 'a ranked `~` has no end: give it a threshold, `~ "text" > 0.6`'),
    ("like", frozenset({"LIKE"}), _ORDER.format("`like`, which only ranks")),
    ("sort", frozenset({"SORT"}), _ORDER.format("`sort by`")),
    ("limit", frozenset({"LIMIT"}), _ORDER.format("`limit`")),
    ("unlimited", frozenset({"LIMIT"}), _ORDER.format("`limit`")),
    ("offset", frozenset({"OFFSET"}), _ORDER.format("`offset`")),
    ("fields", frozenset({"FIELDS"}), "a deletion takes whole events: leave out `fields`"),
)
"""Part of a query that a deletion cannot have, the tokens that spell it, and what to say."""


def check_deletes(query: ast.Query, text: str | None) -> None:
    """Raise QueryError unless a query is a condition and nothing else. text: as written, for the caret."""
    nothing = ast.Query()
    for name, kinds, message in _CLAUSES:
        if getattr(query, name) != getattr(nothing, name):
            raise QueryError(message, text=text, position=None if text is None else _last(text, kinds))
    if query.where is None and query.time is None:
        raise QueryError("nothing says which events: give a condition; `ts exists` is every event")


def query_text(query: Any, parsed: ast.Query) -> str:
    """Give a query as it stands in the audit record: the text as written, else its JSON form."""
    if isinstance(query, str):
        return query
    from .cells import dumps
    from .json_form import to_json

    return dumps(to_json(parsed))


class Matching:
    """Takes what matches a condition. hints: what binding it had to say."""

    def __init__(self, query: ast.Query, bind: Bind) -> None:
        self._query = query
        self._bind = bind
        self._bound = BoundQuery()

    @property
    def hints(self) -> Sequence[str]:
        """What binding the condition had to say."""
        return self._bound.hints

    def rows(self, parts: Sequence[Part]) -> list[RowIds]:
        """Give the rows of each part that match.

        Raises QueryError, also where texts in reach still wait for the vectors that the condition asks for.
        """
        self._bound = bound = self._bind(self._query, _catalog(parts))
        if bound.where is not None:
            check_conditions(bound.where)
        _check_complete(parts, self._query, bound)
        return [_rows(part, bound) for part in parts]

    def rejects(self, rejects: Sequence[Reject]) -> npt.NDArray[np.bool_]:
        """Give which rejects match: rows with a source, a place and a body, that lack every other field."""
        bound, taken = self._bound, np.zeros(len(rejects), np.bool_)
        has_time = bound.start_ns is not None or bound.end_ns is not None
        if rejects and bound.where is not None and not has_time:
            taken[_rows(_reject_part(rejects), replace(bound, where=_without_meaning(bound.where)))] = True
        return taken


def _rows(part: Part, bound: BoundQuery) -> RowIds:
    one = candidates(part, bound.where, bound.start_ns, bound.end_ns)
    return np.empty(0, np.intp) if one is None else one.scanned(bound.where).row_ids()


def _catalog(parts: Sequence[Part]) -> Catalog:
    """Give what is stored, with the body that rejects have, whether or not an event has one."""
    known = Catalog.of(parts)
    if "body" in known.fields:
        return known
    fields: Mapping[str, FieldStats] = {**known.fields, "body": FieldStats(1)}
    return Catalog(fields, known.n_rows, known.t_min, known.t_max)


def _check_complete(parts: Sequence[Part], query: ast.Query, bound: BoundQuery) -> None:
    late = {signal.name for signal in SIGNALS.values() if signal.needs_vectors}
    # A signal of which no event has a value yet has no column either.
    asks_signals = not late.isdisjoint({*physical_columns(bound), *map(fold_name, names_of(query))})
    held = [part for part in parts if part.n_rows]
    pending = sum(part.pending for part in held) if uses_meaning(bound) or asks_signals else 0
    if pending or (asks_signals and any(part.signals_pending for part in held)):
        raise QueryError(
            f"{pending:,} texts have no vector yet, and the condition asks for what comes of them: a deletion is "
            "exact, so run `treering embed` first"
        )


def _reject_part(rejects: Sequence[Reject]) -> TablePart:
    table = pa.table(
        {
            "source": pa.array([_shown(one.source) for one in rejects], pa.string()),
            "source_line": pa.array([one.line for one in rejects], pa.int64()),
            "source_offset": pa.array([one.offset for one in rejects], pa.int64()),
            "body": pa.array([one.record.decode("utf-8", "replace") for one in rejects], pa.string()),
        }
    )
    return TablePart(table, REJECT_KINDS)


def _shown(name: str) -> str:
    # The name of a file that is no UTF-8 holds lone surrogates.
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _without_meaning(cond: BCond) -> BCond:
    """Give a condition in which no comparison of meaning is true: a reject has no vector."""
    match cond:
        case BSimilar():
            return BExists(())
        case BNot():
            return BNot(_without_meaning(cond.item))
        case BAnd():
            return BAnd(tuple(map(_without_meaning, cond.items)))
        case BOr():
            return BOr(tuple(map(_without_meaning, cond.items)))
    return cond


def _last(text: str, kinds: frozenset[str]) -> int | None:
    """Give where the last token of these kinds stands: an earlier one may be a field of that name."""
    from .parse import grammar

    tokens = grammar().parse_interactive(text).iter_parse()
    places = [token.start_pos for token in tokens if token.type in kinds]
    return places[-1] if places else None
