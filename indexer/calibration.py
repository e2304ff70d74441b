"""The constants that belong to one model: token-path basis, signature scales, entropy fit of each head."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from treering.storage.errors import ModelError

from .cache import cache_folder, write_quietly

PATH_DIM = 16
"""Dimensions of a token path; its log-signature of depth 2 has 16 + 120 values."""

SHIPPED = "all-minilm-l6-v2.npz"
"""Constants of the default model, fitted by `benchmarks/fit`."""

RECIPE = "1"
"""Version of the fit that other models get on this machine; it is part of their ids."""

Floats = npt.NDArray[np.float32]

_BASIS = ("basis", "qls_scale")
_HEADS = ("slope", "intercept", "sd")


@dataclass(frozen=True, slots=True)
class HeadFit:
    """How the attention entropy of each head grows with length: bits ≈ intercept + slope * log2(tokens).

    slope, intercept, sd: float32 (layers * heads), layer by layer; sd is the deviation of the residuals, in
    bits.
    """

    slope: Floats
    intercept: Floats
    sd: Floats


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of one model. basis: float32 (dim, 16), orthonormal columns. qls_scale: float32 (136).

    fitted_on: what the constants were fitted on, for people.
    """

    basis: Floats
    qls_scale: Floats
    heads: HeadFit
    basis_id: str
    calibration_id: str
    fitted_on: str


def load(sha256: str, *, is_default: bool) -> Calibration:
    """Give the constants of the model with these weights.

    Raises
    ------
    ModelError
        The model is not the default one and was never loaded for embedding on this machine, or a file is
        damaged.
    """
    if is_default:
        return _parse(resources.files(__package__).joinpath("data", SHIPPED).read_bytes(), SHIPPED)
    path = _kept(sha256)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"the model with weights {sha256[:12]} was never calibrated on this machine "
            f"({path} cannot be read: {error.strerror}); embed something with it once, which calibrates it"
        ) from error
    return _parse(data, str(path))


def is_known(sha256: str, *, is_default: bool) -> bool:
    """Whether `load` would find the constants of this model."""
    return is_default or _kept(sha256).is_file()


def keep(sha256: str, constants: Calibration) -> None:
    """Remember the constants of a model other than the default one; without a cache they are fitted again."""
    write_quietly(_kept(sha256), dump(constants))


def shipped(basis: Floats, qls_scale: Floats, heads: HeadFit, fitted_on: str) -> Calibration:
    """Give constants whose ids are digests of their bytes, as the package carries them."""
    return Calibration(
        basis=basis,
        qls_scale=qls_scale,
        heads=heads,
        basis_id=_digest(basis.tobytes(), qls_scale.tobytes()),
        calibration_id=_digest(heads.slope.tobytes(), heads.intercept.tobytes(), heads.sd.tobytes()),
        fitted_on=fitted_on,
    )


def derived(basis: Floats, qls_scale: Floats, heads: HeadFit, sha256: str, corpus_id: str) -> Calibration:
    """Give constants whose ids name weights, corpus and recipe, so that two machines agree on them.

    The fit is a function of these three; its last bits depend on the processor, which must not make a store
    foreign.
    """
    recipe = _digest(sha256.encode(), corpus_id.encode(), RECIPE.encode())
    return Calibration(
        basis, qls_scale, heads, f"fit-{recipe}", f"fit-{recipe}", f"generated corpus {corpus_id}"
    )


def dump(constants: Calibration) -> bytes:
    """Give the constants as an npz file."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        basis=constants.basis,
        qls_scale=constants.qls_scale,
        slope=constants.heads.slope,
        intercept=constants.heads.intercept,
        sd=constants.heads.sd,
        ids=np.array([constants.basis_id, constants.calibration_id, constants.fitted_on]),
    )
    return file.getvalue()


def fit_basis(states: npt.NDArray[np.floating]) -> Floats:
    """Give the 16 main directions of token states, float32 (dim, 16), each with its largest entry positive.

    states: (tokens, dim). Projections are taken without subtracting the mean: it would not change areas
    much, and level 1 must stay linear in the pooled vector.
    """
    wide = states.astype(np.float64)
    spread = np.cov(wide, rowvar=False)
    _, vectors = np.linalg.eigh(spread)
    basis = vectors[:, ::-1][:, :PATH_DIM]
    signs = np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])])
    return np.ascontiguousarray(basis * signs, dtype=np.float32)


def fit_scales(signatures: npt.NDArray[np.floating]) -> Floats:
    """Give the step of each int8 code, float32 (136): its value's 99.9th percentile of size, over 127."""
    reach = np.quantile(np.abs(signatures), 0.999, axis=0)
    scale: Floats = np.maximum(reach / 127, np.finfo(np.float32).tiny).astype(np.float32)
    return scale


def fit_heads(bits: npt.NDArray[np.floating], n_tokens: npt.NDArray[np.integer]) -> HeadFit:
    """Fit each head's entropy on log2(tokens) by least squares; texts under 2 tokens are left out.

    bits: (texts, layers * heads). Source: systems catalogue, S70.
    """
    enough = n_tokens >= 2
    lengths = np.log2(n_tokens[enough].astype(np.float64))
    values = bits[enough].astype(np.float64)
    design = np.stack([lengths, np.ones_like(lengths)], axis=1)
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    sd = (values - design @ solution).std(axis=0)
    return HeadFit(
        slope=solution[0].astype(np.float32),
        intercept=solution[1].astype(np.float32),
        sd=np.maximum(sd, 1e-6).astype(np.float32),
    )


def _parse(data: bytes, name: str) -> Calibration:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {key: file[key] for key in (*_BASIS, *_HEADS, "ids")}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{name}: the model's constants are damaged ({error}); delete it, or reinstall treering"
        ) from error
    basis_id, calibration_id, fitted_on = (str(text) for text in arrays["ids"])
    return Calibration(
        basis=arrays["basis"],
        qls_scale=arrays["qls_scale"],
        heads=HeadFit(arrays["slope"], arrays["intercept"], arrays["sd"]),
        basis_id=basis_id,
        calibration_id=calibration_id,
        fitted_on=fitted_on,
    )


def _kept(sha256: str) -> Path:
    return cache_folder() / "models" / f"{sha256[:16]}-{RECIPE}.npz"


def _digest(*parts: bytes) -> str:
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        state.update(part)
    return state.hexdigest()
