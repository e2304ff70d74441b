"""The questions that the demo asks about its day, and what is right about the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from treering.query.answer import Row

if TYPE_CHECKING:
    from treering.indexer.demo_traffic import Incident, Truth


@dataclass(frozen=True, slots=True)
class Finding:
    """The judgement of an answer."""

    is_right: bool
    text: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """One question. check judges all rows of its answer."""

    title: str
    query: str
    check: Callable[[Sequence[Row]], Finding]


TOLERANCE = 0.05
"""Share of an incident's requests that a learnt score may miss, and of its hits that may be others."""


def story(truth: Truth) -> list[Chapter]:
    """Give the chapters in the order of the day's story."""
    made_up, collapsed, exhausted, jumped = truth.made_up, truth.collapsed, truth.exhausted, truth.jumped
    return [
        Chapter(
            "Which model makes things up, and since when?",
            "hallucination > 0.5 count by model every 1h | top 6 by count",
            lambda rows: _first_rows_are(rows[:2], made_up),
        ),
        Chapter(
            "The answers that their context does not support",
            f'{_span(made_up)} model = "{made_up.model}" where hallucination > 0.5 '
            "sort by hallucination desc fields ts, request_id, hallucination_score, response",
            lambda rows: _ids_are(rows, made_up.request_ids, tolerance=TOLERANCE),
        ),
        Chapter(
            "Where did the model's attention collapse?",
            "top-k attention-collapse "
            "fields ts, request_id, model, attention_collapse, response_repetition_ratio",
            lambda rows: _all_in(rows, collapsed.request_ids, n_expected=10),
        ),
        Chapter(
            "When did the server run out of KV blocks?",
            '"out of blocks" level >= warn count every 10m | where count > 0',
            lambda rows: _sum_is(rows, truth.n_out_of_blocks, exhausted),
        ),
        Chapter(
            "The same without knowing its words",
            '~ "no GPU memory left for the key value cache" level >= warn limit 5 fields ts, level, body',
            lambda rows: _all_say(rows, "body", ("KV",), n_expected=5),
        ),
        Chapter(
            "What did the users feel of it?",
            "p95(e2e_latency_s) as p95_s, count by model every 1h | top 4 by p95_s",
            lambda rows: _first_rows_are(rows[:1], exhausted),
        ),
        Chapter(
            "Which session filled its context window?",
            "context_usage_ratio > 0.875 "
            "fields ts, session_id, request_id, input_tokens, context_usage_ratio",
            lambda rows: _ids_are(rows, jumped.request_ids),
        ),
        Chapter(
            "Chinese words are found inside sentences",
            'prompt has "退款" fields ts, request_id, prompt, response',
            lambda rows: _ids_are(rows, truth.refunds_chinese),
        ),
        Chapter(
            "Who wanted a refund, in other words?",
            'prompt ~ "reimburse the customer" limit 8 fields ts, request_id, prompt',
            lambda rows: _all_say(rows, "prompt", ("money back",), n_expected=8),
        ),
    ]


def _span(incident: Incident) -> str:
    return f"between {incident.start:%Y-%m-%dT%H:%M} and {incident.end:%Y-%m-%dT%H:%M}"


def _ids_are(rows: Iterable[Row], expected: Sequence[str], *, tolerance: float = 0.0) -> Finding:
    found = {str(row.get("request_id")) for row in rows}
    right, wrong = len(found & set(expected)), len(found - set(expected))
    is_right = right >= (1 - tolerance) * len(expected) and wrong <= tolerance * max(1, len(found))
    return Finding(is_right, f"{right} of {len(expected)} found, {wrong} others")


def _all_in(rows: Sequence[Row], expected: Sequence[str], *, n_expected: int) -> Finding:
    hits = sum(str(row.get("request_id")) in expected for row in rows)
    return Finding(hits == len(rows) == n_expected, f"{hits} of {n_expected} belong to the incident")


def _all_say(rows: Sequence[Row], field: str, words: Sequence[str], *, n_expected: int) -> Finding:
    hits = sum(any(word in str(row.get(field)) for word in words) for row in rows)
    return Finding(hits == len(rows) == n_expected, f"{hits} of {n_expected} say {' or '.join(words)!r}")


def _first_rows_are(rows: Sequence[Row], incident: Incident) -> Finding:
    """Judge groups of model and hour: they must be those of the incident."""
    hits = sum(incident.model in row.values() and _is_inside(row.get("ts"), incident) for row in rows)
    return Finding(
        bool(rows) and hits == len(rows), f"{hits} of {len(rows)} leading hours belong to the incident"
    )


def _sum_is(rows: Sequence[Row], expected: int, incident: Incident) -> Finding:
    counted = sum(int(row["count"]) for row in rows)
    inside = sum(int(row["count"]) for row in rows if _is_inside(row.get("ts"), incident))
    return Finding(counted == inside == expected, f"{inside} of {expected} lines, all between start and end")


def _is_inside(ts: Any, incident: Incident) -> bool:
    moment = ts if isinstance(ts, datetime) else datetime.fromisoformat(str(ts))
    return incident.covers(moment)
