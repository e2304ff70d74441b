"""The bound query: names resolved to physical columns, literals typed, times in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .ast import Scalar


@dataclass(frozen=True, slots=True)
class Column:
    """A field as bound. name: as the query wrote it (folded), for output. physical: stored columns, best first.

    A row's value is that of the first physical column that has one. type is the widest of
    `number bool text level ts list mixed none` (`none`: known but no stored event carries it).
    """

    name: str
    physical: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True)
class BCompare:
    """True where any typed value of the column compares so; numbers with numbers, texts with texts."""

    column: Column
    op: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class BIn:
    """True where the column equals one of the values."""

    column: Column
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class BExists:
    """True where any of the columns (the path itself, or below it) holds a value."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BPhrase:
    """True where a text column contains the phrase, both case-folded."""

    columns: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class BHas:
    """Substring of a text (exact case), or an equal element of a list."""

    column: Column
    text: str


@dataclass(frozen=True, slots=True)
class BMatches:
    """Regular expression found anywhere in a text value."""

    column: Column
    pattern: str


@dataclass(frozen=True, slots=True)
class Probe:
    """A meaning to compare with. vector: float32 (dim), unit length. fields: indexes into PART_FIELDS, None: all."""

    label: str
    vector: npt.NDArray[np.float32]
    fields: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class BSimilar:
    """True where the event's best text compares so by cosine; rows without a vector never match."""

    probe: Probe
    op: str
    threshold: float


@dataclass(frozen=True, slots=True)
class BNot:
    """Plain opposite."""

    item: BCond


@dataclass(frozen=True, slots=True)
class BAnd:
    """All."""

    items: tuple[BCond, ...]


@dataclass(frozen=True, slots=True)
class BOr:
    """Any."""

    items: tuple[BCond, ...]


BCond = BCompare | BIn | BExists | BPhrase | BHas | BMatches | BSimilar | BNot | BAnd | BOr


@dataclass(frozen=True, slots=True)
class BSort:
    """A sort key; column None: the meaning score."""

    column: Column | None
    descending: bool


@dataclass(frozen=True, slots=True)
class BStat:
    """An aggregate. fn: `count sum avg min max stddev p50 p90 p95 p99 p999 distinct`; count may lack a column."""

    fn: str
    column: Column | None
    name: str


@dataclass(frozen=True, slots=True)
class BOutput:
    """One output column."""

    column: Column
    name: str


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A stage, ready to run.

    start_ns, end_ns: half-open time range, None: open. near: ranked meaning. order: sort keys, after which (ts, seq)
    always decides, oldest first; empty: that alone, also where `limit` cuts.
    near_k: with near and an order on fields, how many best by meaning are ranked. limit None: all.
    drop_missing: rows without a value of the first order key are left out (`top N by f`).
    shown: fields that the query names and the answer should show beside the originals.
    left_out: (source part seq) of the anchor event of `like`, or None.
    """

    where: BCond | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    near: Probe | None = None
    near_k: int | None = None
    order: tuple[BSort, ...] = ()
    drop_missing: bool = False
    limit: int | None = None
    offset: int = 0
    stats: tuple[BStat, ...] = ()
    by: tuple[Column, ...] = ()
    every_ns: int | None = None
    fields: tuple[BOutput, ...] = ()
    shown: tuple[Column, ...] = ()
    left_out: int | None = None
    exact: bool = False
    tz: str = "UTC"
    hints: tuple[str, ...] = ()
    then: BoundQuery | None = None
