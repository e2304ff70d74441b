"""The vectors and embedded texts of a damaged segment: those that can be read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from .batch import Keys, TextParts, Vectors
from .deletion import Gone
from .errors import DamageError
from .files import Files
from .known import KnownVectors
from .late import read_late
from .meta import SegmentMeta
from .part import VectorTable
from .parts_file import read_parts, read_parts_of_format_1, read_template_keys
from .vectors import find_keys, from_arrow
from .wreck import Bools, Wreck, open_wreck
from .wreck_columns import ReadColumns


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A dictionary of vectors of which some cannot be read: these are not in its `have`.

    has_keys: whether all keys can be read, so that a `vec_id` says which text it is.
    """

    table: VectorTable
    has_keys: bool


@dataclass(frozen=True, slots=True)
class ReadTexts:
    """Which texts the events embed, and the template of each row."""

    parts: TextParts
    template: Keys


def read_table(wreck: Wreck | None, gone: Gone) -> ReadTable | None:
    """Read the dictionary as far as it can be; None where nothing of it can."""
    if wreck is None:
        return None
    file = wreck.file
    n, lost = int(file.facts["rows"]), dict[str, Bools]()
    columns: dict[str, pa.Array] = {}
    try:
        for name in file.schema.names:
            columns[name], lost[name] = file.unchecked(name), wreck.lost_rows(name, n)
        made = from_arrow(columns)
    except DamageError:
        return None
    keys = lost.pop("key")
    any_lost = np.any([keys, *lost.values()], axis=0)
    forgotten = np.zeros(n, np.bool_)
    forgotten[gone.vectors] = True
    table = replace(made, have=made.have & ~any_lost & ~forgotten)
    return ReadTable(table, not keys.any())


def read_texts(wreck: Wreck | None, hot: ReadColumns, table: ReadTable | None) -> ReadTexts | None:
    """Read what events embed; None unless all of that can be read."""
    if wreck is None or not wreck.is_whole or table is None or not table.has_keys:
        return None
    if {"vec_id", "template_id"} & hot.lost.keys():
        return None
    vec_of_row, template_of_row = (
        np.asarray(hot.columns[name].to_numpy(zero_copy_only=False), np.int32)
        for name in ("vec_id", "template_id")
    )
    is_old = "parts_row" in wreck.file.schema.names
    parts = read_parts_of_format_1(wreck.file) if is_old else read_parts(wreck.file, vec_of_row)
    keys = read_template_keys(wreck.file)
    padded = np.append(keys, np.zeros(1, keys.dtype))
    return ReadTexts(parts.with_keys(table.table.key), padded[template_of_row])


@dataclass(slots=True)
class ReadLates:
    """What whole sidecars hold, and the signals of the others."""

    vectors: list[Vectors] = field(default_factory=list)
    signals: dict[str, pa.Array] = field(default_factory=dict)
    lost_signals: set[str] = field(default_factory=set)


def read_lates(files: Files, directory: Path, meta: SegmentMeta) -> ReadLates:
    """Read the sidecars of a segment that are whole, in the order they came."""
    found = ReadLates()
    for late in meta.late:
        wreck = open_wreck(files, directory, late.file, None)
        for name in late.fields:
            found.signals.pop(name, None)
        found.lost_signals |= {name for name, stats in late.fields.items() if stats.n}
        if wreck is None:
            continue
        with suppress(DamageError):
            read = read_late([wreck.file], meta.n_rows)
            found.vectors += read.vectors
            found.signals |= read.signals
            found.lost_signals -= read.signals.keys()
    return found


def known_vectors(table: ReadTable | None, lates: ReadLates, gone: Gone) -> KnownVectors:
    """Give the vectors that can be read, but for those that are to be forgotten."""
    known = KnownVectors()
    if len(gone.vectors) and (table is None or not table.has_keys):
        # Which vectors were made of deleted events cannot be told any more.
        return known
    forgotten = np.empty(0, np.int64) if table is None else gone.vectors
    for place, vectors in enumerate(reversed(lates.vectors)):
        if table is not None and len(forgotten):
            keys = np.sort(table.table.key[forgotten], order=("hi", "lo"))
            vectors = vectors.take(np.flatnonzero(find_keys(keys, vectors.key) < 0))
        known.put(f"late-{place}", vectors)
    if table is not None and table.has_keys:
        known.put("own", table.table)
    return known
