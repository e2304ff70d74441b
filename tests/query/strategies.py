"""Random events, parts and bound queries."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tests.query.parts import DIM, Event, PlainPart, PlainSnapshot, unit
from treering.query import bound as b

BIG = 2**53
INTS = st.one_of(
    st.integers(-4, 4),
    st.sampled_from([BIG - 1, BIG, BIG + 1, BIG + 2, -BIG - 1, 2**63 - 1, 2**63 - 2, -(2**63)]),
)
DECIMALS = st.one_of(st.integers(2**63, 2**63 + 3), st.just(-(2**64)), st.just(10**30))
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, -2.5, float(BIG), float(2**63), 1e30]),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
)
WORDS = st.sampled_from(
    [
        "",
        "a",
        "B",
        "ab",
        "Straße",
        "STRASSE",
        "İx",
        "K9",
        "推理延迟",
        "KV缓存命中",
        "a\nb",
        "null",
        "é",
        "É",
        "ﬁn",
        "naïve ab",
    ]
)
TEXTS = st.one_of(WORDS, st.text(string.ascii_letters + "推理ßK \n", max_size=6))

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "x#i": INTS,
    "x#f": FLOATS,
    "x#z": DECIMALS,
    "x#s": TEXTS,
    "x#b": st.booleans(),
    "x#[i]": st.lists(INTS, max_size=3),
    "x#[s]": st.lists(TEXTS, max_size=2),
    "x#o": st.just(True),
    "n#i": INTS,
    "input_tokens": INTS,
    "score": FLOATS,
    "level": st.integers(1, 6),
    "body": TEXTS,
    "prompt": TEXTS,
    "request_model": st.sampled_from(["m1", "m2", "M1"]),
    "m#s": st.sampled_from(["m1", "m3"]),
    "y#[f]": st.lists(FLOATS, max_size=2),
    "y#[z]": st.lists(DECIMALS, max_size=2),
    "context": st.lists(TEXTS, max_size=2),
}
ONE_OF = [name for name in VALUES if name.startswith("x#")]
"""An event fills one type of a path, but for a list of several types, and a list that stands beside a value."""

LISTS = {"x": ("x#[i]", "x#[s]"), "y": ("y#[f]", "y#[z]")}
"""Columns that hold the lists of a path, of one length where an event has several."""

COLUMNS = [
    b.Column("x", tuple(ONE_OF), "mixed"),
    b.Column("x", ("x#i", "x#f"), "number"),
    b.Column("n", ("n#i",), "number"),
    b.Column("tokens", ("n#i", "input_tokens"), "number"),
    b.Column("score", ("score",), "number"),
    b.Column("level", ("level",), "level"),
    b.Column("body", ("body",), "text"),
    b.Column("model", ("m#s", "request_model"), "text"),
    b.Column("y", ("y#[f]", "y#[z]"), "list"),
    b.Column("context", ("context",), "list"),
    b.Column("nothing", ("absent",), "none"),
    b.Column("ts", ("ts",), "ts"),
]
SORTABLE = [c for c in COLUMNS if c.type != "list"]
OPS = st.sampled_from(["=", ">", ">=", "<", "<="])
LITERALS = st.one_of(
    INTS, DECIMALS, FLOATS.filter(lambda f: f == f), TEXTS, st.booleans(), st.integers(0, 40)
)
PATTERNS = st.sampled_from(["a", "^a", "b$", "^$", "[A-Z]", "推.延", "a.b", "(?i)straSSE", "K|m1"])


FITTING: dict[str, st.SearchStrategy[Any]] = {
    "n": INTS,
    "tokens": INTS,
    "score": st.sampled_from([0.0, 0.5, 1.0, -2.5, 0, 1]),
    "level": st.integers(1, 6),
    "model": st.sampled_from(["m1", "m2", "m3"]),
    "body": WORDS,
    "ts": st.integers(0, 40),
    "y": st.one_of(FLOATS.filter(lambda f: f == f), DECIMALS),
    "context": WORDS,
}


def literals_for(column: b.Column) -> st.SearchStrategy[Any]:
    """Mostly values that the column can hold."""
    fitting = FITTING.get(column.name, LITERALS)
    return st.one_of(fitting, fitting, fitting, LITERALS)


@st.composite
def vector_sets(draw: st.DrawFn) -> npt.NDArray[np.float32]:
    """A few unit vectors, some of them equal or nearly so."""
    seed, n = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 8))
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((n, DIM))
    for i in range(1, n):
        if draw(st.booleans()):
            raw[i] = raw[draw(st.integers(0, i - 1))] + rng.standard_normal(DIM) * draw(
                st.sampled_from([0.0, 1e-3, 0.1])
            )
    return unit(raw)


@st.composite
def event_values(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from([n for n in VALUES if n not in ONE_OF]), unique=True, max_size=7))
    if draw(st.booleans()):
        names.append(draw(st.sampled_from(ONE_OF)))
    values = {name: draw(VALUES[name]) for name in names}
    for lists in LISTS.values():
        if draw(st.integers(0, 5)) == 0 or all(name in values for name in lists):
            values |= draw(mixed_lists(lists))
    return values


@st.composite
def mixed_lists(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, Any]:
    """A list of several types as a store keeps it: one for each, null at the places of the others."""
    of = [*names, *draw(st.lists(st.sampled_from([*names, ""]), max_size=2))]
    items = {"x#[i]": INTS, "x#[s]": TEXTS, "y#[f]": FLOATS, "y#[z]": DECIMALS, "": st.none()}
    drawn = [(name, draw(items[name])) for name in draw(st.permutations(of))]
    return {name: [value if mine == name else None for mine, value in drawn] for name in names}


@st.composite
def stores(
    draw: st.DrawFn, max_events: int = 24
) -> tuple[PlainSnapshot, list[Event], npt.NDArray[np.float32]]:
    """One to three parts, with their events and vectors."""
    vectors = draw(vector_sets())
    n = draw(st.integers(0, max_events))
    seqs = draw(st.permutations(range(n)))
    events = [
        Event(
            ts=draw(st.integers(0, 40)),
            seq=seqs[i],
            values=draw(event_values()),
            texts=draw(
                st.lists(
                    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, len(vectors) - 1))),
                    max_size=3,
                )
            ),
            shard=draw(st.integers(0, 2)),
        )
        for i in range(n)
    ]
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=2)))
    groups = [events[i:j] for i, j in zip([0, *cuts], [*cuts, n], strict=True)]
    parts = [
        PlainPart(
            group,
            vectors,
            part_id=f"p{i}",
            dictionary=draw(st.sampled_from([(), ("x#s", "body", "request_model", "m#s", "x#z")])),
            leaf_rows=draw(st.sampled_from([1, 4])),
        )
        for i, group in enumerate(groups)
    ]
    return PlainSnapshot(parts), events, vectors


def probes(vectors: npt.NDArray[np.float32]) -> st.SearchStrategy[b.Probe]:
    """A stored vector, or one between two of them."""

    def make(i: int, j: int, mix: float, fields: tuple[int, ...] | None) -> b.Probe:
        v = vectors[i] + np.float32(mix) * vectors[j]
        return b.Probe("probe", v / (np.linalg.norm(v) or np.float32(1)), fields)

    index = st.integers(0, len(vectors) - 1)
    return st.builds(
        make, index, index, st.sampled_from([0.0, 0.5]), st.sampled_from([None, None, (0,), (1, 2)])
    )


def conditions(vectors: npt.NDArray[np.float32], depth: int = 2) -> st.SearchStrategy[b.BCond]:
    """Any condition, nested up to `depth`."""
    column = st.sampled_from(COLUMNS)
    physical = st.lists(st.sampled_from([*VALUES, "absent", "ts"]), min_size=1, max_size=3).map(tuple)
    atoms: st.SearchStrategy[b.BCond] = st.one_of(
        column.flatmap(lambda c: st.builds(b.BCompare, st.just(c), OPS, literals_for(c))),
        column.flatmap(lambda c: st.builds(b.BCompare, st.just(c), OPS, literals_for(c))),
        column.flatmap(
            lambda c: st.builds(b.BIn, st.just(c), st.lists(literals_for(c), max_size=3).map(tuple))
        ),
        st.builds(b.BExists, physical),
        st.builds(b.BPhrase, st.just(("body", "prompt", "context")), WORDS),
        st.builds(b.BHas, column, WORDS),
        st.builds(b.BMatches, column, PATTERNS),
        st.builds(
            b.BSimilar,
            probes(vectors),
            OPS,
            st.one_of(st.floats(-1, 1, width=32), st.sampled_from([0.0, 1.0])),
        ),
    )
    if not depth:
        return atoms
    inner = conditions(vectors, depth - 1)
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        atoms, atoms, st.builds(b.BNot, inner), st.builds(b.BAnd, several), st.builds(b.BOr, several)
    )


@st.composite
def queries(draw: st.DrawFn, vectors: npt.NDArray[np.float32]) -> b.BoundQuery:
    """A stage of rows: any filter, order, meaning and limit."""
    limit = draw(st.one_of(st.none(), st.integers(0, 6)))
    near = draw(st.one_of(st.none(), probes(vectors)))
    order = tuple(draw(st.lists(st.builds(b.BSort, st.sampled_from(SORTABLE), st.booleans()), max_size=2)))
    return b.BoundQuery(
        where=draw(st.one_of(st.none(), conditions(vectors))),
        start_ns=draw(st.one_of(st.none(), st.integers(-1, 41))),
        end_ns=draw(st.one_of(st.none(), st.integers(-1, 41))),
        near=near,
        near_k=draw(st.one_of(st.none(), st.integers(0, 5))) if near is not None and order else None,
        order=order,
        drop_missing=bool(order) and draw(st.booleans()),
        limit=limit,
        offset=draw(st.integers(0, 3)),
        left_out=draw(st.one_of(st.none(), st.integers(0, 5))),
    )
