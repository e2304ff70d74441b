"""The filter `~ "text" > threshold`: by int8 codes where the bound decides, else by the stored vector."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treering.storage.part import VectorTable

from .bound import BSimilar
from .compare import OPERATORS
from .rows import Choice, Mask
from .scores import Scorer, VecIds
from .uses import distinct, uses_of

COMPLEMENT = {"<": ">=", "<=": ">"}


def similar(cond: BSimilar, choice: Choice) -> Mask:
    """Rows whose best text compares so with the probe; rows without a vector never do."""
    found = np.zeros(choice.part.n_rows, np.bool_)
    table = choice.part.vectors()
    uses = uses_of(choice, cond.probe.fields, table)
    scorer = Scorer(cond.probe)
    if cond.op == "=":
        rows, best = uses.best_by_row(scorer.exact(table, uses.vec))
        found[rows] = best.astype(np.float64) == cond.threshold
        return np.asarray(choice.of_rows(found), np.bool_)
    # The best of a row is below the threshold where none of its texts is above.
    op = COMPLEMENT.get(cond.op, cond.op)
    passing = _passing(scorer, table, distinct(uses.vec, len(table)), op, cond.threshold)[uses.vec]
    if op != cond.op:
        found[uses.row] = True
        found[uses.row[passing]] = False
    else:
        found[uses.row[passing]] = True
    return np.asarray(choice.of_rows(found), np.bool_)


def _passing(
    scorer: Scorer, table: VectorTable, ids: VecIds, op: str, threshold: float
) -> npt.NDArray[np.bool_]:
    """Bool by vector of the table: whether the exact score compares so; false for vectors not in `ids`."""
    holds = OPERATORS[op]
    passes = np.zeros(len(table), np.bool_)
    near, margin = scorer.approximate(table, ids)
    low, high = (near - margin).astype(np.float64), (near + margin).astype(np.float64)
    passes[ids] = holds(low, threshold)
    unsure = ids[(low <= threshold) & (high >= threshold)]
    passes[unsure] = holds(scorer.exact(table, unsure).astype(np.float64), threshold)
    return passes
