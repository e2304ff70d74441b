"""The abstract query as a JSON object."""

from __future__ import annotations

from .ast import (
    And,
    Between,
    Compare,
    Cond,
    Exists,
    Has,
    In,
    Last,
    Matches,
    Name,
    Near,
    Not,
    On,
    Or,
    Output,
    Param,
    Phrase,
    Query,
    Similar,
    Time,
    Value,
)
from .json_values import Json
from .text_form import write_stat


def to_json(query: Query) -> dict[str, Json]:
    """Give the JSON form; `from_json` reads it back to an equal query."""
    obj: dict[str, Json] = {}
    if query.where is not None:
        obj["filter"] = _condition_json(query.where)
    if query.time is not None:
        obj["time"] = _time_json(query.time)
    if query.near is not None:
        obj["near"] = _near_json(query.near)
    if query.like is not None:
        obj["like"] = {_name_json(query.like.field): _value_json(query.like.value)}
    obj |= _order_json(query)
    if query.stats:
        obj["stats"] = [write_stat(stat) for stat in query.stats]
    if query.by:
        obj["group"] = [_name_json(name) for name in query.by]
    if query.every is not None:
        obj["every"] = query.every
    if query.fields:
        obj["fields"] = [_output_json(output) for output in query.fields]
    if query.exact:
        obj["exact"] = True
    if query.tz is not None:
        obj["tz"] = query.tz
    if query.then is not None:
        obj["then"] = to_json(query.then)
    return obj


def _order_json(query: Query) -> dict[str, Json]:
    obj: dict[str, Json] = {}
    if query.top is not None and query.rank is not None:
        obj["top" if query.rank.descending else "bottom"] = {
            "n": query.top,
            "by": _name_json(query.rank.field),
        }
    elif query.top is not None:
        obj["top"] = query.top
    if query.sort:
        obj["sort"] = [{_name_json(key.field): "desc" if key.descending else "asc"} for key in query.sort]
    if query.limit is not None or query.unlimited:
        obj["limit"] = query.limit
    if query.offset:
        obj["offset"] = query.offset
    return obj


def _condition_json(cond: Cond) -> dict[str, Json]:
    match cond:
        case And():
            return {"and": [_condition_json(item) for item in cond.items]}
        case Or():
            return {"or": [_condition_json(item) for item in cond.items]}
        case Not():
            return _negated_json(cond.item)
        case Compare() if cond.op == "=":
            return _field_json(cond.field, _value_json(cond.value), "=")
        case Compare():
            return {_name_json(cond.field): {cond.op: _value_json(cond.value)}}
        case In():
            return {_name_json(cond.field): {"in": [_value_json(v) for v in cond.values]}}
        case Exists():
            return {_name_json(cond.field): {"exists": True}}
        case Phrase():
            return {"phrase": _value_json(cond.text)}
        case Has():
            return {_name_json(cond.field): {"has": _value_json(cond.text)}}
        case Matches():
            return {_name_json(cond.field): {"=~": cond.pattern}}
        case Similar():
            near = {"near": _meaning_json(cond.text) | {cond.op: _value_json(cond.threshold)}}
            return near if cond.field is None else {_name_json(cond.field): near}


def _negated_json(cond: Cond) -> dict[str, Json]:
    match cond:
        case Compare() if cond.op == "=":
            return {_name_json(cond.field): {"!=": _value_json(cond.value)}}
        case In():
            return {_name_json(cond.field): {"not_in": [_value_json(v) for v in cond.values]}}
        case Exists():
            return {_name_json(cond.field): {"exists": False}}
        case Matches():
            return {_name_json(cond.field): {"!~": cond.pattern}}
    return {"not": _condition_json(cond)}


def _field_json(name: Name, value: Json, op: str) -> dict[str, Json]:
    return {_name_json(name): {op: value} if isinstance(value, dict) else value}


def _near_json(near: Near) -> dict[str, Json]:
    obj = _meaning_json(near.text)
    return obj if near.field is None else obj | {"field": _name_json(near.field)}


def _meaning_json(text: Value) -> dict[str, Json]:
    return {"param": text.name} if isinstance(text, Param) else {"text": text}


def _value_json(value: Value) -> Json:
    return {"param": value.name} if isinstance(value, Param) else value


def _name_json(name: Name) -> str:
    if not name.quoted:
        return name.text
    return "`" + name.text.replace("`", "``") + "`"


def _output_json(output: Output) -> Json:
    name = _name_json(output.field)
    return name if output.name is None else {name: output.name}


def _time_json(time: Time) -> dict[str, Json]:
    match time:
        case Last():
            return {"last": time.text}
        case On():
            return {"on": time.day}
        case Between():
            ends = {"since": time.start, "until": time.end}
            return {key: value for key, value in ends.items() if value is not None}
