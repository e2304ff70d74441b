"""Scores of stored vectors: exact ones are brute force, approximate ones lie within their proven margin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.parts import DIM, Event, PlainPart, unit
from treering.query import bound as b
from treering.query.plan import Plan
from treering.query.rows import Choice
from treering.query.scores import Scorer
from treering.query.semantic import nearest
from treering.query.similar import similar
from treering.storage.batch import KEY, Vectors
from treering.storage.part import VectorTable
from treering.storage.vectors import from_arrow, make_table, to_arrow

DIMS = [1, 10, 63, 64, 65, 384, 1100]


@st.composite
def unit_vectors(draw: st.DrawFn, u: int, dim: int) -> npt.NDArray[np.float32]:
    """Vectors of unit length, or zero, that are hard to code: one big number, many at the edge of a code, tiny ones."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.standard_normal((u, dim))
    for row in range(u):
        match draw(st.sampled_from(["any", "big", "edge", "sparse", "tiny", "alike", "zero"])):
            case "big":
                x[row, rng.integers(dim)] = 1e4
            case "edge":
                # All but one number lie half way between two codes.
                x[row] = (rng.integers(-3, 4, dim) + 0.499) / 127.5
                x[row, 0] = 1.0
            case "sparse":
                x[row, rng.random(dim) < 0.9] = 0.0
                x[row, 0] += 1.0
            case "tiny":
                x[row] = np.where(rng.random(dim) < 0.5, 1e-45, 1e-40)
                x[row, -1] = -1.0
            case "alike":
                x[row] = 1.0
            case "zero":
                x[row] = 0.0
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(np.divide(x, norms, out=np.zeros_like(x), where=norms > 0), np.float32)


def table_of(x: npt.NDArray[np.float32], *, stored: bool = False) -> VectorTable:
    table = make_table(np.zeros(len(x), KEY), np.ones(len(x), np.bool_), Vectors.of(np.zeros(len(x), KEY), x))
    return from_arrow(to_arrow(table)) if stored else table


@pytest.mark.parametrize("is_compiled", [True, False])
@settings(deadline=None, max_examples=60)
@given(data=st.data(), dim=st.sampled_from(DIMS), stored=st.booleans())
def test_bounds_hold_and_exact_is_brute_force(
    is_compiled: bool, data: st.DataObject, dim: int, stored: bool
) -> None:
    table = table_of(data.draw(unit_vectors(7, dim)), stored=stored)
    (query,) = data.draw(unit_vectors(1, dim))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scorer, "_compiled", lambda self, n: is_compiled)
        scorer = Scorer(b.Probe("q", query, None))
        near, margin = scorer.approximate(table)
        exact = scorer.exact(table, np.arange(7, dtype=np.int32))
    kept = table.exact(np.arange(7)).astype(np.float64)
    true = [float(np.float32(math.fsum(row * query.astype(np.float64)))) for row in kept]
    assert exact.tolist() == pytest.approx(true, rel=1.2e-7, abs=1e-12)
    assert (np.abs(np.array(true) - near.astype(np.float64)) <= margin).all()


@pytest.mark.parametrize("dim", DIMS)
def test_compiled_scores_are_the_plain_ones_bit_by_bit(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(dim)
    table = table_of(unit(rng.standard_normal((700, dim))))
    scorer = Scorer(b.Probe("q", unit(rng.standard_normal((1, dim)))[0], None))
    ids = rng.permutation(700).astype(np.int32)
    found = {}
    for is_compiled in (True, False):
        monkeypatch.setattr(Scorer, "_compiled", lambda self, n, is_compiled=is_compiled: is_compiled)
        found[is_compiled] = scorer.exact(table, ids)
    assert found[True].tobytes() == found[False].tobytes()
    # A vector's score does not depend on what is scored with it.
    assert scorer.exact(table, ids[5:6]).tobytes() == found[False][5:6].tobytes()


@pytest.mark.parametrize("plan", ["flat", "dictionary", "certified"])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_every_vector_that_is_read_was_touched_before(
    plan: str, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    vectors = unit(rng.standard_normal((40, DIM)))
    part = PlainPart([Event(i, i, texts=[(0, i % 40)]) for i in range(90)], vectors)
    monkeypatch.setattr(Scorer, "_compiled", lambda self, n: is_compiled)
    choice = Choice(part, slice(0, 90)).where(np.arange(90) % 40 < 20)
    probe = b.Probe("q", vectors[3], None)
    wanted = nearest([choice], probe, 5, Plan(), force=plan).seq.tolist()
    table = part.vectors()
    true_codes, true_rest = table.codes, table.rest
    # Bytes come into memory only when they are touched, as far as this part is concerned.
    table.codes, table.rest = np.zeros_like(true_codes), np.zeros_like(true_rest)

    def fetch(rows: npt.NDArray[np.integer[Any]] | None) -> None:
        chosen = slice(None) if rows is None else rows
        table.codes[chosen], table.rest[chosen] = true_codes[chosen], true_rest[chosen]

    table.guard = fetch
    assert nearest([choice], probe, 5, Plan(), force=plan).seq.tolist() == wanted
    table.codes[:], table.rest[:] = 0, 0
    mask = similar(b.BSimilar(probe, ">", 0.99), choice)
    assert choice.row_ids()[mask].tolist() == [3, 43, 83]
