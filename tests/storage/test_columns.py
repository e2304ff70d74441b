from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.random_batches import FLOATS, INTEGERS, TEXTS, VALUES, values
from treering.storage import columns as columns_module
from treering.storage import joining as joining_module
from treering.storage.batch import KEY, ColumnBatch, TextParts
from treering.storage.columns import (
    code_view,
    concat,
    field_stats,
    number_view,
    place_columns,
    shrink_codes,
    take_columns,
)
from treering.storage.files import OS_FILES
from treering.storage.joining import join_columns
from treering.storage.memory import build
from treering.storage.part import FieldStats
from treering.storage.residual import cells_of, column_of, pack_cells, unpack_cells
from treering.storage.schema import PATH_TYPES
from treering.storage.segment import Segment, write
from treering.storage.spans import cut_spans, find_spans


def placed_alone(name: str, array: pa.Array) -> pa.Array | None:
    """The hot column, or None where it is cold."""
    return place_columns({name: array}, len(array)).hot.get(name)


@given(st.lists(st.one_of(st.none(), FLOATS)), st.integers(0, 3))
def test_statistics_of_floats_leave_out_nan(rows: list[float | None], skip: int) -> None:
    stats = field_stats(pa.array([None] * skip + rows, pa.float64()).slice(skip))
    present = [v for v in rows if v is not None]
    numbers = [v for v in present if not math.isnan(v)]
    expected = FieldStats(len(present), min(numbers, default=None), max(numbers, default=None))
    assert stats == expected


@given(st.lists(st.one_of(st.none(), INTEGERS), min_size=1))
def test_statistics_of_integers_are_exact(rows: list[int | None]) -> None:
    stats = field_stats(pa.array(rows, pa.int64()))
    present = [v for v in rows if v is not None]
    assert stats == FieldStats(len(present), min(present, default=None), max(present, default=None))
    assert stats.minimum is None or isinstance(stats.minimum, int)


@given(st.lists(st.one_of(st.none(), st.booleans()), max_size=40), st.integers(0, 9), st.integers(0, 9))
def test_bools_and_masks_of_slices_are_unpacked_right(rows: list[bool | None], front: int, back: int) -> None:
    array = pa.array([True, None, False] * 3 + rows + [True], pa.bool_()).slice(
        front, max(0, len(rows) + 9 - front - back)
    )
    found, mask = number_view(array)
    assert [
        bool(v) if m else None for v, m in zip(found, _all(mask, array), strict=True)
    ] == array.to_pylist()


@given(st.lists(st.one_of(st.none(), TEXTS)))
def test_codes_name_the_texts(rows: list[str | None]) -> None:
    coded = shrink_codes(pa.array(rows, pa.string()).dictionary_encode())
    found = code_view(coded)
    assert [None if c < 0 else coded.dictionary[c].as_py() for c in found.tolist()] == rows
    assert coded.indices.type == pa.int8()


@pytest.mark.parametrize(
    ("n", "kind"), [(128, pa.int8()), (129, pa.int16()), (32_768, pa.int16()), (32_769, pa.int32())]
)
def test_codes_take_the_narrowest_type(n: int, kind: pa.DataType) -> None:
    coded = shrink_codes(pa.array([str(i) for i in range(n)]).dictionary_encode())
    assert coded.indices.type == kind
    assert coded.to_pylist() == [str(i) for i in range(n)]


def test_dictionaries_of_batches_are_joined() -> None:
    first = pa.array(["a", None, "b"]).dictionary_encode()
    second = pa.array(["c", "b"])
    joined = join_columns([{"x": first}, {}, {"x": second}], [3, 2, 2])["x"]
    assert joined.to_pylist() == ["a", None, "b", None, None, "c", "b"]


