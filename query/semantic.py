"""The rows nearest in meaning: three exact plans over a part, and their merge.

Each plan gives what a comparison with every stored vector would give; they differ in what they read. An event
scores by the best of its texts; ties go to the older event, then to the one that arrived first. Source: the
planner's thresholds and the dictionary walk were measured on embeddings of public logs and LLM texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from treering.storage.part import Part, Postings

from .bound import Probe
from .plan import Plan
from .rows import Choice, RowIds, Rows
from .scores import Floats, Scorer, VecIds
from .uses import Fields, Uses, distinct, uses_of

FLAT_ROWS = 256
"""Up to this many rows every stored vector is compared exactly."""

DICTIONARY_SHARE = 0.5
"""Walking the postings pays while distinct vectors are at most this share of the rows that are left."""

FIRST_BLOCK = 4
"""Vectors taken from the best down before the k-th score is looked at again; doubled each time."""

Found = tuple[RowIds, Floats]
"""Rows of a part with their scores, unordered: at least the best k."""


def nearest(
    choices: Sequence[Choice], probe: Probe, k: int | None, plan: Plan, *, force: str | None = None
) -> Rows:
    """Give the best k of the chosen rows by meaning (None: all that have a vector), best first.

    force: name of the plan to use instead of the one that is estimated cheapest.
    """
    scorer = Scorer(probe, n_vectors=sum(len(choice.part.vectors()) for choice in choices))
    found: list[Found] = []
    floor = -np.inf
    for choice in choices:
        one = _of_part(choice, scorer, probe.fields, k, floor, plan, force)
        found.append(one)
        if k:
            floor = _floor([scores for _, scores in found], k)
    return _merged(choices, found, k)


def _of_part(
    choice: Choice, scorer: Scorer, fields: Fields, k: int | None, floor: float, plan: Plan, force: str | None
) -> Found:
    n_vectors = len(choice.part.vectors())
    if k == 0 or not len(choice) or not n_vectors:
        return np.empty(0, np.intp), np.empty(0, np.float32)
    name = force or _cheapest(len(choice), n_vectors, k)
    plan.used(name)
    if name == "flat" or k is None:
        return flat(choice, scorer, fields, plan)
    search = {"dictionary": dictionary, "certified": certified}[name]
    return search(choice, scorer, fields, k, floor, plan)


def _cheapest(n_rows: int, n_vectors: int, k: int | None) -> str:
    if k is None or n_rows <= max(FLAT_ROWS, k):
        return "flat"
    return "dictionary" if n_vectors <= DICTIONARY_SHARE * n_rows else "certified"


def flat(choice: Choice, scorer: Scorer, fields: Fields, plan: Plan) -> Found:
    """Every row that has a vector, with its exact score; equal vectors are compared once."""
    table = choice.part.vectors()
    uses = uses_of(choice, fields, table)
    vec, at = np.unique(uses.vec, return_inverse=True)
    plan.vectors_scored += len(vec)
    plan.vectors_reranked += len(vec)
    return uses.best_by_row(scorer.exact(table, vec)[at])


def certified(choice: Choice, scorer: Scorer, fields: Fields, k: int, floor: float, plan: Plan) -> Found:
    """Distinct vectors of the rows by int8 codes; what the error bound leaves open is compared exactly."""
    table = choice.part.vectors()
    uses = uses_of(choice, fields, table)
    ids = distinct(uses.vec, len(table))
    asked = k
    while True:
        near = scorer.candidates(table, asked, None if len(ids) == len(table) else ids, floor)
        plan.vectors_scored += len(ids)
        plan.vectors_reranked += len(near.ids)
        rows, best = _by_row(uses, near.ids, scorer.exact(table, near.ids), len(table))
        # k vectors may stand for fewer rows, when an event has several texts.
        if near.certain <= floor or asked >= len(ids) or np.count_nonzero(best >= near.certain) >= k:
            return rows, best
        asked *= 2


def _by_row(uses: Uses, ids: VecIds, scores: Floats, n_vectors: int) -> Found:
    """Rows that use one of these vectors, with their best score."""
    place = np.full(n_vectors, -1, np.int32)
    place[ids] = np.arange(len(ids), dtype=np.int32)
    at = place[uses.vec]
    used = at >= 0
    return uses.where(used).best_by_row(scores[at[used]])


def dictionary(choice: Choice, scorer: Scorer, fields: Fields, k: int, floor: float, plan: Plan) -> Found:
    """All distinct vectors by int8 codes, then postings from the best down until no better row can come."""
    part = choice.part
    table, postings = part.vectors(), part.postings()
    near, margin = scorer.approximate(table)
    upper = near + margin
    plan.vectors_scored += len(table)
    is_chosen = _row_test(choice, postings, fields)
    rows: list[RowIds] = []
    scores: list[Floats] = []
    taken, block, order = 0, FIRST_BLOCK, _best_first(upper, 16 * FIRST_BLOCK)
    while taken < len(order):
        if upper[order[taken]] < floor:
            break
        ids = order[taken : taken + block]
        used = [(v, r) for v in ids if len(r := _first_uses(postings, int(v), k, is_chosen))]
        if used:
            exact = scorer.exact(table, np.array([v for v, _ in used], np.int32))
            plan.vectors_reranked += len(used)
            rows.append(np.concatenate([r for _, r in used]))
            scores.append(np.repeat(exact, [len(r) for _, r in used]))
            rows, scores = _best_of(rows, scores)
            floor = max(floor, _floor(scores, k))
        taken += len(ids)
        block *= 2
        if taken >= len(order) and len(order) < len(upper):
            order = _best_first(upper, 8 * len(order))
    return (rows[0], scores[0]) if rows else (np.empty(0, np.intp), np.empty(0, np.float32))


def _best_first(upper: Floats, n: int) -> npt.NDArray[np.intp]:
    """The n highest in falling order, ties by vector; a longer list starts with the shorter one."""
    there = int(np.count_nonzero(upper > -np.inf))
    if n >= there:
        return np.argsort(-upper, kind="stable")[:there]
    least = np.partition(upper, len(upper) - n)[len(upper) - n]
    chosen = np.flatnonzero(upper >= least)
    return chosen[np.argsort(-upper[chosen], kind="stable")]


RowTest = Callable[[int, int], RowIds]
"""Chosen rows among the uses `[start, stop)` of the postings."""


def _row_test(choice: Choice, postings: Postings, fields: Fields) -> RowTest:
    mask = None if isinstance(choice.rows, slice) else choice.mask()

    def test(start: int, stop: int) -> RowIds:
        rows = postings.row[start:stop]
        kept = np.ones(len(rows), np.bool_) if mask is None else mask[rows]
        if isinstance(choice.rows, slice) and not choice.is_whole:
            kept &= (rows >= choice.rows.start) & (rows < choice.rows.stop)
        if fields is not None:
            kept &= np.isin(postings.field[start:stop], fields)
        return rows[kept].astype(np.intp)

    return test


def _first_uses(postings: Postings, vec: int, k: int, is_chosen: RowTest) -> RowIds:
    """The k oldest chosen rows that use a vector (all at its time stand in order in the postings)."""
    start, stop = int(postings.offsets[vec]), int(postings.offsets[vec + 1])
    found: list[RowIds] = []
    n_found, size = 0, max(64, 2 * k)
    while start < stop and n_found < k:
        rows = is_chosen(start, min(start + size, stop))
        # One row may use a vector in several of its texts, side by side: count it once.
        rows = rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows
        found.append(rows)
        n_found += len(rows)
        start += size
        size *= 4
    return np.concatenate(found) if found else np.empty(0, np.intp)


def _best_of(rows: list[RowIds], scores: list[Floats]) -> tuple[list[RowIds], list[Floats]]:
    """Each row once, with the best of its scores."""
    all_rows, all_scores = np.concatenate(rows), np.concatenate(scores)
    order = np.lexsort((-all_scores, all_rows))
    first = np.append(True, all_rows[order][1:] != all_rows[order][:-1])
    kept = order[first]
    return [all_rows[kept]], [all_scores[kept]]


def _floor(scores: Sequence[Floats], k: int) -> float:
    """Score of the k-th best so far, -inf while there are fewer."""
    flat_scores = np.concatenate(scores)
    if k > len(flat_scores):
        return -np.inf
    return float(np.partition(flat_scores, len(flat_scores) - k)[len(flat_scores) - k])


def _merged(choices: Sequence[Choice], found: Sequence[Found], k: int | None) -> Rows:
    parts: list[Part] = [c.part for c in choices]
    if not parts:
        return Rows.of(())
    row = np.concatenate([r for r, _ in found])
    score = np.concatenate([s for _, s in found])
    part = np.repeat(np.arange(len(parts), dtype=np.int32), [len(r) for r, _ in found])
    ts = np.concatenate([c.part.ts[r] for c, (r, _) in zip(choices, found, strict=True)])
    seq = np.concatenate([c.part.seq[r] for c, (r, _) in zip(choices, found, strict=True)])
    kept = np.arange(len(score))
    if k is not None and k < len(score):
        kept = np.flatnonzero(score >= _floor([score], k)) if k else kept[:0]
    order = kept[np.lexsort((seq[kept], ts[kept], -score[kept]))][:k]
    return Rows(parts, part[order], row[order], ts[order], seq[order], score[order])
