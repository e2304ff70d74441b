"""Random decoded batches with every column type and the awkward values, and vectors for their texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import strategies as st

from treering.storage.batch import KEY, ColumnBatch, Keys, TextParts, Vectors
from treering.storage.schema import PATH_TYPES, split_physical

TEXTS = st.one_of(
    st.sampled_from(["", "\0", "a\0b", "é", "🦊🦊", "\u2028", "日本語", "request done", "NaN", "x" * 70]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
INTEGERS = st.one_of(
    st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]), st.integers(-5, 5)
)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324]), st.floats(-9, 9)
)
BIG = st.integers(2**63, 2**70).map(str)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": INTEGERS,
    "f": FLOATS,
    "b": st.booleans(),
    "s": TEXTS,
    "z": BIG,
    "o": st.just(True),
    "[i]": st.lists(st.one_of(st.none(), INTEGERS), max_size=3),
    "[f]": st.lists(st.one_of(st.none(), FLOATS), max_size=3),
    "[b]": st.lists(st.booleans(), max_size=3),
    "[s]": st.lists(st.one_of(st.none(), TEXTS), max_size=3),
    "[z]": st.lists(BIG, max_size=2),
}
NAMED: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "level": (pa.uint8(), st.integers(1, 6)),
    "duration_s": (pa.float64(), FLOATS),
    "input_tokens": (pa.int64(), INTEGERS),
    "service_name": (pa.string(), st.sampled_from(["api", "gpu", ""])),
    "context": (pa.list_(pa.string()), st.lists(TEXTS, max_size=2)),
    "hallucination_score": (pa.float64(), st.floats(0, 1)),
}
KEYS = st.tuples(st.integers(1, 3), st.integers(0, 3))
"""Few keys, whose high halves clash often."""

TIMES = st.one_of(st.integers(0, 50).map(lambda k: k << 20), st.integers(-(2**41), 2**41))


@st.composite
def column(draw: st.DrawFn, n_rows: int, kind: pa.DataType, values: st.SearchStrategy[Any]) -> pa.Array:
    rows = draw(st.lists(st.one_of(st.none(), values), min_size=n_rows, max_size=n_rows))
    array = pa.array(rows, kind)
    coded = pa.types.is_string(kind) and draw(st.booleans())
    return array.dictionary_encode() if coded else array


@st.composite
def text_parts(draw: st.DrawFn, n_rows: int) -> TextParts:
    found: list[tuple[int, int, int, tuple[int, int], bool]] = []
    for row in range(n_rows):
        uses = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=3, unique=True))
        for place, (field, chunk) in enumerate(sorted(uses)):
            found.append((row, field, chunk, draw(KEYS), place == 0))
    return TextParts(
        np.array([f[0] for f in found], np.int32),
        np.array([f[1] for f in found], np.uint8),
        np.array([f[2] for f in found], np.int16),
        np.array([f[3] for f in found], KEY),
        np.array([f[4] for f in found], np.bool_),
    )


@st.composite
def batch(draw: st.DrawFn, first_seq: int, n_rows: int) -> ColumnBatch:
    def rows(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n_rows, max_size=n_rows))

    columns: dict[str, pa.Array] = {
        "ts": pa.array(rows(TIMES), pa.int64()),
        "seq": pa.array(np.arange(first_seq, first_seq + n_rows)),
        "ts_origin": pa.array(rows(st.integers(0, 4)), pa.uint8()),
        "source": pa.array(rows(st.sampled_from(["a.log", "b.log"])), pa.string()).dictionary_encode(),
        "reader": pa.array(["jsonl"] * n_rows, pa.string()).dictionary_encode(),
        "source_offset": pa.array(rows(st.integers(0, 2**40)), pa.int64()),
        "source_line": pa.array(rows(st.integers(1, 2**40)), pa.int64()),
    }
    for place, code in enumerate(draw(st.lists(st.sampled_from(list(PATH_TYPES)), max_size=5))):
        name = f"p{place % 3}#{code}"
        columns[name] = draw(column(n_rows, PATH_TYPES[code], VALUES[code]))
    for name in draw(st.lists(st.sampled_from(list(NAMED)), max_size=4, unique=True)):
        columns[name] = draw(column(n_rows, *NAMED[name]))
    bodies = rows(st.one_of(st.none(), TEXTS))
    inside = draw(st.sampled_from(["suffix", "middle", "sometimes"]))
    ends = {"suffix": b"", "middle": b"'}", "sometimes": b"."}[inside]
    columns["record"] = pa.array([b"r " + (b or "").encode() + ends for b in bodies], pa.binary())
    if inside == "sometimes":
        bodies = [b if b is None or row % 2 else b + "not in the record" for row, b in enumerate(bodies)]
    columns["body"] = pa.array(bodies, pa.string())
    if draw(st.booleans()):
        columns["message#s"] = columns["body"]
    template = np.array(rows(st.one_of(st.just((0, 0)), KEYS)), KEY).reshape(n_rows)
    return ColumnBatch(n_rows, columns, draw(text_parts(n_rows)), template)


@st.composite
def batches(
    draw: st.DrawFn, first_seq: int = 0, max_batches: int = 3, max_rows: int = 7
) -> list[ColumnBatch]:
    found = []
    for n_rows in draw(st.lists(st.integers(0, max_rows), min_size=1, max_size=max_batches)):
        found.append(draw(batch(first_seq, n_rows)))
        first_seq += n_rows
    return found


def vectors_of(keys: Keys, dim: int = 32) -> Vectors:
    """Vectors that depend on their key alone."""
    u = len(keys)
    seeds = [np.random.default_rng([int(key["hi"]), int(key["lo"])]) for key in keys]
    exact = np.array([seed.standard_normal(dim) for seed in seeds]).reshape(u, dim)
    exact /= np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-9)
    qls = np.array([seed.integers(-127, 128, 136) for seed in seeds], np.int8).reshape(u, 136)
    heads = np.array([seed.integers(0, 256, 72) for seed in seeds], np.uint8).reshape(u, 72)
    head = np.array([(255, 0, 1, 2)[int(key["lo"]) % 4] for key in keys], np.uint8)
    return Vectors.of(
        keys,
        exact,
        heads=heads,
        n_tokens=heads[:, 0].astype(np.uint16),
        head=head,
        second=heads[:, 1] % 12,
        qls=qls,
    )


def lookup_of(known: set[tuple[int, int]]) -> Callable[[Keys], tuple[npt.NDArray[np.bool_], Vectors]]:
    """A lookup that knows the vectors of these keys."""

    def lookup(keys: Keys) -> tuple[npt.NDArray[np.bool_], Vectors]:
        found = np.array([(int(key["hi"]), int(key["lo"])) in known for key in keys], np.bool_)
        return found, vectors_of(keys[found])

    return lookup


def values(array: pa.Array) -> list[str]:
    """Values as text, so that NaN and -0.0 compare by what they are."""
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    return [repr(value) for value in plain.to_pylist()]


def plain_rows(given: list[ColumnBatch]) -> dict[int, dict[str, str]]:
    """Every row of the batches by its seq: values as text by column, without those it lacks."""
    found: dict[int, dict[str, str]] = {}
    for one in given:
        columns = {name: values(array) for name, array in one.columns.items()}
        for row in range(one.n_rows):
            cells = {name: column[row] for name, column in columns.items() if column[row] != "None"}
            found[int(cells["seq"])] = cells
    return found


def is_list(name: str) -> bool:
    """Whether a column holds lists."""
    return name == "context" or split_physical(name)[1].startswith("[")
