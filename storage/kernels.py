"""The inner loops of storage, compiled by numba; import this module only inside functions that run them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]


@njit(cache=True, fastmath=True, nogil=True)  # type: ignore[untyped-decorator]
def fill_log_signatures(
    steps: npt.NDArray[np.float32], ends: npt.NDArray[np.int64], moments: Floats, out: Floats
) -> None:
    """Fill `out` (k, d + d(d-1)/2) with the depth-2 log-signature of each of k paths.

    steps: float32 (n, d), C-contiguous; path p has the steps `[ends[p - 1], ends[p])`. moments: float64 (d,
    d), scratch. With S the sum of the steps before e: moments += S eᵀ, and area_ij = (moments_ij -
    moments_ji) / 2.
    """
    d = steps.shape[1]
    total = np.empty(d, np.float64)
    start = 0
    for p in range(ends.shape[0]):
        total[:] = 0.0
        moments[:, :] = 0.0
        for t in range(start, ends[p]):
            for i in range(d):
                before = total[i]
                for j in range(d):
                    moments[i, j] += before * steps[t, j]
            for j in range(d):
                total[j] += steps[t, j]
        start = ends[p]
        for i in range(d):
            out[p, i] = total[i]
        k = d
        for i in range(d):
            for j in range(i + 1, d):
                out[p, k] = 0.5 * (moments[i, j] - moments[j, i])
                k += 1
