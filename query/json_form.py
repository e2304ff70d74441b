"""The JSON form of a query: the same abstract query, as objects that programs can build."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from treering.indexer.whole_numbers import whole_number
from treering.storage.errors import QueryError

from .ast import Between, Last, Like, Near, On, Output, Query, Similar, Sort, Stat, Time, Value
from .json_filter import read_condition, read_meaning
from .json_values import (
    Json,
    as_flag,
    as_list,
    as_number,
    as_object,
    as_text,
    as_value,
    check_keys,
    read_name,
)
from .json_write import to_json
from .literals import check_count
from .logic import MAX_DEPTH, all_of
from .pipeline import pipeline

__all__ = ["from_json", "read_json", "read_stat", "to_json"]

_KEYS = frozenset(
    "filter time near like top bottom sort limit offset stats group every fields exact tz then".split()  # noqa: SIM905
)


def read_json(text: str) -> Json:
    """Give the object that a JSON text spells. Raises QueryError with the place of the fault."""
    try:
        return json.loads(text, parse_int=whole_number)
    except json.JSONDecodeError as error:
        raise QueryError(f"not JSON: {error.msg}", text=text, position=error.pos) from None
    except RecursionError:
        raise QueryError(f"conditions nest deeper than {MAX_DEPTH}: simplify the query") from None


def from_json(obj: Json) -> Query:
    """Give the abstract query of a JSON object. Raises QueryError that names what it does not know."""
    drafts: list[tuple[Query, dict[str, int]]] = []
    stage: Json = obj
    while stage is not None:
        check_keys(as_object(stage, "a query"), _KEYS, "a query")
        drafts += [(draft, {}) for draft in _drafts(stage)]
        stage = stage.get("then")
    return pipeline(drafts)


def _drafts(obj: Mapping[str, Json]) -> list[Query]:
    """One stage, or two where `near` with `k` picks events that the rest of the object works on."""
    near, minimum, k = _near(obj.get("near"))
    where = [read_condition(obj["filter"])] if "filter" in obj else []
    if minimum is not None and near is not None:
        where.append(Similar(near.text, ">=", minimum, near.field))
    chosen = Query(
        where=all_of(where) if where else None,
        time=_time(obj["time"]) if "time" in obj else None,
        near=near if minimum is None or k is not None else None,
        like=_like(obj["like"]) if "like" in obj else None,
        top=k,
        exact=as_flag(obj.get("exact", False), "exact"),
        tz=as_text(obj["tz"], "tz") if "tz" in obj else None,
    )
    rest = _rest(obj)
    if k is not None:
        return [chosen, rest]
    return [
        replace(
            rest,
            where=chosen.where,
            time=chosen.time,
            near=chosen.near,
            like=chosen.like,
            exact=chosen.exact,
            tz=chosen.tz,
        )
    ]


def _rest(obj: Mapping[str, Json]) -> Query:
    top, rank = _top(obj)
    limit = obj.get("limit")
    return Query(
        top=top,
        rank=rank,
        sort=tuple(_sort_key(key) for key in as_list(obj.get("sort", []), "sort")),
        limit=None if limit is None else check_count(limit, "limit"),
        unlimited="limit" in obj and limit is None,
        offset=check_count(obj.get("offset", 0), "offset"),
        stats=tuple(read_stat(text) for text in as_list(obj.get("stats", []), "stats")),
        by=tuple(read_name(name) for name in as_list(obj.get("group", []), "group")),
        every=_duration(obj["every"], "every") if "every" in obj else None,
        fields=tuple(_output(one) for one in as_list(obj.get("fields", []), "fields")),
    )


def _top(obj: Mapping[str, Json]) -> tuple[int | None, Sort | None]:
    if "top" in obj and "bottom" in obj:
        raise QueryError('"top" and "bottom" both rank: leave one out')
    for key in ("top", "bottom"):
        if key not in obj:
            continue
        one = obj[key]
        if not isinstance(one, Mapping):
            one = {"n": one}
        check_keys(one, {"n", "by"}, f'"{key}"')
        n = check_count(one.get("n", 10), key)
        if "by" not in one and key == "bottom":
            raise QueryError('"bottom" needs {"n": N, "by": field}')
        return n, Sort(read_name(one["by"]), key == "top") if "by" in one else None
    return None, None


def _near(obj: Json) -> tuple[Near | None, Value | None, int | None]:
    """The meaning, its least score, and how many best."""
    if obj is None:
        return None, None, None
    if isinstance(obj, str):
        return Near(obj), None, None
    check_keys(as_object(obj, '"near"'), {"text", "param", "field", "min", "k"}, '"near"')
    field = read_name(obj["field"]) if "field" in obj else None
    minimum = as_number(obj["min"], '"min"') if "min" in obj else None
    k = check_count(obj["k"], "k") if "k" in obj else None
    return Near(read_meaning(obj), field), minimum, k


def _like(obj: Json) -> Like:
    (name, value), *others = as_object(obj, '"like"').items() or [(None, None)]
    if name is None or others:
        raise QueryError('"like" takes one field: {"like": {"request_id": "chatcmpl-77"}}')
    anchor = as_value(value)
    if isinstance(anchor, (bool, float)):
        raise QueryError(f'"like" takes a text or a whole number, not {anchor!r}')
    return Like(read_name(name), anchor)


def _time(obj: Json) -> Time:
    obj = as_object(obj, '"time"')
    check_keys(obj, {"last", "since", "until", "between", "on"}, '"time"')
    keys = set(obj)
    if keys == {"last"}:
        return Last(_duration(obj["last"], "last"))
    if keys == {"on"}:
        return On(_moment(obj["on"]))
    if keys == {"between"}:
        ends = as_list(obj["between"], "between")
        if len(ends) != 2:
            raise QueryError('"between" takes two times: [start, end]')
        return Between(_moment(ends[0]), _moment(ends[1]))
    if keys and keys <= {"since", "until"}:
        return Between(
            _moment(obj["since"]) if "since" in obj else None,
            _moment(obj["until"]) if "until" in obj else None,
        )
    raise QueryError('"time" takes one of last, on, between, or since and until')


def _moment(value: Json) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    return as_text(value, "a time")


def _duration(value: Json, what: str) -> str:
    from .times import parse_duration

    text = as_text(value, what)
    parse_duration(text)
    return text


def _sort_key(obj: Json) -> Sort:
    if isinstance(obj, str):
        return Sort(read_name(obj))
    (name, way), *others = as_object(obj, 'an item of "sort"').items() or [(None, None)]
    if name is None or others or str(way).lower() not in ("asc", "desc"):
        raise QueryError('an item of "sort" is "field", {"field": "asc"} or {"field": "desc"}')
    return Sort(read_name(name), str(way).lower() == "desc")


def read_stat(text: Json) -> Stat:
    """Give the statistic that a text such as `p95(f) as slow` spells."""
    from .parse import parse

    written = as_text(text, 'an item of "stats"')
    stats = parse(written).stats
    if len(stats) != 1 or parse(written) != Query(stats=stats):
        raise QueryError(
            f'an item of "stats" is one statistic such as "count" or "p95(f) as slow", not {written!r}'
        )
    return stats[0]


def _output(obj: Json) -> Output:
    if isinstance(obj, str):
        return Output(read_name(obj))
    (name, called), *others = as_object(obj, 'an item of "fields"').items() or [(None, None)]
    if name is None or others:
        raise QueryError('an item of "fields" is "field" or {"field": "name"}')
    return Output(read_name(name), as_text(called, "a column name"))
