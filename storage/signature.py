"""QLS: the depth-2 log-signature of a path of steps, what it composes to, and its int8 code.

The path is the running sum of its steps from 0, so level 1 is what the steps hold and level 2 in which order.
Source: S71. A signature of d dimensions is d sums and then the d(d-1)/2 areas (0, 1), (0, 2), ..., (d-2,
d-1).
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

N_DIMS = 16
"""Dimensions of a projected token state."""

N_VALUES = N_DIMS + N_DIMS * (N_DIMS - 1) // 2
"""Values of a signature: 16 sums and 120 areas."""

MAX_CODE = 127
"""Codes are symmetric, so that reversing a path negates its code."""

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]


def log_signature(steps: npt.NDArray[np.floating]) -> Floats:
    """Give the log-signature of one path.

    steps: (n, d). Returns float64 (d + d(d-1)/2): sum e, and area_ij = ½ Σ_{s<t} (e_s^i e_t^j - e_s^j e_t^i),
    i < j.
    """
    one: Floats = log_signatures(steps, np.array([len(steps)], np.int64))[0]
    return one


def log_signatures(steps: npt.NDArray[np.floating], ends: npt.NDArray[np.int64]) -> Floats:
    """Give the log-signatures of k paths whose steps lie one after the other.

    steps: (n, d); path p has the steps `[ends[p - 1], ends[p])`. Returns float64 (k, d + d(d-1)/2).
    """
    from .kernels import fill_log_signatures

    d = steps.shape[1]
    out = np.empty((len(ends), d + d * (d - 1) // 2))
    steps = np.ascontiguousarray(steps, np.float32)
    fill_log_signatures(steps, np.ascontiguousarray(ends, np.int64), np.empty((d, d)), out)
    return out


def compose(first: Floats, second: Floats) -> Floats:
    """Give the signature of `first`'s path followed by `second`'s; leading axes broadcast.

    Source: Chen's identity at depth 2: a₁ + a₂, A₁ + A₂ + ½ (a₁ a₂ᵀ - a₂ a₁ᵀ).
    """
    d = n_dims(first.shape[-1])
    i, j = _pairs(d)
    a, b = first[..., :d], second[..., :d]
    composed = first + second
    composed[..., d:] += 0.5 * (a[..., i] * b[..., j] - a[..., j] * b[..., i])
    return composed


def compose_all(signatures: Floats) -> Floats:
    """Give the composition of n signatures in their order.

    signatures: float64 (n, values). With S the sum of the level-1 parts before it, each piece adds ½ (S aᵀ -
    a Sᵀ).
    """
    d = n_dims(signatures.shape[-1])
    composed: Floats = signatures.sum(axis=0)
    level1 = signatures[:, :d]
    moments = (np.cumsum(level1, axis=0) - level1).T @ level1
    i, j = _pairs(d)
    composed[d:] += 0.5 * (moments[i, j] - moments[j, i])
    return composed


def quantise(signatures: Floats, scale: Floats) -> tuple[Codes, int]:
    """Give int8 codes and how many values did not fit and were cut to ±127.

    signatures: (..., values). scale: float64 (values), above 0, fixed with the basis; value ≈ code * scale.
    """
    codes = np.rint(signatures / scale)
    n_cut = int(np.count_nonzero(np.abs(codes) > MAX_CODE))
    return np.clip(codes, -MAX_CODE, MAX_CODE).astype(np.int8), n_cut


def dequantise(codes: Codes, scale: Floats) -> Floats:
    """Give the float64 values that codes stand for."""
    return codes.astype(np.float64) * scale


def compare(code: Codes, codes: Codes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give the integer dot products of one code with others, apart for each level: content and order.

    code: int8 (values). codes: int8 (..., values). Exact: 136 products of int8 fit an int32.
    """
    d = n_dims(code.shape[-1])
    wide = codes.astype(np.int32)
    one = code.astype(np.int32)
    content, order = wide[..., :d] @ one[:d], wide[..., d:] @ one[d:]
    return np.asarray(content, np.int64), np.asarray(order, np.int64)


def n_dims(n_values: int) -> int:
    """Give d of a signature of d + d(d-1)/2 values."""
    return (math.isqrt(8 * n_values + 1) - 1) // 2


@functools.cache
def _pairs(d: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.triu_indices(d, 1)
