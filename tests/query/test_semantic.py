"""Each semantic plan gives what a comparison with every stored vector gives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.naive.execute import Naive
from tests.query.parts import DIM, Event, PlainPart, unit, vector_table
from tests.query.strategies import probes, stores
from treering.query import bound as b
from treering.query.plan import Plan
from treering.query.rows import Choice
from treering.query.scan import matching
from treering.query.scores import Scorer
from treering.query.semantic import nearest

PLANS = ["flat", "dictionary", "certified"]


@pytest.fixture(autouse=True)
def _look_after_every_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.query.semantic.FIRST_BLOCK", 1)


def drawn(rng: np.random.Generator, n: int, dim: int = DIM) -> npt.NDArray[np.float32]:
    return unit(rng.standard_normal((n, dim)))


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.data(), st.sampled_from(PLANS), st.integers(0, 9))
def test_each_plan_equals_brute_force(data: st.DataObject, plan: str, k: int) -> None:
    snapshot, events, vectors = data.draw(stores())
    probe = data.draw(probes(vectors))
    kept = data.draw(st.sets(st.integers(0, 23)))
    choices = []
    for part in snapshot.parts:
        whole = Choice(part, slice(0, part.n_rows))
        choices.append(whole.where(np.array([int(s) in kept for s in part.seq], np.bool_)))
    naive = Naive([e for e in events if e.seq in kept], vectors)
    expected = naive.rows(b.BoundQuery(near=probe, limit=k))
    found = nearest(choices, probe, k, Plan(), force=plan)
    assert [int(s) for s in found.seq] == [e.seq for e in expected]
    assert found.score is not None
    assert found.score.tolist() == [naive.score(probe, e) for e in expected]


@pytest.mark.parametrize("plan", PLANS)
def test_event_that_holds_all_the_best_texts_counts_once(plan: str) -> None:
    rng = np.random.default_rng(0)
    vectors = drawn(rng, 12)
    events = [Event(0, 0, texts=[(f % 4, f) for f in range(10)]), Event(1, 1, texts=[(0, 10)]), Event(2, 2)]
    part = PlainPart(events, vectors)
    probe = b.Probe("q", vectors[3], None)
    found = nearest([Choice(part, slice(0, 3))], probe, 2, Plan(), force=plan)
    assert found.seq.tolist() == [0, 1]


def large_part(
    seed: int, n_rows: int, n_vectors: int, texts: int
) -> tuple[PlainPart, npt.NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    vectors = drawn(rng, n_vectors)
    vectors[1::7] = vectors[0::7][: len(vectors[1::7])]  # equal vectors under different keys
    popular = np.minimum(rng.zipf(1.3, (n_rows, texts)) - 1, n_vectors - 1)
    events = [
        Event(int(t), i, {"score": float(s)}, [(f, int(v)) for f, v in enumerate(vs)], shard=i % 3)
        for i, (t, s, vs) in enumerate(
            zip(rng.integers(0, 500, n_rows), rng.random(n_rows), popular, strict=True)
        )
    ]
    return PlainPart(events, vectors, leaf_rows=64), vectors


def brute(
    part: PlainPart, vectors: npt.NDArray[np.float32], choice: Choice, probe: b.Probe, k: int
) -> list[int]:
    scores = (vectors.astype(np.float64) @ probe.vector.astype(np.float64)).astype(np.float32)
    best = []
    for row in choice.row_ids().tolist():
        event = part.events[row]
        mine = [scores[v] for f, v in event.texts if probe.fields is None or f in probe.fields]
        if mine:
            best.append((-max(mine), event.ts, event.seq))
    return [seq for _, _, seq in sorted(best)[:k]]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("n_vectors", "texts"), [(60, 1), (60, 2), (1500, 1), (1500, 3)])
@pytest.mark.parametrize("fields", [None, (0,), (1, 2)])
def test_plans_agree_on_many_rows(
    plan: str, n_vectors: int, texts: int, fields: tuple[int, ...] | None
) -> None:
    part, vectors = large_part(3, 2000, n_vectors, texts)
    whole = Choice(part, slice(0, part.n_rows))
    some = whole.where(matching(b.BCompare(b.Column("score", ("score",), "number"), ">", 0.7), whole))
    middle = Choice(part, slice(500, 900))
    rng = np.random.default_rng(5)
    for choice in (whole, some, middle):
        for vector in (vectors[11], drawn(rng, 1)[0]):
            probe = b.Probe("q", vector, fields)
            found = nearest([choice], probe, 20, Plan(), force=plan)
            assert [int(s) for s in found.seq] == brute(part, vectors, choice, probe, 20)


@pytest.mark.parametrize("dim", [10, 64, 384, 1100])
def test_bounds_hold_for_every_vector(dim: int) -> None:
    rng = np.random.default_rng(dim)
    table = vector_table(drawn(rng, 300, dim), np.arange(300) % 10 != 0)
    for query in (drawn(rng, 1, dim)[0], table.exact(np.array([3]))[0], np.eye(1, dim)[0]):
        scorer = Scorer(b.Probe("q", query.astype(np.float32), None))
        near, margin = scorer.approximate(table)
        exact = scorer.exact(table, np.arange(300, dtype=np.int32))
        assert np.all(np.abs(exact - near)[table.have] <= margin[table.have])
        assert np.all(near[~table.have] == -np.inf)


def test_compiled_and_plain_scans_select_the_same_best(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = vector_table(drawn(rng, 6000), np.ones(6000, np.bool_))
    ids = np.sort(rng.choice(6000, 5000, replace=False)).astype(np.int32)
    scorer = Scorer(b.Probe("q", drawn(rng, 1)[0], None))
    for chosen in (None, ids):
        compiled = scorer.candidates(table, 10, chosen)
        with monkeypatch.context() as patch:
            patch.setattr(Scorer, "_compiled", lambda self, n: False)
            plain = scorer.candidates(table, 10, chosen)
        assert compiled.certain == pytest.approx(plain.certain, abs=1e-6)
        assert set(plain.ids.tolist()) ^ set(compiled.ids.tolist()) == set()
        pool = np.arange(6000, dtype=np.int32) if chosen is None else chosen
        exact = scorer.exact(table, pool)
        assert set(pool[np.argsort(-exact)[:10]].tolist()) <= set(compiled.ids.tolist())


def test_score_does_not_depend_on_where_a_vector_lies() -> None:
    rng = np.random.default_rng(0)
    vectors = drawn(rng, 40)
    vectors[1:] = vectors[0]
    table = vector_table(vectors, np.ones(40, np.bool_))
    scorer = Scorer(b.Probe("q", drawn(rng, 1)[0], None))
    assert len(set(scorer.exact(table, np.arange(40, dtype=np.int32)).tolist())) == 1
