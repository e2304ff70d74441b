"""JSON records as columns: their own fields by path and type, and the canonical fields they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from treering.storage.residual import RESIDUAL, Cells
from treering.storage.schema import CANONICAL

from .canonical import canonical_columns, is_prose, join_texts, joined_texts
from .flatten import Flattener
from .jsonl import load
from .messages import PROMPT_PATHS, RESPONSE_PATHS, find, prompt_of, response_of
from .native_names import FIELD_PATHS, LEVEL_PATHS, PREFIXES

Bools = npt.NDArray[np.bool_]

_ENTROPY = "attention_entropy"


def json_columns(records: Sequence[bytes], overrides: Mapping[str, str] | None = None) -> dict[str, pa.Array]:
    """Give the original (`path#type`) and the canonical columns of JSON objects.

    A record with none of prompt, response and body gets a body of its text values joined by blanks.

    Parameters
    ----------
    records : the bytes of each record, as `jsonl.load` accepts them.
    overrides : canonical field to native path, as the user says.
    """
    flat = Flattener()
    objects = [load(record) for record in records]
    for row, record in enumerate(objects):
        flat.add(row, record)
    columns = flat.arrays(len(objects), keep=_native_paths(tuple((overrides or {}).values())))
    join = partial(_joined_cells, flat.cells()) if RESIDUAL in columns else partial(joined_texts, columns)
    return {**columns, **field_columns(columns, objects, overrides, join=join)}


def field_columns(
    columns: Mapping[str, pa.Array],
    objects: Sequence[Mapping[str, Any]],
    overrides: Mapping[str, str] | None = None,
    *,
    join: Callable[[Bools], pa.Array | None] | None = None,
) -> dict[str, pa.Array]:
    """Give the canonical columns that the original `columns` hold.

    objects: the records; of what columns cannot tell (messages, lists of lists) they must have all. join: gives
    the texts of some rows as a body; by default those of `columns`.
    """
    found = canonical_columns(columns, len(objects), overrides)
    if any(objects):
        _add_structured(found, "prompt", PROMPT_PATHS, prompt_of, columns, objects)
        _add_structured(found, "response", RESPONSE_PATHS, response_of, columns, objects)
        _add_layer_means(found, objects, overrides or {})
    _add_joined_body(found, join or partial(joined_texts, columns), len(objects))
    return found


def _add_structured(
    found: dict[str, pa.Array],
    name: str,
    paths: Sequence[str],
    read: Callable[[Mapping[str, Any]], str | None],
    columns: Mapping[str, pa.Array],
    objects: Sequence[Mapping[str, Any]],
) -> None:
    """Fill a text field from messages, in rows where no plain string gave it or that is JSON."""
    if RESIDUAL not in columns and not any(column.startswith(_heads(paths)) for column in columns):
        return
    have = found[name].to_pylist() if name in found else [None] * len(objects)
    texts = [
        read(obj) or text if text is None or text[:2] in ("[{", '{"') else text
        for obj, text in zip(objects, have, strict=True)
    ]
    if any(text is not None for text in texts):
        found[name] = pa.array(texts, pa.string())


def _heads(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple({path.partition(".")[0] for path in paths} | {"messages"})


def _add_layer_means(
    found: dict[str, pa.Array], objects: Sequence[Mapping[str, Any]], overrides: Mapping[str, str]
) -> None:
    """Make one entropy a layer of layers x heads, which the flat column of the original no longer tells apart."""
    if "attention_entropy" not in found:
        return
    paths = [overrides[_ENTROPY]] if _ENTROPY in overrides else FIELD_PATHS[_ENTROPY].split()
    nested = [_layer_means(next((v for p in paths if (v := find(o, p)) is not None), None)) for o in objects]
    if all(means is None for means in nested):
        return
    flat = found["attention_entropy"].to_pylist()
    rows = [old if means is None else means for means, old in zip(nested, flat, strict=True)]
    found["attention_entropy"] = pa.array(rows, pa.list_(pa.float64()))


def _layer_means(value: Any) -> list[float] | None:
    """Mean over heads of each layer; None where the value is not a list of lists of numbers."""
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(layer, list) and layer for layer in value)
    ):
        return None
    try:
        return [float(np.mean(np.asarray(layer, np.float64))) for layer in value]
    except (TypeError, ValueError):
        return None


def _add_joined_body(
    found: dict[str, pa.Array], join: Callable[[Bools], pa.Array | None], n_rows: int
) -> None:
    bare = np.ones(n_rows, np.bool_)
    for name in ("body", "prompt", "response"):
        if name in found:
            bare &= np.asarray(found[name].is_null())
    if not bare.any():
        return
    joined = join(bare)
    if joined is not None and joined.null_count < n_rows:
        found["body"] = pc.coalesce(found["body"], joined) if "body" in found else joined


def _joined_cells(cells: Cells, rows: Bools) -> pa.Array:
    """Give what `joined_texts` gives, at the price of the values that are there."""
    texts: list[list[str]] = [[] for _ in rows]
    for name, (places, values) in cells.items():
        if is_prose(name):
            for row, value in zip(places, values, strict=True):
                texts[row].append(_one_text(value) if rows[row] else "")
    return pa.array([" ".join(filter(None, row)) or None for row in texts], pa.string())


def _one_text(value: str | list[str | None]) -> str:
    return value if isinstance(value, str) else join_texts(value)


@lru_cache(maxsize=16)
def _native_paths(overrides: tuple[str, ...]) -> Set[str]:
    """Give the paths that canonical fields and signals are made of: their columns are needed whole."""
    specs = [spec for paths in FIELD_PATHS.values() for spec in paths.split()]
    paths = {spec.partition("*")[0] for spec in specs} | {spec.partition("*")[0] for spec in overrides}
    paths |= {*overrides, *LEVEL_PATHS, *(field.name for field in CANONICAL)}
    from .signals import NATIVE_COLUMNS

    signals = {name.rpartition("#")[0] for name in NATIVE_COLUMNS}
    return signals | frozenset(prefix + path for prefix in PREFIXES for path in paths)
