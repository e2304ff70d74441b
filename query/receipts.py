"""Deletion and expiry as a user asks for them, and the receipts of both."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from treering.indexer.times import MIN_NS
from treering.storage.cut import Cut, Plan, State, cut_chosen, cut_older, cut_to_size
from treering.storage.eraser import Act, Erased
from treering.storage.errors import ConfigError
from treering.storage.part import Part
from treering.storage.ring import Ring

from . import ast
from .erase import FROM_VECTORS, Bind, Matching, check_deletes, query_text
from .plan import Plan as QueryPlan
from .result import Result
from .rows import Choice, RowIds, Rows
from .times import parse_duration

N_EXAMPLES = 3
"""Events that a dry run shows."""

_BEGINS_ANEW = "a move to another model was under way and begins anew; run `treering reembed` again"

_PUT_ASIDE = "what salvages put aside, in `salvaged/` of the store, no erasure reaches: remove that directory"

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a deletion or an expiry did, or with `is_dry_run` would do.

    id: of the act, empty where nothing was done. time_ns: when, by the clock of the machine. query: what was
    asked for; values of parameters are not in it. events, rejects: how many went. first_ns, last_ns: times of
    the oldest and newest event that went, inclusive, None without any. segments_dropped: segments that went
    whole. rewritten: id of each segment that was written anew, and its new id; in a dry run, segments that would
    be have themselves as the new one. vectors: vectors that were made of what went and are to be made again for
    what stays. version: of the manifest, from which on nobody sees what went. erased: whether its bytes are gone
    from every file; `waiting` files are still held by readers, and `damaged` says what could not be rewritten.
    undated: reject files that stay because nobody knows when they were written. audit_hash: of the audit record.
    """

    action: str
    query: str
    events: int
    rejects: int
    first_ns: int | None
    last_ns: int | None
    segments_dropped: int
    rewritten: Mapping[str, str]
    version: int
    id: str = ""
    time_ns: int = 0
    vectors: int = 0
    erased: bool = False
    waiting: int = 0
    damaged: tuple[str, ...] = ()
    undated: int = 0
    audit_hash: str = ""
    is_dry_run: bool = False
    examples: Sequence[Mapping[str, Any]] = ()
    hints: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the receipt as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is asked for. plan: finds what goes. told: how the audit record calls it."""

    action: str
    query: str
    plan: Plan
    told: Mapping[str, Any] = field(default_factory=dict)
    matching: Matching | None = None

    def run(self, ring: Ring, *, wait_s: float) -> Receipt:
        """Do it. Raises StoreError, QueryError."""
        act_id = uuid.uuid4().hex[:16]
        act = Act(self.action, {"id": act_id, "query": self.query, **self.told}, FROM_VECTORS)
        erased = ring.erase(self.plan, act, wait_s=wait_s)
        receipt = self._receipt(erased, act_id)
        if receipt.id and (ring.path / "salvaged").is_dir():
            return replace(receipt, erased=False, hints=(*receipt.hints, _PUT_ASIDE))
        return receipt

    def preview(self, ring: Ring) -> Receipt:
        """Say what it would do."""
        with ring.state() as state:
            cut = self.plan(state)
            whole = [one for one in cut.taken if one.meta and one.n_rows == one.meta.n_live]
            touched = [one.meta.id for one in cut.taken if one.meta and one.n_rows < one.meta.n_live]
            return Receipt(
                **self._counts(cut),
                segments_dropped=len(whole),
                rewritten={name: name for name in touched},
                version=state.version,
                is_dry_run=True,
                examples=_examples(cut),
            )

    def _counts(self, cut: Cut) -> dict[str, Any]:
        return {
            "action": self.action,
            "query": self.query,
            "events": cut.n_events,
            "rejects": cut.n_rejects,
            "first_ns": min((one.t_min for one in cut.taken), default=None),
            "last_ns": max((one.t_max for one in cut.taken), default=None),
            "undated": cut.n_undated,
            "hints": tuple(self.matching.hints) if self.matching else (),
        }

    def _receipt(self, erased: Erased, act_id: str) -> Receipt:
        record = erased.record
        counts = self._counts(erased.cut)
        if erased.is_shadow_dropped:
            counts["hints"] += (_BEGINS_ANEW,)
        return Receipt(
            **counts,
            id=act_id if record else "",
            time_ns=record.time_ns if record else 0,
            segments_dropped=erased.n_dropped,
            rewritten=dict(erased.rewritten),
            version=erased.version,
            vectors=erased.n_vectors,
            erased=erased.is_erased,
            waiting=erased.n_waiting,
            damaged=tuple(map(str, erased.damaged)),
            audit_hash=record.hash if record else "",
        )


def of_condition(action: str, query: Any, parsed: ast.Query, bind: Bind) -> Erasure:
    """Give the erasure of what matches a query, which must be a condition. Raises QueryError."""
    check_deletes(parsed, query if isinstance(query, str) else None)
    matching = Matching(parsed, bind)

    def plan(state: State) -> Cut:
        return cut_chosen(state, matching)

    return Erasure(action, query_text(query, parsed), plan, matching=matching)


def check_one_rule(**rules: object) -> None:
    """Raise ConfigError unless exactly one rule of an expiry is given (None: it is not)."""
    given = [name for name, rule in rules.items() if rule is not None]
    if len(given) != 1:
        *others, last = rules
        raise ConfigError(
            f"expire takes one of {', '.join(others)} and {last}, not {' and '.join(given) or 'none'}"
        )


def of_age(older_than: str, now_ns: int) -> Erasure:
    """Give the erasure of what is older than a duration (`30d`). Raises ConfigError, QueryError."""
    if not isinstance(older_than, str):
        raise ConfigError(f"older_than is {older_than!r}, expected a duration such as '30d'")
    before_ns = max(now_ns - parse_duration(older_than), MIN_NS)
    return Erasure(
        "expire",
        f"older than {older_than}",
        lambda state: cut_older(state, before_ns),
        {"before_ns": before_ns},
    )


def of_size(max_bytes: int | str) -> Erasure:
    """Give the erasure of the oldest segments, until the rest fits. Raises ConfigError."""
    n_bytes = parse_size(max_bytes)
    told = f"{max_bytes} bytes" if isinstance(max_bytes, int) else max_bytes
    return Erasure(
        "expire",
        f"segments of at most {told}",
        lambda state: cut_to_size(state, n_bytes),
        {"max_bytes": n_bytes},
    )


def parse_size(size: int | str) -> int:
    """Give the bytes of a size: a number, or `500MB`, `10GB`, `1.5GiB`. Raises ConfigError."""
    found = _SIZE.fullmatch(str(size).strip())
    if found is None or isinstance(size, bool):
        raise ConfigError(f"{size!r} is no size: write 500MB, 10GB or 1.5GiB")
    power = 0 if found[2] is None else 1 + "KMGT".index(found[2].upper())
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def _examples(cut: Cut) -> list[Mapping[str, Any]]:
    """Give the first events of a cut as rows."""
    found: list[Mapping[str, Any]] = []
    for one in cut.taken:
        part: Part = one.part if one.part is not None else cut.state.open(one.meta)  # type: ignore[arg-type]
        rows: RowIds = np.arange(part.n_rows) if one.rows is None else one.rows
        few = Rows.of([Choice(part, rows[:N_EXAMPLES])])
        found += list(islice(Result(few, QueryPlan(), {}), N_EXAMPLES - len(found)))
        if len(found) >= N_EXAMPLES:
            break
    return found
