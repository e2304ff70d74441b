"""Token states to the code of their path: projection, running sum, log-signature, int8.

The path's steps are the projected token states, special tokens included, divided by the length of their
sum. So its level 1 is the projection of the unit mean-pooled vector, and its level 2 (areas) says in which
order the content came.
Source: systems catalogue, S71.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treering.storage.signature import log_signatures, quantise

Floats = npt.NDArray[np.float32]


def signatures(states: Floats, lengths: npt.NDArray[np.integer], basis: Floats) -> npt.NDArray[np.float64]:
    """Give the log-signature of each text of a batch, float64 (texts, 136).

    states: (texts, longest, dim), zeros behind a text's end. lengths: tokens of each text, special ones
    included.
    """
    return log_signatures(steps(states, lengths, basis), np.cumsum(lengths, dtype=np.int64))


def steps(states: Floats, lengths: npt.NDArray[np.integer], basis: Floats) -> Floats:
    """Give the steps of all paths one after the other, float32 (tokens, 16)."""
    size = np.linalg.norm(states.sum(axis=1, dtype=np.float64), axis=1)
    projected = states @ basis / np.maximum(size, 1e-12)[:, None, None]
    is_token = np.arange(states.shape[1]) < lengths[:, None]
    return np.ascontiguousarray(projected[is_token], np.float32)


def encode(signature: npt.NDArray[np.float64], qls_scale: Floats) -> npt.NDArray[np.int8]:
    """Give log-signatures (texts, 136) as int8 codes; value ≈ code * scale, what lies beyond is saturated."""
    codes, _ = quantise(signature, qls_scale.astype(np.float64))
    return codes
