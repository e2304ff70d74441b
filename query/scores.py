"""Cosines of stored vectors with a query: from int8 codes with a proven error, exact from all 16 bits."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treering.storage.errors import QueryError
from treering.storage.part import VectorTable

from .bound import Probe

Floats = npt.NDArray[np.float32]
VecIds = npt.NDArray[np.int32]

SMALL = 4096
"""Up to this many vectors numpy scores as fast as loading the compiled kernels would take."""

LONGEST = 1.01
"""No stored vector is longer: unit vectors in fixed point, with room to spare."""

ROUNDING = 2e-6
"""More than float32 rounding adds to a cosine, a bound and a comparison of the two."""

BLOCK_ROWS = 256
"""Vectors turned into float64 at a time: they stay in the cache."""

LANES = 64
"""A score is summed as so many sums side by side, then by halves: the same bits with and without kernels."""

EXACT_WIDTH = 1024
"""Sums of this many products of int8 are exact in float32 (127 * 127 * 1024 < 2**24)."""

NO_IDS: VecIds = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Vectors that may be among the best k: ids with the upper bounds of their scores, best bound first.

    certain: every vector that scores at least this is here.
    """

    ids: VecIds
    upper: Floats
    certain: float


class Scorer:
    """Scores vectors of parts against one query vector.

    The score of a vector is its dot product with the query, summed in float64 over the stored float32
    numbers in an order that is fixed (`LANES`), and rounded to float32: it depends on nothing but the two
    vectors, so equal vectors tie in every part and plan. With x' = codes * scale, q' the query in int8:
    ``|q.x - q'.x'| <= |q| |x - x'| + |q - q'| |x'|``.
    """

    def __init__(self, probe: Probe, *, n_vectors: int = 0) -> None:
        """n_vectors: how many vectors are to be scored in all, which decides whether kernels are loaded."""
        self._is_large = n_vectors > SMALL
        self._exact = probe.vector.astype(np.float64)
        scale = float(np.abs(self._exact).max(initial=0.0)) / 127 or 1.0
        self._scale = np.float32(scale)
        self._codes = np.rint(self._exact / float(self._scale)).clip(-127, 127).astype(np.int8)
        lost = float(np.linalg.norm(self._exact - self._codes * float(self._scale)))
        length = float(np.linalg.norm(self._exact))
        self.slope = np.float32((length + lost) * (1 + 1e-6))
        self.slack = np.float32(lost * LONGEST + ROUNDING * max(length, 1.0))

    def exact(self, table: VectorTable, ids: VecIds) -> Floats:
        """Scores of the vectors `ids`; -inf where no vector of the table has come yet."""
        if not self._check(table):
            return np.full(len(ids), -np.inf, np.float32)
        out = np.empty(len(ids), np.float32)
        if self._compiled(len(ids)):
            from . import kernels

            table.touch(ids)
            wanted = np.ascontiguousarray(ids, np.int32)
            kernels.rescore(table.codes, table.rest, table.scale, wanted, self._exact, out)
            return out
        for start in range(0, len(ids), BLOCK_ROWS):
            block = table.exact(ids[start : start + BLOCK_ROWS])
            out[start : start + len(block)] = self._dots(block)
        return out

    def approximate(self, table: VectorTable, ids: VecIds | None = None) -> tuple[Floats, Floats]:
        """Scores of vectors (all, or `ids`) and how far each may be off; -inf for a vector still to come."""
        chosen = slice(None) if ids is None else ids
        n = len(table) if ids is None else len(ids)
        if not self._check(table):
            return np.full(n, -np.inf, np.float32), np.zeros(n, np.float32)
        table.touch(ids)
        near = self._approximate(table, ids, n)
        return near, self.slope * table.err[chosen] + self.slack

    def candidates(
        self, table: VectorTable, k: int, ids: VecIds | None = None, floor: float = -np.inf
    ) -> Candidates:
        """Vectors (of all, or of `ids`) that may be among the k best and score at least `floor`."""
        n = len(table) if ids is None else len(ids)
        if not self._check(table):
            return Candidates(NO_IDS, np.empty(0, np.float32), floor)
        table.touch(ids)
        if k >= n or not self._compiled(n):
            near, margin = self.approximate(table, ids)
            lowest = _kth_best(near - margin, k)
            certain = max(float(lowest), floor)
            found = np.flatnonzero((near + margin >= certain) & (near > -np.inf)).astype(np.int32)
            upper = (near + margin)[found]
            found = found if ids is None else ids[found]
        else:
            found, upper, certain = self._select(table, k, ids, n, floor)
        order = np.argsort(-upper, kind="stable")
        return Candidates(found[order], upper[order], certain)

    def _select(
        self, table: VectorTable, k: int, ids: VecIds | None, n: int, floor: float
    ) -> tuple[VecIds, Floats, float]:
        from . import kernels

        lowest = np.full(max(k, 1), -np.inf, np.float32)
        found, upper = np.empty(n, np.int32), np.empty(n, np.float32)
        n_found = kernels.select(
            *(
                table.codes,
                table.scale,
                table.err,
                table.have,
                NO_IDS if ids is None else ids,
                ids is not None,
            ),
            *(self._padded(table), self._scale, self.slope, self.slack, np.float32(floor)),
            *(kernels.HAS_VNNI, lowest, found, upper),
        )
        certain = max(float(lowest.min()), floor)
        kept = np.flatnonzero(upper[:n_found] >= np.float32(certain))
        return found[kept], upper[kept], certain

    def _approximate(self, table: VectorTable, ids: VecIds | None, n: int) -> Floats:
        if self._compiled(n):
            from . import kernels

            out = np.empty(n, np.float32)
            kernels.score(
                *(table.codes, table.scale, table.have, NO_IDS if ids is None else ids, ids is not None),
                *(self._padded(table), self._scale, kernels.HAS_VNNI, out),
            )
            return out
        chosen = slice(None) if ids is None else ids
        wide = np.float32 if len(self._codes) <= EXACT_WIDTH else np.float64
        dots = table.codes[chosen].astype(wide) @ self._padded(table).astype(wide)
        scores = dots.astype(np.float32) * (table.scale[chosen] * self._scale)
        return np.where(table.have[chosen], scores, np.float32(-np.inf)).astype(np.float32)

    def _dots(self, vectors: Floats) -> npt.NDArray[np.float64]:
        n, dim = vectors.shape
        products = np.zeros((n, -(-dim // LANES) * LANES))
        np.multiply(vectors, self._exact, out=products[:, :dim])
        sums = products.reshape(n, -1, LANES).sum(axis=1)
        while sums.shape[1] > 1:
            half = sums.shape[1] // 2
            sums = sums[:, :half] + sums[:, half:]
        return np.asarray(sums[:, 0])

    def _compiled(self, n: int) -> bool:
        return self._is_large or n > SMALL or f"{__package__}.kernels" in sys.modules

    def _padded(self, table: VectorTable) -> npt.NDArray[np.int8]:
        padded = np.zeros(table.codes.shape[1], np.int8)
        padded[: len(self._codes)] = self._codes
        return padded

    def _check(self, table: VectorTable) -> bool:
        """Whether the table has vectors to compare: one that waits for all of them has no width yet."""
        if not table.dim:
            return False
        if table.dim != len(self._exact):
            raise QueryError(
                f"the query vector has {len(self._exact)} dimensions, the stored vectors have "
                f"{table.dim}: use the model that the store was built with"
            )
        return True


def _kth_best(values: Floats, k: int) -> float:
    if k > len(values):
        return -np.inf
    return float(np.partition(values, len(values) - k)[len(values) - k]) if k else np.inf
