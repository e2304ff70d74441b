from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.storage.agreement import agreeing_groups, agreeing_runs, kinds_of, plain_type
from treering.storage.batch import KEY, ColumnBatch, TextParts

KINDS = st.lists(
    st.dictionaries(st.sampled_from("ab"), st.sampled_from([pa.int64(), pa.string()])), max_size=9
)


@given(KINDS)
def test_groups_take_each_place_once_and_agree(kinds: list[dict[str, pa.DataType]]) -> None:
    groups = agreeing_groups(kinds)
    assert sorted(place for group in groups for place in group) == list(range(len(kinds)))
    for group in groups:
        assert group == sorted(group)
        for name in "ab":
            assert len({str(kinds[place][name]) for place in group if name in kinds[place]}) <= 1


@given(KINDS)
def test_runs_keep_the_order_and_agree(kinds: list[dict[str, pa.DataType]]) -> None:
    samples = {pa.int64(): pa.array([1]), pa.string(): pa.array(["x"])}
    given_batches = [
        ColumnBatch(1, {n: samples[k] for n, k in one.items()}, TextParts.empty(), np.zeros(1, KEY))
        for one in kinds
    ]
    runs = agreeing_runs(given_batches)
    assert [id(batch) for run in runs for batch in run] == [id(batch) for batch in given_batches]
    for run in runs:
        for name in "ab":
            assert len({str(b.columns[name].type) for b in run if name in b.columns}) <= 1


def test_batches_that_agree_stay_one_run() -> None:
    batches = [ColumnBatch(1, {"a": pa.array([i])}, TextParts.empty(), np.zeros(1, KEY)) for i in range(5)]
    assert len(agreeing_runs(batches)) == 1


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_list(pa.dictionary(pa.int32(), pa.string())), pa.list_(pa.string())),
        (pa.large_binary(), pa.binary()),
        (pa.float64(), pa.float64()),
    ],
)
def test_a_type_is_the_same_behind_every_encoding(kind: pa.DataType, plain: pa.DataType) -> None:
    assert plain_type(kind) == plain


def test_a_column_without_values_has_no_type() -> None:
    assert kinds_of({"a": pa.nulls(2, pa.int64()), "b": pa.array([None, "x"])}) == {"b": pa.string()}
