"""How an answer was found: what was skipped, what was read, whether it is exact, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Plan:
    """The account of one query.

    parts, parts_skipped: parts of the store and those that were ruled out; skipped: how many by what (see
    `survey.Survey`). rows: rows stored. rows_candidate: left after pruning. rows_scanned: of these, rows on which
    conditions were evaluated. rows_matched: rows that satisfy the query before ranking; None where it was not
    needed to know. meaning: semantic plan by name with the number of parts that used it. saw_all: whether
    every matching row was looked at. vectors_scored, vectors_reranked: distinct vectors compared by codes,
    and of these exactly. pending: texts in reach that still wait for their vector. steps: milliseconds by
    step. notes: lines for people.
    """

    exact: bool = True
    parts: int = 0
    parts_skipped: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    rows_candidate: int = 0
    rows_scanned: int = 0
    rows_matched: int | None = None
    saw_all: bool = True
    order: str = ""
    meaning: dict[str, int] = field(default_factory=dict)
    vectors_scored: int = 0
    vectors_reranked: int = 0
    pending: int = 0
    signals_pending: bool = False
    steps: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step; steps of the same name add up."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.steps[name] = self.steps.get(name, 0.0) + (time.perf_counter() - started) * 1e3

    def used(self, meaning: str) -> None:
        """Count one part whose vectors were searched by this plan."""
        self.meaning[meaning] = self.meaning.get(meaning, 0) + 1

    @property
    def lines(self) -> list[str]:
        """The account, line by line."""
        time_line = "time: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in self.steps.items())
        return [
            "exact" if self.exact else "approximate",
            *self._read_lines(),
            *self._ranking_lines(),
            *self._pending_lines(),
            *self.notes,
            time_line,
        ]

    def _read_lines(self) -> Iterator[str]:
        by_what = ", ".join(f"{n:,} by {reason}" for reason, n in self.skipped.items())
        skipped = f"; skipped: {by_what}" if by_what else ""
        yield f"parts: {self.parts - self.parts_skipped:,} of {self.parts:,} read{skipped}"
        yield (
            f"rows: {self.rows:,} stored, {self.rows_candidate:,} after pruning, "
            f"{self.rows_scanned:,} scanned"
        )
        if self.rows_matched is not None:
            yield f"matched: {self.rows_matched:,}"

    def _ranking_lines(self) -> Iterator[str]:
        used = ", ".join(f"{name} in {n} part{'s' * (n != 1)}" for name, n in sorted(self.meaning.items()))
        if used:
            yield f"meaning: {used}; {self.vectors_scored:,} vectors scored, {self.vectors_reranked:,} exactly"
        if self.order:
            yield f"order: {self.order}"

    def _pending_lines(self) -> Iterator[str]:
        if self.pending:
            yield f"pending: {self.pending:,} texts wait for their vector"
        if self.signals_pending:
            yield "pending: signals that need vectors are still to come"

    def to_json(self) -> dict[str, Any]:
        """The account as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self.lines)
