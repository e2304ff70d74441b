"""Runs a bound query: prune, scan, rank or aggregate, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from treering.storage.errors import QueryError
from treering.storage.part import Part

from .aggregate import aggregate, count_rows, only_counts
from .ast import Scalar
from .bound import BCompare, BoundQuery, BSort, Column
from .columns_used import physical_columns, stages, uses_meaning
from .order import ordered
from .plan import Plan
from .prune import Candidates, candidates
from .result import Result
from .rows import Choice, Rows, Snapshot
from .scan import check_conditions, matching
from .survey import survey
from .table_part import TablePart
from .time_ends import is_by_time, oldest_or_newest
from .tree_top import best_rows, narrowed

Source = Rows | TablePart
"""What a stage gives to the next one."""


def execute(snapshot: Snapshot, query: BoundQuery) -> Result:
    """Run a query over one state of a store. The answer reads from `snapshot`, which it keeps open.

    Raises QueryError for what only shows when running: a pattern that has no linear-time form, vectors of
    another length, too many buckets, `exact` while texts still wait for their vector.
    """
    for stage in stages(query):
        if stage.where is not None:
            check_conditions(stage.where)
    plan = Plan(parts=len(snapshot.parts), rows=snapshot.n_rows)
    source = _first_stage(snapshot.parts, query, plan)
    for stage in list(stages(query))[1:]:
        with plan.step("stage"):
            source = _later_stage(source, stage, plan)
    result = _result(source, query, plan)
    result.keep_alive(snapshot)
    return result


def find_anchor(
    snapshot: Snapshot, column: Column, value: Scalar
) -> tuple[npt.NDArray[np.float32], int] | None:
    """Give the vector and seq of the first event whose field has this value; None when no event has it.

    The vector is that of the event's primary text. Raises QueryError when no such event has a vector (yet).
    """
    same = BCompare(column, "=", value)
    kept = [one for part in snapshot.parts if (one := candidates(part, same, None, None)) is not None]
    rows, n = ordered(Rows.of([one.scanned(same) for one in kept]), (), None)
    for part_index, row in zip(rows.part.tolist(), rows.row.tolist(), strict=True):
        part: Part = rows.parts[part_index]
        vec = int(part.vec_of_row()[row])
        if vec >= 0 and part.vectors().have[vec]:
            vector = part.vectors().exact(np.array([vec]))[0]
            return vector / (np.linalg.norm(vector) or np.float32(1)), int(part.seq[row])
    if n:
        raise QueryError(
            f"{column.name} {value!r} is found, but its text has no vector: run `treering embed` first"
        )
    return None


# -- the first stage: parts of the store ----------------------------------------------------------------


def _first_stage(parts: Sequence[Part], query: BoundQuery, plan: Plan) -> Source:
    with plan.step("prune"):
        found = survey(parts, query.where, query.start_ns, query.end_ns)
        kept = found.kept
    plan.skipped = {reason: n for reason, n in found.skipped.items() if n}
    plan.parts_skipped = len(parts) - len(kept)
    plan.rows_candidate = sum(len(one.choice) for one in kept)
    _note_pending([one.choice.part for one in kept], query, plan)
    with plan.step("scan"):
        choices = [_chosen(one, query, plan) for one in kept]
    if query.stats and only_counts(query):
        return count_rows(_matched(choices, plan), query)
    if query.near is not None:
        return _nearest(choices, query, plan)
    if query.stats:
        return _aggregated(Rows.of(choices), query, plan)
    with plan.step("order"):
        return _ranked(choices, query, plan)


def _chosen(one: Candidates, query: BoundQuery, plan: Plan) -> Choice:
    """The matching rows of a part; only those that can be among the first, where the tree can tell."""
    n = _needed(query)
    if n is not None and query.order and query.near is None and not query.stats and query.left_out is None:
        best = narrowed(one, None if one.is_certain else query.where, query.order[0], n)
        if best is not None:
            plan.order = "leaves of the tree by their best value"
            plan.saw_all = False
            one = Candidates(best, one.is_certain)
    plan.rows_scanned += 0 if one.is_certain else len(one.choice)
    choice = one.scanned(query.where)
    if query.left_out is None:
        return choice
    return choice.where(choice.of_rows(choice.part.seq) != query.left_out)


def _matched(choices: Sequence[Choice], plan: Plan) -> int:
    """Count the matching rows for the plan, unless the search did not look at all of them."""
    n = sum(len(choice) for choice in choices)
    plan.rows_matched = n if plan.saw_all else None
    return n


def _needed(query: BoundQuery) -> int | None:
    return None if query.limit is None else query.offset + query.limit


def _cut(rows: Rows, query: BoundQuery) -> Rows:
    return rows.take(slice(query.offset, _needed(query))) if query.offset or query.limit is not None else rows


def _ranked(choices: list[Choice], query: BoundQuery, plan: Plan) -> Rows:
    n, n_left_out = _needed(query), 0
    _matched(choices, plan)
    if n is not None and is_by_time(query.order):
        newest = bool(query.order) and query.order[0].descending
        choices = [oldest_or_newest(choice, n, newest=newest) for choice in choices]
    elif n is not None:
        choices, n_left_out = _best_only(choices, query.order[0], n)
    rows, n_ranked = ordered(Rows.of(choices), query.order, n, drop_missing=query.drop_missing)
    if plan.saw_all and query.drop_missing and not is_by_time(query.order):
        plan.rows_matched = n_ranked + n_left_out
    return _cut(rows, query)


def _best_only(choices: Sequence[Choice], sort: BSort, n: int) -> tuple[list[Choice], int]:
    """Rows that can be among the first n, and how many rows with a value are not."""
    kept, n_left_out = [], 0
    for choice in choices:
        best = best_rows(choice, sort, n)
        kept.append(choice if best is None else best[0])
        n_left_out += 0 if best is None else best[1] - len(best[0])
    return kept, n_left_out


def _aggregated(rows: Rows, query: BoundQuery, plan: Plan) -> Source:
    with plan.step("aggregate"):
        part = aggregate(rows, query)
    plan.rows_matched = part.n_rows
    return _ordered_table(part, Rows.of_part(part), query, plan)


def _nearest(choices: list[Choice], query: BoundQuery, plan: Plan) -> Rows:
    """Rows by meaning; with an order on fields the best `near_k` by meaning are ranked by it."""
    from .semantic import nearest

    if query.near is None:
        raise TypeError("a stage without `near` has no meaning to rank by")
    _matched(choices, plan)
    by_score = not query.order or query.order == (BSort(None, True),)
    with plan.step("meaning"):
        rows = nearest(choices, query.near, _needed(query) if by_score else query.near_k, plan)
    if not by_score:
        if query.near_k is not None:
            plan.notes.append(f"the best {query.near_k:,} by meaning were ranked")
        with plan.step("order"):
            rows, _ = ordered(rows, query.order, _needed(query), drop_missing=query.drop_missing)
    return _cut(rows, query)


# -- later stages: the rows or the table of the stage before --------------------------------------------


def _later_stage(source: Source, query: BoundQuery, plan: Plan) -> Source:
    if isinstance(source, TablePart):
        return _table_stage(source, query, plan)
    rows = _filtered(source, query)
    plan.rows_matched = len(rows)
    if query.stats:
        return _aggregated_or_counted(rows, query, plan)
    if query.near is not None:
        return _nearest([choice for choice, _ in rows.choices()], query, plan)
    rows, plan.rows_matched = ordered(
        rows, query.order, _needed(query), drop_missing=query.drop_missing, keep_order=True
    )
    return _cut(rows, query)


def _aggregated_or_counted(rows: Rows, query: BoundQuery, plan: Plan) -> Source:
    return count_rows(len(rows), query) if only_counts(query) else _aggregated(rows, query, plan)


def _filtered(rows: Rows, query: BoundQuery) -> Rows:
    """The rows of a stage before that match, in their order."""
    keep = np.ones(len(rows), np.bool_)
    if query.start_ns is not None:
        keep &= rows.ts >= query.start_ns
    if query.end_ns is not None:
        keep &= rows.ts < query.end_ns
    if query.left_out is not None:
        keep &= rows.seq != query.left_out
    rows = rows if keep.all() else rows.take(np.flatnonzero(keep))
    if query.where is None:
        return rows
    keep = np.zeros(len(rows), np.bool_)
    for choice, positions in rows.choices():
        keep[positions] = matching(query.where, choice)
    return rows.take(np.flatnonzero(keep))


def _table_stage(part: TablePart, query: BoundQuery, plan: Plan) -> TablePart:
    """A stage over a table of statistics, which gives a table again."""
    rows = _filtered(Rows.of_part(part), query)
    if query.stats:
        return count_rows(len(rows), query) if only_counts(query) else aggregate(rows, query)
    return _ordered_table(part, rows, query, plan)


def _ordered_table(part: TablePart, rows: Rows, query: BoundQuery, plan: Plan) -> TablePart:
    rows, plan.rows_matched = ordered(
        rows, query.order, _needed(query), drop_missing=query.drop_missing, keep_order=True
    )
    part = part.take(_cut(rows, query).row)
    return part.chosen({o.name: o.column for o in query.fields}) if query.fields else part


# -- the answer -----------------------------------------------------------------------------------------


def _result(source: Source, query: BoundQuery, plan: Plan) -> Result:
    all_stages = list(stages(query))
    is_table = isinstance(source, TablePart)
    n = source.n_rows if isinstance(source, TablePart) else len(source)
    meta = {
        "n_returned": n,
        # A table of statistics is whole; the events behind it are in the plan.
        "n_matched": n if all_stages[-1].stats else plan.rows_matched,
        "exact": plan.exact,
        "complete": not plan.pending and not plan.signals_pending,
        "pending": plan.pending,
        "hints": [hint for stage in all_stages for hint in stage.hints],
    }
    shown = {column.name: column for stage in all_stages for column in stage.shown}
    outputs = next((stage.fields for stage in reversed(all_stages) if stage.fields), ())
    return Result(
        source,
        plan,
        meta,
        outputs=() if is_table else outputs,
        shown=() if is_table else tuple(shown.values()),
        zone=query.tz,
    )


def _note_pending(parts: Sequence[Part], query: BoundQuery, plan: Plan) -> None:
    """Say what the answer may lack because texts in reach have no vector yet."""
    if uses_meaning(query):
        plan.pending = sum(part.pending for part in parts)
    if any(part.signals_pending for part in parts):
        from treering.indexer.signals import SIGNALS

        late = {signal.name for signal in SIGNALS.values() if signal.needs_vectors}
        plan.signals_pending = not late.isdisjoint(physical_columns(query))
        if plan.signals_pending:
            plan.pending = sum(part.pending for part in parts)
    if query.exact and (plan.pending or plan.signals_pending):
        raise QueryError(
            f"exact: {plan.pending:,} texts in reach have no vector yet; run `treering embed`, "
            "or leave out `exact`"
        )