def test_dictionary_keeps_no_text_that_no_row_has() -> None:
    array = pa.array(["a", "b", "c", None, "b"]).dictionary_encode()
    taken = take_columns({"x#s": array}, np.array([1, 3, 4]))["x#s"]
    hot = placed_alone("x#s", taken)
    assert hot is not None
    assert hot.dictionary.to_pylist() == ["b"]
    assert hot.to_pylist() == ["b", None, "b"]


def test_null_inside_a_dictionary_is_a_missing_value() -> None:
    odd = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert join_columns([{"x": odd}], [3])["x"].to_pylist() == ["a", None, None]


def test_ids_and_repeated_words_are_hot_and_prose_is_cold() -> None:
    n = 500
    ids = pa.array([str(uuid.UUID(int=i)) for i in range(n)])
    words = pa.array([("a long word that says much the same " * 3) + str(i % 9) for i in range(n)])
    prose = pa.array([("prose " * 20) + str(i) for i in range(n)])
    assert placed_alone("request_id#s", ids) is not None
    assert placed_alone("status#s", words) is not None
    assert placed_alone("note#s", prose) is None
    assert placed_alone("body", pa.array([f"short {i}" for i in range(n)])) is None
    assert placed_alone("body", pa.array([f"short {i % 20}" for i in range(n)])) is not None


def test_columns_with_few_values_are_cold() -> None:
    n = 10_000
    few = [1.0 if i % 1000 == 0 else None for i in range(n)]
    some = [1.0 if i % 4 == 0 else None for i in range(n)]
    assert placed_alone("x#f", pa.array(few)) is None
    assert placed_alone("x#f", pa.array(some)) is not None
    assert placed_alone("ground_emb", pa.array([1.0 if i % 100 == 0 else None for i in range(n)])) is not None
    assert placed_alone("source_line", pa.array(range(n))) is None


def test_columns_without_values_are_left_out() -> None:
    assert list(join_columns([{"x": pa.nulls(2, pa.int64()), "y": pa.array([1, None])}], [2])) == ["y"]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.list_(pa.int64())])
def test_more_than_32_bit_offsets_reach_is_kept_with_64(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "MAX_OFFSET", 10)
    rows: dict[pa.DataType, list[Any]] = {
        pa.string(): ["abcd", None, "efghi"],
        pa.binary(): [b"abcd", None, b"efghi"],
        pa.list_(pa.int64()): [[1, 2, 3, 4], None, [5] * 5],
    }
    piece = pa.array(rows[kind], kind)
    assert concat([piece.slice(0, 2), piece.slice(0, 2)]).type == kind
    whole = concat([piece, piece])
    assert whole.type != kind
    assert whole.to_pylist() == rows[kind] * 2


def test_columns_with_64_bit_offsets_go_through_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "MAX_OFFSET", 1000)
    rows = [
        "some text of a prompt, long enough to be kept as it is, and more of it " + str(i) for i in range(40)
    ]
    batches = [
        ColumnBatch(
            20,
            {
                "ts": pa.array(range(start, start + 20), pa.int64()),
                "seq": pa.array(range(start, start + 20)),
                "prompt": pa.array(rows[start : start + 20]),
                "body": pa.array(rows[start : start + 20]),
                "record": pa.array([b"> " + row.encode() for row in rows[start : start + 20]], pa.binary()),
            },
            TextParts.empty(),
            np.zeros(20, KEY),
        )
        for start in (0, 20)
    ]
    part = build(batches, None, dim=None, part_id="x")
    assert part.column("prompt").type == pa.large_string()
    segment = Segment.open(OS_FILES, tmp_path / "s", write(OS_FILES, tmp_path / "s", part, level=0, cell=0))
    for name in ("prompt", "body"):
        assert segment.column(name).to_pylist() == rows
        assert segment.column(name, np.array([39, 1])).to_pylist() == [rows[39], rows[1]]


