"""What a query means, event by event in plain Python: slow, obvious, without pruning, columns or codes."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.query import bound as b
from treering.storage.schema import split_physical

OPS = {"=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}

Event = Any
"""An object with ts, seq, values by physical column, and texts as (field, vector index or None)."""


class Naive:
    """Evaluates conditions and meanings over events that share one list of vectors."""

    def __init__(self, events: Sequence[Event], vectors: npt.NDArray[np.float32]) -> None:
        self.events = sorted(events, key=lambda e: (e.ts, e.seq))
        self._vectors = vectors.astype(np.float64)

    def matching(self, query: b.BoundQuery) -> list[Event]:
        """Events that match, by (ts, seq)."""
        return [
            e
            for e in self.events
            if (query.start_ns is None or e.ts >= query.start_ns)
            and (query.end_ns is None or e.ts < query.end_ns)
            and (query.left_out is None or e.seq != query.left_out)
            and (query.where is None or self.holds(query.where, e))
        ]

    def rows(self, query: b.BoundQuery) -> list[Event]:
        """The answer of one stage without statistics."""
        found = self.matching(query)
        order = query.order
        if query.near is not None:
            scored = [(self.score(query.near, e), e) for e in found]
            ranked = sorted(
                ((s, e) for s, e in scored if s is not None), key=lambda p: (-p[0], p[1].ts, p[1].seq)
            )
            found = [e for _, e in ranked]
            if order and order[0].column is not None:
                found = found[: query.near_k]
            else:
                order = ()
        for sort in reversed(order):
            column = sort.column
            assert column is not None
            if sort is order[-1]:
                found.sort(key=lambda e: (e.ts, e.seq))
            found = rank(found, column, descending=sort.descending)
        if query.drop_missing and order and order[0].column is not None:
            found = with_rank(found, order[0].column)
        stop = None if query.limit is None else query.offset + query.limit
        return found[query.offset : stop]

    def score(self, probe: b.Probe, event: Event) -> float | None:
        """Best cosine of the event's texts, None without a vector."""
        query = probe.vector.astype(np.float64)
        scores = [
            float(np.float32(math.fsum(self._vectors[v] * query)))
            for field, v in event.texts
            if v is not None and (probe.fields is None or field in probe.fields)
        ]
        return max(scores, default=None)

    def holds(self, cond: b.BCond, event: Event) -> bool:
        """Two-valued truth of a condition."""
        match cond:
            case b.BNot():
                return not self.holds(cond.item, event)
            case b.BAnd():
                return all(self.holds(c, event) for c in cond.items)
            case b.BOr():
                return any(self.holds(c, event) for c in cond.items)
            case b.BCompare():
                return any(compare(v, cond.op, cond.value) for v in candidates(cond.column, event))
            case b.BIn():
                return any(compare(v, "=", x) for x in cond.values for v in candidates(cond.column, event))
            case b.BExists():
                return any(value_of(event, name) is not None for name in cond.columns)
            case b.BPhrase():
                texts = [t for name in cond.columns for t in flat(value_of(event, name))]
                return any(isinstance(t, str) and cond.text.casefold() in t.casefold() for t in texts)
            case b.BHas():
                values = candidates(cond.column, event)
                return any(cond.text in v if isinstance(v, (str, list)) else False for v in values)
            case b.BMatches():
                texts = [t for v in candidates(cond.column, event) for t in flat(v)]
                return any(isinstance(t, str) and re.search(cond.pattern, t) is not None for t in texts)
            case b.BSimilar():
                score = self.score(cond.probe, event)
                return score is not None and bool(OPS[cond.op](score, cond.threshold))


def value_of(event: Event, name: str) -> Any:
    if name == "ts":
        return event.ts
    return event.seq if name == "seq" else event.values.get(name)


def flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def candidates(column: b.Column, event: Event) -> list[Any]:
    """Values of the first path that has any; a path of several types may have several."""
    paths = list(dict.fromkeys(split_physical(name)[0] for name in column.physical))
    for path in paths:
        names = [name for name in column.physical if split_physical(name)[0] == path]
        values = [value_of(event, name) for name in names]
        values = [
            {} if name.endswith("#o") else v for name, v in zip(names, values, strict=True) if v is not None
        ]
        if values:
            return values
    return []


def compare(value: Any, op: str, literal: Any) -> bool:
    if isinstance(value, list):
        return any(compare(v, op, literal) for v in value if v is not None)
    if isinstance(value, bool) or isinstance(literal, bool):
        return op == "=" and isinstance(value, bool) and isinstance(literal, bool) and value == literal
    if isinstance(value, str) != isinstance(literal, str) or isinstance(value, dict):
        return False
    return bool(OPS[op](value, literal))


def first_value(column: b.Column, event: Event) -> Any:
    """The value that speaks first; a list of several types is put together again."""
    for name in column.physical:
        value = value_of(event, name)
        path, code = split_physical(name)
        if value is not None and code.startswith("["):
            pieces = [value_of(event, n) for n in column.physical if n.startswith(f"{path}#[")]
            held = [piece for piece in pieces if piece is not None]
            return [next((v for v in items if v is not None), None) for items in zip(*held, strict=True)]
        if value is not None:
            return {} if code == "o" else value
    return None


def rank_class(value: Any) -> int:
    """Numbers, then bools, then texts; NaN, lists and missing are last."""
    if isinstance(value, bool):
        return 1
    if isinstance(value, (int, float)):
        return 0 if value == value else 3
    return 2 if isinstance(value, str) else 3


def rank(events: list[Event], column: b.Column, *, descending: bool) -> list[Event]:
    """Stable sort by one key."""
    out: list[Event] = []
    for kind in range(4):
        mine = [e for e in events if rank_class(first_value(column, e)) == kind]
        if kind < 3:
            mine.sort(key=lambda e: first_value(column, e), reverse=descending)
            if descending:  # reverse=True keeps equal ones in order already
                pass
        out.extend(mine)
    return out


def with_rank(events: list[Event], column: b.Column) -> list[Event]:
    has_numbers = any(
        isinstance(first_value(column, e), (int, float)) and not isinstance(first_value(column, e), bool)
        for e in events
    )
    wanted = (0,) if has_numbers else (0, 1, 2)
    return [e for e in events if rank_class(first_value(column, e)) in wanted]
