"""Reading numbers, texts and lists out of decoded columns, missing values apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.object_]


def numbers(column: pa.Array) -> Floats:
    """Give a number column as float64, NaN where there is no value."""
    wide = pc.cast(column, pa.float64(), safe=False)
    return np.array(pc.fill_null(wide, np.nan), np.float64)


def array(values: Floats) -> pa.Array:
    """Give float64 values as a column, null where they are NaN."""
    return pa.array(values, mask=np.isnan(values))


def first_number(
    columns: Mapping[str, pa.Array], names: Iterable[str], low: float, high: float
) -> Floats | None:
    """Give, by row, the first value within `[low, high]` among the columns of these names.

    What lies outside is another quantity under the same name and is passed over. None: there are no such
    columns. Rows without a value have NaN.
    """
    result: Floats | None = None
    for name in names:
        if name not in columns:
            continue
        values = numbers(columns[name])
        values[~((values >= low) & (values <= high))] = np.nan
        result = values if result is None else np.where(np.isnan(result), values, result)
    return result


def texts(column: pa.Array) -> pa.Array:
    """Give a text column undictionaried."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def has_text(column: pa.Array) -> Bools:
    """Give which rows hold a text that is not blank."""
    filled = pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(texts(column))), 0)
    return np.array(pc.fill_null(filled, False), np.bool_)


def has_any_text(column: pa.Array) -> Bools:
    """Give which rows of a list-of-text column hold a text that is not blank."""
    n_filled = np.zeros(len(column), np.int64)
    filled = has_text(pc.list_flatten(column))
    np.add.at(n_filled, np.asarray(pc.list_parent_indices(column))[filled], 1)
    return n_filled > 0


def labels(known: Bools, label: str, elsewhere: Labels | None = None) -> Labels:
    """Give `label` where `known` is true, else what stands in `elsewhere` (nothing: None)."""
    result = np.full(len(known), None, object) if elsewhere is None else elsewhere.copy()
    result[known] = label
    return result


def list_numbers(column: pa.Array) -> tuple[npt.NDArray[np.int64], Floats]:
    """Give all numbers of a list column and the row of each; NaN where an element is missing."""
    return np.asarray(pc.list_parent_indices(column), np.int64), numbers(pc.list_flatten(column))
