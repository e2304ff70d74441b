"""A table of vectors that nothing was written from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treering.storage.part import VectorTable
from treering.storage.vectors import empty_table


def make_vectors(n_rows: int) -> tuple[VectorTable, npt.NDArray[np.int32]]:
    rng = np.random.default_rng(11)
    keys = np.zeros(40, [("hi", "<u8"), ("lo", "<u8")])
    keys["hi"] = np.arange(1, 41)
    table = empty_table(keys, 8, 0, 136)
    table.have[:] = True
    table.qls[:] = rng.integers(-127, 128, (40, 136))
    return table, rng.integers(-1, 40, n_rows).astype(np.int32)
