"""Vectors as 16-bit fixed point: whole numbers with one step a vector, and the two int8 planes they lie in.

This is the stored truth: what `restore` gives of it is what *exact* means everywhere. Why 16 bits, and why
two planes: `docs/design/vectors.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import ConfigError

Int8s = npt.NDArray[np.int8]
Int16s = npt.NDArray[np.int16]
Float32s = npt.NDArray[np.float32]

LARGEST = 32_639
"""Largest magnitude of a value: 127 * 256 + 127, so that both planes stay within int8."""

PLANE = 256
"""value = PLANE * high + low. A power of two, so that PLANE * step is exact in float32."""

BLOCK_ROWS = 256
"""Vectors worked on at once: their float64 copy stays in the cache."""

_TOO_LARGE = 3e38
"""From here on the products would leave float32."""


def quantise(vectors: npt.NDArray[np.floating[Any]]) -> tuple[Int16s, Float32s]:
    """Give values int16 (u, dim) and step float32 (u) of vectors (u, dim), taken as float32.

    With x a vector, step is the least float32 whose float32 product with `LARGEST` is at least max|x|, and
    value = x / step, rounded; no number is off by more than half a step, but for float32 rounding. A zero
    vector has step 0. Quantising what `restore` gives changes nothing, unless its step is subnormal. Raises
    ConfigError for NaN, infinity and numbers beyond float32.
    """
    u, dim = vectors.shape
    values, step = np.zeros((u, dim), np.int16), np.zeros(u, np.float32)
    for start in range(0, u if dim else 0, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        with np.errstate(over="ignore"):
            block = vectors[rows].astype(np.float32)
        step[rows] = _least_steps(np.abs(block).max(axis=1))
        divisor = np.where(step[rows] > 0, step[rows], 1).astype(np.float64)
        values[rows] = np.rint(block / divisor[:, None])
    return values, step


def restore(values: Int16s, step: Float32s) -> Float32s:
    """Give the vectors, float32 (u, dim): the float32 product of each value and its vector's step."""
    vectors: Float32s = np.multiply(values, step[:, None], dtype=np.float32)
    return vectors


def split(values: Int16s) -> tuple[Int8s, Int8s]:
    """Give the planes int8 (u, dim): high in [-127, 127], the nearest multiple of `PLANE`, and low, the rest."""
    high, low = np.empty(values.shape, np.int8), np.empty(values.shape, np.int8)
    for start in range(0, len(values), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        high[rows] = nearest = (values[rows] + np.int16(PLANE // 2)) >> 8
        low[rows] = values[rows] - (nearest << 8)
    return high, low


def join(high: Int8s, low: Int8s) -> Int16s:
    """Give the values whose planes these are."""
    values = high.astype(np.int16)
    values <<= 8
    values += low
    return values


def plane_error(low: Int8s, step: Float32s) -> Float32s:
    """Give err float32 (u) >= ‖x - PLANE * step * high‖ of the vectors x that `restore` gives.

    x is step * value but for the rounding of its products, at most 2**-24 of `LARGEST` steps each.
    """
    u, dim = low.shape
    square = np.zeros(u)
    for start in range(0, u, BLOCK_ROWS):
        block = low[start : start + BLOCK_ROWS].astype(np.float64)
        square[start : start + BLOCK_ROWS] = np.einsum("ij,ij->i", block, block)
    lost = np.sqrt(square) + LARGEST * 2.0**-24 * np.sqrt(dim)
    return _round_up(step * lost)


def _least_steps(largest: Float32s) -> Float32s:
    if not (largest < _TOO_LARGE).all():
        raise ConfigError("a vector holds NaN, infinity or a number beyond float32; leave it out or mend it")
    near = (largest.astype(np.float64) / LARGEST).astype(np.float32)
    step = np.nextafter(near, np.float32(np.inf))
    # The least that reaches: rounding up would not be enough for `quantise` to give back its own steps.
    for lower in (near, np.nextafter(near, np.float32(0))):
        step = np.where(lower * np.float32(LARGEST) >= largest, lower, step)
    return step


def _round_up(values: npt.NDArray[np.float64]) -> Float32s:
    # The float64 product itself may be short by some 1e-16 of its size; 1e-9 covers any dimension.
    values = values * (1 + 1e-9)
    rounded = values.astype(np.float32)
    return np.where(rounded < values, np.nextafter(rounded, np.float32(np.inf)), rounded)
