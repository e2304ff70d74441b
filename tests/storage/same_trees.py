"""Trees compared value by value."""

from __future__ import annotations

import numpy as np

from treering.storage.tree import Tree


def assert_alike(found: Tree, expected: Tree) -> None:
    """Everything to the bit, but for sums (rounding) and signatures (float32)."""
    for name in (
        "level",
        "cell",
        "t_min",
        "t_max",
        "count",
        "left",
        "right",
        "lo",
        "hi",
        "shards",
        "levels",
        "n",
    ):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(found.minimum, expected.minimum)
    np.testing.assert_array_equal(found.maximum, expected.maximum)
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-9, atol=2.0**20)
    scale = np.nanmax(np.abs(expected.signature), axis=1, initial=1.0)[:, None]
    np.testing.assert_allclose(found.signature / scale, expected.signature / scale, rtol=0, atol=2e-6)
