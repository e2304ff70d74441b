"""The log-signature written out: by its double sum, and as the logarithm of a product of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def log_signature(steps: npt.NDArray[Any]) -> Floats:
    """Sum e, then ½ Σ_{s<t} (e_s^i e_t^j - e_s^j e_t^i) for i < j."""
    steps = steps.astype(np.float64)
    n, d = steps.shape
    areas = np.zeros((d, d))
    for t in range(n):
        for s in range(t):
            areas += np.outer(steps[s], steps[t]) - np.outer(steps[t], steps[s])
    return np.concatenate([steps.sum(axis=0), 0.5 * areas[np.triu_indices(d, 1)]])


def log_of_product(steps: npt.NDArray[Any]) -> Floats:
    """log(exp(e_1) ⊗ ... ⊗ exp(e_n)) in the tensor algebra cut off above degree 2."""
    d = steps.shape[1]
    first, second = np.zeros(d), np.zeros((d, d))
    for e in steps.astype(np.float64):
        second = second + np.outer(first, e) + 0.5 * np.outer(e, e)
        first = first + e
    log2 = second - 0.5 * np.outer(first, first)
    return np.concatenate([first, log2[np.triu_indices(d, 1)]])
