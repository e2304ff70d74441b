"""The nodes of a tree as an Arrow file: one row a node, in preorder."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow_file import ArrowFile, write_arrow
from .files import Files
from .stored_file import StoredFile
from .sums import Sums
from .tree import Tree
from .vectors import flat_view

FLAT: dict[str, npt.DTypeLike] = {
    "level": np.uint8,
    "cell": np.int64,
    "t_min": np.int64,
    "t_max": np.int64,
    "count": np.int32,
    "left": np.int32,
    "right": np.int32,
}
"""Columns with one value a node."""

WIDE: dict[str, npt.DTypeLike] = {
    "lo": np.int32,
    "hi": np.int32,
    "minimum": np.float64,
    "maximum": np.float64,
    "total": np.float64,
    "n": np.int32,
    "levels": np.int32,
    "signature": np.float32,
}
"""Columns with a fixed number of values a node; left out of the file where that is 0."""


def write_tree(
    files: Files, path: Path, tree: Tree, n_slices: int, *, sums: MutableMapping[str, Sums] | None = None
) -> StoredFile:
    """Write the nodes of a tree."""
    columns = {name: pa.array(getattr(tree, name)) for name in FLAT}
    for name in WIDE:
        values = np.ascontiguousarray(getattr(tree, name))
        if values.shape[1]:
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    facts = {"rows": len(tree.count), "signals": list(tree.signals), "slices": n_slices}
    return write_arrow(files, path, batch.schema, [batch], kind="patt", facts=facts, sums=sums)


def tree_from_arrow(file: ArrowFile) -> Tree:
    """Give the tree of an open file as views of it. Raises DamageError."""
    columns = file.columns()
    missing = [name for name in FLAT if name not in columns]
    if missing:
        raise file.damage(f"it lacks the column {missing[0]}")
    file.expect_rows(len(columns["count"]))
    flat = {name: flat_view(columns[name], dtype) for name, dtype in FLAT.items()}
    wide = {name: _matrix(columns.get(name), len(flat["count"]), dtype) for name, dtype in WIDE.items()}
    shards = wide["hi"] - wide["lo"]
    return Tree(signals=tuple(file.facts["signals"]), **flat, **wide, shards=shards)


def _matrix(array: pa.Array | None, n_rows: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    if array is None:
        return np.empty((n_rows, 0), dtype)
    return flat_view(array.values, dtype).reshape(n_rows, array.type.list_size)
