"""Attention entropies of the embedding model's heads, and which head a text belongs to.

These are the embedding model's own heads: they say how it reads the text, nothing about the model that was
served.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treering.storage.batch import UInt8s

from .calibration import HeadFit

STEPS_PER_BIT = 32
"""Entropies are stored as uint8 in steps of 1/32 bit; 255 is 7.97 bits or more (254 tokens have 7.99)."""

NO_HEAD = 255
"""Head of a text with fewer than 2 tokens."""

Floats = npt.NDArray[np.floating]


def encode_bits(bits: Floats) -> UInt8s:
    """Give entropies in bits as stored codes."""
    return np.clip(np.rint(bits * STEPS_PER_BIT), 0, 255).astype(np.uint8)


def decode_bits(codes: UInt8s) -> npt.NDArray[np.float32]:
    """Give stored codes as entropies in bits."""
    return codes.astype(np.float32) / np.float32(STEPS_PER_BIT)


def sharpness(bits: Floats, n_tokens: npt.NDArray[np.integer], fit: HeadFit) -> npt.NDArray[np.float64]:
    """Give how far each head's entropy lies from what the text's length explains, in standard deviations.

    bits: (texts, layers * heads). Negative: sharper than usual. Texts under 2 tokens give zeros.
    Raw entropy is mostly length (correlation .92 to .97 with log2 tokens), so heads are compared only this
    way.
    Source: systems catalogue, S70.
    """
    lengths = np.log2(np.maximum(n_tokens, 1).astype(np.float64))[:, None]
    residual = (bits - (fit.intercept + fit.slope * lengths)) / fit.sd
    return np.where((n_tokens >= 2)[:, None], residual, 0.0)


def sharpest(
    bits: Floats, n_tokens: npt.NDArray[np.integer], fit: HeadFit, *, n_heads: int
) -> tuple[UInt8s, UInt8s]:
    """Give the last layer's sharpest and second sharpest calibrated head of each text, uint8 (texts).

    A tie goes to the lower head. Texts under 2 tokens, and the second of a one-headed model, give `NO_HEAD`.
    """
    last = sharpness(bits, n_tokens, fit)[:, -n_heads:]
    order = np.argsort(last, axis=1, kind="stable")
    few = n_tokens < 2
    head = np.where(few, NO_HEAD, order[:, 0]).astype(np.uint8)
    if n_heads < 2:
        return head, np.full(len(head), NO_HEAD, np.uint8)
    return head, np.where(few, NO_HEAD, order[:, 1]).astype(np.uint8)
