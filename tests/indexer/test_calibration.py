from __future__ import annotations

import numpy as np
import pytest

from treering.indexer import calibration
from treering.indexer.calibration import Calibration, HeadFit
from treering.storage.errors import ModelError


def test_head_fit_finds_the_line_that_made_the_entropies() -> None:
    rng = np.random.default_rng(1)
    n_tokens = rng.integers(2, 200, 4000)
    noise = rng.normal(0, [0.1, 0.3], (4000, 2))
    bits = np.log2(n_tokens)[:, None] * [0.9, 0.5] + [0.2, -0.1] + noise
    fit = calibration.fit_heads(bits, n_tokens)
    np.testing.assert_allclose(fit.slope, [0.9, 0.5], atol=0.02)
    np.testing.assert_allclose(fit.intercept, [0.2, -0.1], atol=0.06)
    np.testing.assert_allclose(fit.sd, [0.1, 0.3], rtol=0.05)


def test_head_fit_leaves_out_texts_without_entropy() -> None:
    n_tokens = np.array([2, 4, 8, 16, 0, 1, 1])
    bits = np.array([[1.0], [2.0], [3.0], [4.0], [0.0], [0.0], [0.0]])
    fit = calibration.fit_heads(bits, n_tokens)
    assert fit.slope[0] == pytest.approx(1) and fit.intercept[0] == pytest.approx(0, abs=1e-6)


def test_basis_is_orthonormal_and_finds_the_directions_of_spread() -> None:
    rng = np.random.default_rng(2)
    states = rng.normal(0, 1, (3000, 40)) * np.linspace(5, 0.01, 40)
    basis = calibration.fit_basis(states)
    assert basis.shape == (40, 16) and basis.dtype == np.float32
    np.testing.assert_allclose(basis.T @ basis, np.eye(16), atol=1e-5)
    assert np.abs(basis[:16]).max(axis=0).min() > 0.5


def test_scales_cut_about_one_value_in_a_thousand() -> None:
    values = np.random.default_rng(3).normal(0, 1, (20_000, 136)) * np.linspace(0.01, 3, 136)
    scale = calibration.fit_scales(values)
    assert 0.0005 < (np.abs(values) > 127 * scale).mean() < 0.002


def test_scale_of_a_value_that_is_always_zero_is_not_zero() -> None:
    assert (calibration.fit_scales(np.zeros((10, 136))) > 0).all()


def test_constants_survive_their_file() -> None:
    constants = _constants()
    loaded = calibration._parse(calibration.dump(constants), "x")
    np.testing.assert_array_equal(loaded.basis, constants.basis)
    np.testing.assert_array_equal(loaded.heads.sd, constants.heads.sd)
    assert (loaded.basis_id, loaded.calibration_id) == (constants.basis_id, constants.calibration_id)


def test_damaged_constants_are_named() -> None:
    with pytest.raises(ModelError, match="some file"):
        calibration._parse(calibration.dump(_constants())[:100], "some file")


def test_shipped_constants_have_the_ids_of_their_bytes() -> None:
    shipped = calibration.load("", is_default=True)
    again = calibration.shipped(shipped.basis, shipped.qls_scale, shipped.heads, "")
    assert (again.basis_id, again.calibration_id) == (shipped.basis_id, shipped.calibration_id)
    assert shipped.basis.shape == (384, 16) and shipped.qls_scale.shape == (136,)
    assert shipped.heads.slope.shape == (72,) and "generated corpus" in shipped.fitted_on


def test_derived_ids_depend_on_weights_and_corpus_but_not_on_the_last_bits() -> None:
    one = _constants()
    ids = {
        calibration.derived(basis, one.qls_scale, one.heads, sha, corpus).basis_id
        for basis, sha, corpus in (
            (one.basis, "a", "c"),
            (one.basis + 1e-7, "a", "c"),
            (one.basis, "b", "c"),
            (one.basis, "a", "d"),
        )
    }
    assert len(ids) == 3


def test_kept_constants_are_found_again_and_unknown_ones_are_an_error() -> None:
    calibration.keep("f" * 64, _constants())
    assert calibration.is_known("f" * 64, is_default=False)
    assert calibration.load("f" * 64, is_default=False).basis_id == _constants().basis_id
    with pytest.raises(ModelError, match="never calibrated on this machine"):
        calibration.load("e" * 64, is_default=False)


def _constants() -> Calibration:
    rng = np.random.default_rng(4)
    basis = rng.normal(size=(8, 16)).astype(np.float32)
    heads = HeadFit(*(rng.random(4).astype(np.float32) for _ in range(3)))
    return calibration.shipped(basis, rng.random(136).astype(np.float32), heads, "test")
