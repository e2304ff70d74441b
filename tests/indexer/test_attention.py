from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from treering.indexer import attention
from treering.indexer.heads import encode_bits


def lists(*rows: Sequence[float | None] | None) -> pa.Array:
    return pa.array(rows, pa.list_(pa.float64()))


def test_collapse_and_decay_by_hand() -> None:
    # Six layers: the last third are the last two; first .8, last .2.
    pair = attention.of_layers(lists([0.8, 0.7, 0.6, 0.5, 0.4, 0.2]))
    assert pair.collapse[0] == pytest.approx(1 - (0.4 + 0.2) / 2)
    assert pair.decay[0] == pytest.approx((0.8 - 0.2) / 0.8)


@pytest.mark.parametrize(
    ("layers", "n_last"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2), (7, 3), (12, 4), (32, 11)]
)
def test_last_third_is_rounded_up(layers: int, n_last: int) -> None:
    values = [0.5] * (layers - n_last) + [0.0] * n_last
    assert attention.of_layers(lists(values)).collapse[0] == 1.0
    values = [0.5] * (layers - n_last) + [0.5] + [0.0] * (n_last - 1)
    assert attention.of_layers(lists(values)).collapse[0] == pytest.approx(1 - 0.5 / n_last)


def test_rising_entropy_is_a_negative_decay_and_a_dead_first_layer_divides_by_epsilon() -> None:
    pair = attention.of_layers(lists([0.4, 0.6], [0.0, 0.5]))
    assert pair.decay.tolist() == pytest.approx([-0.5, -50.0])


def test_what_is_not_normalised_or_incomplete_gives_nothing() -> None:
    pair = attention.of_layers(
        lists(None, [], [3.2, 2.1], [0.5, None], [0.5, float("nan")], [-0.1, 0.2], [0.5, 0.5])
    )
    assert np.isnan(pair.collapse).tolist() == [True] * 6 + [False]
    assert np.isnan(pair.decay).tolist() == [True] * 6 + [False]


def test_one_layer_has_no_decay() -> None:
    pair = attention.of_layers(lists([0.25]))
    assert pair.collapse[0] == 0.75 and math.isnan(pair.decay[0])


def test_a_slice_of_a_column_gives_its_own_rows() -> None:
    column = lists([0.1, 0.1], None, [0.8, 0.4], [0.5, 0.5]).slice(2, 2)
    assert attention.of_layers(column).collapse.tolist() == pytest.approx([0.6, 0.5])


def test_producers_own_values_win_over_the_computed_pair() -> None:
    columns = {
        "attention_entropy": lists([0.9, 0.9], [0.9, 0.9], None),
        "attention_collapse#f": pa.array([0.7, None, None], pa.float64()),
    }
    pair = attention.of_producer(columns, 3)
    assert pair is not None
    assert pair.collapse[:2].tolist() == pytest.approx([0.7, 0.1]) and math.isnan(pair.collapse[2])
    assert math.isnan(pair.decay[0]) and pair.decay[1] == 0
    assert pair.known.tolist() == [True, True, False]


def test_no_column_costs_nothing_and_gives_none() -> None:
    assert attention.of_producer({"body": pa.array(["x"])}, 1) is None


def test_uniform_attention_of_the_encoder_has_not_collapsed() -> None:
    n_tokens = np.array([4, 16, 1])
    bits = np.array([[2.0] * 6, [4.0] * 6, [0.0] * 6])
    pair = attention.of_encoder(encode_bits(bits), n_tokens, n_layers=3)
    assert pair.collapse[:2].tolist() == [0, 0] and pair.decay[:2].tolist() == [0, 0]
    assert math.isnan(pair.collapse[2]) and math.isnan(pair.decay[2])


def test_encoder_pair_by_hand() -> None:
    # Three layers of two heads, 16 tokens (4 bits): layer means 4, 3, 1 bits.
    pair = attention.of_encoder(encode_bits(np.array([[4.0, 4, 2, 4, 0.5, 1.5]])), np.array([16]), n_layers=3)
    assert pair.collapse[0] == pytest.approx(0.75) and pair.decay[0] == pytest.approx(0.75)


def test_no_text_has_no_attention() -> None:
    pair = attention.of_encoder(np.empty((0, 0), np.uint8), np.empty(0, np.uint16), n_layers=6)
    assert len(pair.collapse) == len(pair.decay) == 0
