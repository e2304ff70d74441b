"""Parts compared value by value, and written to disk: what several test files use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.random_batches import KEYS, values
from treering.storage.batch import KEY, ColumnBatch, TextParts
from treering.storage.files import OS_FILES
from treering.storage.memory import MemoryPart
from treering.storage.meta import SegmentMeta
from treering.storage.part import Part
from treering.storage.segment import Segment, write

relaxed = examples(25)
SCALE = np.random.default_rng(4).uniform(0.01, 0.02, 136).tolist()
KNOWN = st.sets(KEYS)


def written(part: MemoryPart, directory: Path, *, generation: int = 0) -> Segment:
    meta = write(OS_FILES, directory, part, level=44, cell=0, generation=generation)
    meta = SegmentMeta.from_json(meta.to_json())
    return Segment.open(OS_FILES, directory, meta, qls_scale=part._qls_scale)


def assert_same_part(first: Part, second: Part) -> None:
    for name in ("id", "n_rows", "t_min", "t_max", "pending", "signals_pending"):
        assert getattr(first, name) == getattr(second, name), name
    assert dict(first.fields) == dict(second.fields)
    assert list(first.slices) == list(second.slices)
    np.testing.assert_array_equal(first.ts, second.ts)
    np.testing.assert_array_equal(first.seq, second.seq)
    for name in first.fields:
        assert_same_column(first, second, name)
    for method in ("vectors", "postings", "parts"):
        assert_same_arrays(getattr(first, method)(), getattr(second, method)())
    for method in ("vec_of_row", "template_of_row", "template_keys"):
        np.testing.assert_array_equal(getattr(first, method)(), getattr(second, method)(), err_msg=method)
    assert_same_arrays(first.tree, second.tree)


def assert_same_column(first: Part, second: Part, name: str) -> None:
    one, other = first.column(name), second.column(name)
    assert one.type == other.type
    assert values(one) == values(other), name
    rows = np.random.default_rng(0).integers(0, first.n_rows, 5) if first.n_rows else np.empty(0, np.int64)
    assert (
        values(first.column(name, rows))
        == values(second.column(name, rows))
        == [values(one)[r] for r in rows]
    )
    if pa.types.is_integer(one.type) or pa.types.is_floating(one.type) or pa.types.is_boolean(one.type):
        assert_same_numbers(first.numbers(name), second.numbers(name))
    codes, other_codes = first.codes(name), second.codes(name)
    assert (codes is None) == (other_codes is None)
    if codes is not None and other_codes is not None:
        np.testing.assert_array_equal(codes[0], other_codes[0])
        assert codes[0].dtype == other_codes[0].dtype == np.int32
        assert codes[1].equals(other_codes[1])
        assert [None if c < 0 else codes[1][c].as_py() for c in codes[0].tolist()] == one.to_pylist()


def assert_same_numbers(first: Any, second: Any) -> None:
    assert first[0].dtype == second[0].dtype
    assert (first[1] is None) == (second[1] is None)
    mask = slice(None) if first[1] is None else first[1]
    if first[1] is not None:
        np.testing.assert_array_equal(first[1], second[1])
    np.testing.assert_array_equal(first[0][mask], second[0][mask])


def assert_same_arrays(first: Any, second: Any) -> None:
    for name in type(first).__slots__:
        if name == "guard":
            continue
        one, other = getattr(first, name), getattr(second, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, name


def rows_of(part: Part) -> dict[int, dict[str, str]]:
    columns = {name: values(part.column(name)) for name in ("ts", "seq", *part.fields)}
    rows = [{n: c[row] for n, c in columns.items() if c[row] != "None"} for row in range(part.n_rows)]
    return {int(row["seq"]): row for row in rows}


def plain_batch(n_rows: int, columns: dict[str, pa.Array], first_seq: int = 0) -> ColumnBatch:
    system = {"ts": pa.array(np.arange(n_rows) << 20), "seq": pa.array(np.arange(n_rows) + first_seq)}
    return ColumnBatch(n_rows, {**system, **columns}, TextParts.empty(), np.zeros(n_rows, KEY))
