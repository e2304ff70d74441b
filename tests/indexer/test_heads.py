from __future__ import annotations

import numpy as np

from treering.indexer import heads
from treering.indexer.calibration import HeadFit


def fit(n: int, *, slope: float = 1.0, sd: float = 1.0) -> HeadFit:
    return HeadFit(np.full(n, slope, np.float32), np.zeros(n, np.float32), np.full(n, sd, np.float32))


def test_entropies_are_kept_to_a_64th_of_a_bit_and_saturate() -> None:
    bits = np.array([0.0, 0.01, 1.0, 3.217, 7.96, 9.0])
    codes = heads.encode_bits(bits)
    assert codes.tolist() == [0, 0, 32, 103, 255, 255]
    assert np.abs(heads.decode_bits(codes) - bits)[:-1].max() <= 1 / 64


def test_head_is_the_one_below_its_own_line_not_the_lowest() -> None:
    # Head 0 is always low; head 2 is lower than usual by twice its deviation.
    constants = HeadFit(*(np.array(v, np.float32) for v in ([0.125, 1, 1], [0, 0, 0], [0.5, 0.5, 0.5])))
    bits = np.array([[0.5, 4.0, 3.0]])
    head, second = heads.sharpest(bits, np.array([16]), constants, n_heads=3)
    assert (head[0], second[0]) == (2, 0)
    assert bits[0].argmin() == 0


def test_only_the_last_layer_counts_and_ties_go_to_the_lower_head() -> None:
    bits = np.array([[0.0, 0.0, 2.0, 2.0], [9.0, 9.0, 2.0, 1.5]])
    head, second = heads.sharpest(bits, np.array([4, 4]), fit(4), n_heads=2)
    assert head.tolist() == [0, 1] and second.tolist() == [1, 0]


def test_texts_under_two_tokens_have_no_head() -> None:
    head, second = heads.sharpest(np.zeros((3, 2)), np.array([0, 1, 2]), fit(2), n_heads=2)
    assert head.tolist() == [255, 255, 0] and second.tolist() == [255, 255, 1]


def test_one_headed_model_has_no_second() -> None:
    head, second = heads.sharpest(np.ones((1, 1)), np.array([5]), fit(1), n_heads=1)
    assert (head[0], second[0]) == (0, 255)


def test_sharpness_is_in_deviations_from_the_line() -> None:
    value = heads.sharpness(np.array([[3.0], [5.0]]), np.array([16, 16]), fit(1, sd=0.5))
    assert value.ravel().tolist() == [-2.0, 2.0]