@given(st.data(), st.integers(0, 6))
def test_residual_gives_every_type_back(data: st.DataObject, n_rows: int) -> None:
    columns = {}
    for code in data.draw(st.lists(st.sampled_from(list(PATH_TYPES)), unique=True)):
        rows = data.draw(st.lists(st.one_of(st.none(), VALUES[code]), min_size=n_rows, max_size=n_rows))
        columns[f"x#{code}"] = pa.array(rows, PATH_TYPES[code])
    cells = unpack_cells(pack_cells(cells_of(columns), n_rows))
    for name, array in columns.items():
        back = column_of(cells, name, n_rows)
        assert back.type == array.type
        assert values(back) == values(array)


@given(st.lists(st.tuples(st.one_of(st.none(), TEXTS), TEXTS, TEXTS)), st.booleans(), st.integers(0, 3))
def test_spans_give_texts_back_from_their_records(
    rows: list[tuple[str | None, str, str]], whole: bool, skip: int
) -> None:
    texts = pa.array([body for body, _, _ in rows], pa.string()).slice(skip)
    records = pa.array(
        [(a + (body or "") + ("" if whole else b)).encode() for body, a, b in rows], pa.binary()
    )
    records = records.slice(skip)
    spans = find_spans(texts, records)
    assert spans is not None
    assert cut_spans(records, *spans).to_pylist() == texts.to_pylist()


def test_texts_that_do_not_all_stand_in_their_records_have_no_spans() -> None:
    records = pa.array([b"one two"] * 500 + [b"\x1b[1mone two"], pa.binary())
    assert find_spans(pa.array(["two"] * 501), records) is not None
    assert find_spans(pa.array(["two"] * 500 + ["2"]), records) is None
    assert find_spans(pa.array(["two"]), pa.array([None], pa.binary())) is None


def test_residual_does_not_mix_a_text_with_a_number_that_json_lacks() -> None:
    columns = {"a#s": pa.array(["NaN", "Infinity"]), "a#f": pa.array([float("nan"), float("inf")])}
    cells = unpack_cells(pack_cells(cells_of(columns), 2))
    assert column_of(cells, "a#s", 2).to_pylist() == ["NaN", "Infinity"]
    assert [repr(v) for v in column_of(cells, "a#f", 2).to_pylist()] == ["nan", "inf"]


def test_random_columns_stay_equal_through_a_directory_with_odd_names() -> None:
    odd = {"a b#s": ["x", None], "日本#i": [1, 2], "a#b#f": [0.5, None], "~#b": [True, False], "ts#i": [5, 6]}
    columns = {name: pa.array(rows) for name, rows in odd.items()}
    columns |= {"ts": pa.array([1, 2]), "seq": pa.array([0, 1])}
    part = build([ColumnBatch(2, columns, TextParts.empty(), np.zeros(2, KEY))], None, dim=None, part_id="x")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "0--1-odd"
        segment = Segment.open(OS_FILES, directory, write(OS_FILES, directory, part, level=0, cell=0))
        assert {name: segment.column(name).to_pylist() for name in odd} == odd


def _all(mask: Any, array: pa.Array) -> Any:
    return np.ones(len(array), np.bool_) if mask is None else mask


def test_equal_columns_are_found_without_comparing_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def counting(first: pa.Array, second: pa.Array) -> bool:
        compared.append(1)
        return bool(first.equals(second))

    monkeypatch.setattr(joining_module, "_equal", counting)
    kinds: list[Callable[[int], list[Any]]] = [
        lambda i: [i, None, 0],
        lambda i: [f"{i:04d}", None, "b"],
        lambda i: [0.5, None, float(i)],
    ]
    columns = {f"{k}.{i}#x": pa.array(kind(i)) for k, kind in enumerate(kinds) for i in range(200)}
    twins = {f"twin {name}": pa.array(array.to_pylist()) for name, array in columns.items()}
    joined = join_columns([{**columns, **twins}], [3])
    assert all(joined[f"twin {name}"] is joined[name] for name in columns)
    assert len({id(array) for array in joined.values()}) == len(columns)
    assert len(compared) < 2 * len(columns)
