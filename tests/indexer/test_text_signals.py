from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import repetition as naive
from treering.indexer.text_signals import context_usage_ratio, repetition_ratio

SIGNS = st.one_of(
    st.sampled_from(list("aAbB1_ .!,\n\t幻觉あ한😀é－　。ª²\u00ad\u2009\u200b\u2028（")),
    st.characters(exclude_categories=["Cs"]),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c", None),
        ("a b c d", 0.0),
        ("one two three four five", 0.0),
        ("go go go go go", 1 - 1 / 2),
        ("a b c d a b c d", 1 - 4 / 5),
        ("Again again AGAIN again again again", 1 - 1 / 3),
        ("!!!!!!!!", 1 - 1 / 5),
        ("对不起对不起对不起", 1 - 3 / 6),
        ("I am sorry. I am sorry.", 1 - 4 / 5),
        ("", None),
        ("   \n ", None),
        (None, None),
    ],
)
def test_repetition_by_hand(text: str | None, expected: float | None) -> None:
    assert ratio([text])[0] == (None if expected is None else pytest.approx(expected))


@given(st.lists(st.one_of(st.none(), st.text(SIGNS, max_size=40)), max_size=8))
def test_repetition_is_that_of_python_sets(texts: list[str | None]) -> None:
    assert ratio(texts) == pytest.approx([naive.repetition_ratio(text) for text in texts])


def test_repetition_reads_slices_and_dictionaries() -> None:
    column = pa.array(["go go go go go", None, "a b c d"])
    assert to_list(repetition_ratio(column.slice(1))) == [None, 0.0]
    assert to_list(repetition_ratio(column.dictionary_encode())) == [0.5, None, 0.0]
    assert to_list(repetition_ratio(column.slice(3))) == []


def test_context_usage_by_hand() -> None:
    columns = {
        "input_tokens": pa.array([1000, 5000, None, 10, 10, -1]),
        "output_tokens": pa.array([24, 1000, 5, None, 10, 4]),
        "max_model_len": pa.array([4096, 4096, 4096, 4096, 0, 4096]),
    }
    found = context_usage_ratio(columns)
    assert found is not None
    assert to_list(found) == [0.25, pytest.approx(6000 / 4096), None, None, None, None]


def test_context_usage_needs_all_three_columns() -> None:
    assert context_usage_ratio({"input_tokens": pa.array([1]), "output_tokens": pa.array([1])}) is None


def ratio(texts: list[str | None]) -> list[float | None]:
    return to_list(repetition_ratio(pa.array(texts, pa.string())))


def to_list(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]
