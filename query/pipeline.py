"""Stages in their one canonical shape: what a stage may hold, and which pipes are mere decoration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from treering.storage.errors import QueryError

from .ast import Near, Query, Similar
from .logic import all_of, check_depth, conjuncts

MAX_STAGES = 20
"""How many stages a query may have."""

Positions = Mapping[str, int]
"""Where each clause of a stage stands in the text, for carets; empty for forms without text."""


def pipeline(drafts: Iterable[tuple[Query, Positions]]) -> Query:
    """Give one query of stages as written, from left to right.

    A stage with statistics that also orders, cuts or selects becomes two: those words mean the table of
    statistics. A pipe that changes nothing disappears. `exact` and `tz` hold for the whole query and stand in
    its first stage.
    Raises QueryError where a stage contradicts itself.
    """
    stages: list[Query] = []
    exact, tz, top_at = False, None, None
    for draft, positions in drafts:
        top_at = positions.get("top", top_at)
        _check(draft, positions)
        exact = exact or draft.exact
        tz = _one_zone(tz, draft.tz, positions)
        bare = replace(draft, exact=False, tz=None) if draft.exact or draft.tz else draft
        for stage in _split(bare):
            _push(stages, stage)
    if len(stages) > MAX_STAGES:
        raise QueryError(f"{len(stages)} stages, {MAX_STAGES} are allowed: ask in two queries")
    if len(stages) == 1 and not exact and tz is None:
        return _ranked_by_threshold(stages[0], top_at)
    first, *rest = [_ranked_by_threshold(stage, top_at) for stage in stages] or [Query()]
    return replace(first, exact=exact, tz=tz, then=_chain(rest))


def _chain(stages: list[Query]) -> Query | None:
    then: Query | None = None
    for stage in reversed(stages):
        then = replace(stage, then=then)
    return then


def _one_zone(tz: str | None, other: str | None, positions: Positions) -> str | None:
    if tz is not None and other is not None and tz != other:
        raise QueryError("tz is given twice: it holds for the whole query", position=positions.get("tz"))
    return tz if tz is not None else other


def _check(stage: Query, at: Positions) -> None:
    """Refuse what one stage cannot mean."""
    check_depth(stage.where)
    if stage.near is not None and stage.like is not None:
        raise QueryError("`~` and `like` both rank by meaning: use one", position=at.get("like"))
    if stage.stats and (stage.near is not None or stage.like is not None):
        raise QueryError(
            'a ranked `~` has no end to count: give it a threshold (`~ "text" > 0.6`), '
            'or pick rows before a pipe (`~ "text" top 50 | count`)',
            position=at.get("near", at.get("like")),
        )
    if (stage.by or stage.every) and not stage.stats:
        raise QueryError("`by` and `every` need a statistic, such as count", position=at.get("stats"))
    if stage.top is not None and (stage.limit is not None or stage.unlimited):
        raise QueryError(
            "`top N` is a limit already: leave one out, or put a pipe between", position=at.get("limit")
        )
    if stage.top is not None and stage.sort:
        raise QueryError(
            "`top N` orders already: put a pipe between, `top N by f | sort by g`", position=at.get("sort")
        )
    names = [stat.name for stat in stage.stats]
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"{name} is there twice: name one with `as`", position=at.get("stats"))


def _split(stage: Query) -> list[Query]:
    """Statistics first, then what orders, cuts or selects their table."""
    if not stage.stats:
        return [stage]
    ordered = Query(
        top=stage.top,
        rank=stage.rank,
        sort=stage.sort,
        limit=stage.limit,
        unlimited=stage.unlimited,
        offset=stage.offset,
        fields=stage.fields,
    )
    if ordered == Query():
        return [stage]
    counted = replace(stage, top=None, rank=None, sort=(), limit=None, unlimited=False, offset=0, fields=())
    return [counted, ordered]


def _push(stages: list[Query], stage: Query) -> None:
    if stages and (merged := _merge(stages[-1], stage)) is not None:
        stages[-1] = merged
    else:
        stages.append(stage)


def _merge(before: Query, after: Query) -> Query | None:
    """Give both as one stage when that means the same, else None."""
    if _only_filters(before):
        return _with_filter(before, after)
    if _only_sorts(before) and not (before.time and after.time):
        replaced = (
            after.sort or after.rank or after.near or after.like or after.stats or after.top is not None
        )
        return _with_filter(replace(before, sort=()), after if replaced else replace(after, sort=before.sort))
    if after == Query():
        return before
    if after == Query(fields=after.fields) and not before.stats and not before.fields:
        return replace(before, fields=after.fields)
    if _only_means(before) and after == Query(
        top=after.top, limit=after.limit, unlimited=after.unlimited, offset=after.offset, fields=after.fields
    ):
        return replace(
            before,
            top=after.top,
            limit=after.limit,
            unlimited=after.unlimited,
            offset=after.offset,
            fields=after.fields,
        )
    return None


def _only_filters(stage: Query) -> bool:
    return stage == Query(where=stage.where, time=stage.time)


def _only_sorts(stage: Query) -> bool:
    return stage == Query(where=stage.where, time=stage.time, sort=stage.sort)


def _only_means(stage: Query) -> bool:
    """Ranks by meaning and says no number: the number behind a pipe is meant for it."""
    return stage == Query(where=stage.where, time=stage.time, near=stage.near, like=stage.like)


def _with_filter(before: Query, after: Query) -> Query | None:
    if before.time is not None and after.time is not None:
        return None
    parts = [c for c in (before.where, after.where) if c is not None]
    where = all_of(parts) if parts else None
    return replace(after, where=where, time=before.time or after.time)


def _ranked_by_threshold(stage: Query, position: int | None) -> Query:
    """`~ "text" > 0.6 top 5`: the five best by that meaning. `top N` alone needs something that ranks."""
    if stage.top is None or stage.rank is not None or stage.near is not None or stage.like is not None:
        return stage
    meanings = [c for c in conjuncts(stage.where) if isinstance(c, Similar) and c.op in (">", ">=")]
    if len(meanings) != 1:
        raise QueryError('`top N` needs `by FIELD`, or a meaning that ranks (`~ "text"`)', position=position)
    return replace(stage, near=Near(meanings[0].text, meanings[0].field))
