"""Questions to a ring: bound to what is stored, run, and what they share from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treering.storage.part import Part
from treering.storage.ring import Ring
from treering.storage.snapshot import Snapshot

from . import ast
from .bind import bind
from .bound import BoundQuery, Column
from .execute import execute, find_anchor
from .forms import to_ast
from .names import Catalog
from .newest import newest_event
from .query_encoder import QueryEncoder
from .result import Result
from .times import parse_now
from .values import given_params

if TYPE_CHECKING:
    from .receipts import Erasure

Params = Mapping[str, Any] | None
"""Values for `$name`."""


class Questions:
    """Asks one ring, and keeps the encoder of query texts and the fields of the state that was asked last.

    model: name or path of the model for texts, None: the default one. are_files: whether the ring holds raw files,
    where `last` counts back from their newest event.
    """

    def __init__(self, ring: Ring, model: str | None, *, are_files: bool = False) -> None:
        self._ring = ring
        self._encoder = QueryEncoder(model)
        self._are_files = are_files
        self._known: tuple[Sequence[Part], Catalog] | None = None

    def ask(self, query: Any, params: Params, now: Any, *, skip_damaged: bool = False) -> Result:
        """Run a query; skip_damaged: on what of the store can be read. Raises QueryError, DamageError."""
        answer = self._answering(query, params, parse_now(now))
        snapshot = self._ring.snapshot()
        if skip_damaged:
            from .damage import ask_what_is_left

            result = ask_what_is_left(snapshot, answer)
        else:
            result = answer(snapshot)
        result.keep_alive(snapshot)
        return result

    def condition(self, action: str, query: Any, params: Params, now: Any) -> Erasure:
        """Give the erasure of what matches a query, called `action`. Raises QueryError."""
        from .receipts import of_condition

        now_ns, text = parse_now(now), query if isinstance(query, str) else None

        def bound(unbound: ast.Query, catalog: Catalog) -> BoundQuery:
            return bind(
                unbound,
                catalog,
                now_ns=now_ns,
                params=given_params(params),
                embed=lambda of: self._encoder.encode(of, self._ring.model),
                find_anchor=lambda column, value: None,
                text=text,
            )

        return of_condition(action, query, to_ast(query), bound)

    def forget(self) -> None:
        """Let go of the state that was asked last, whose files are gone."""
        self._known = None

    def _answering(self, query: Any, params: Params, now_ns: int) -> Callable[[Snapshot], Result]:
        unbound, text = to_ast(query), query if isinstance(query, str) else None

        def answer(snapshot: Snapshot) -> Result:
            def anchor(column: Column, value: Any) -> tuple[npt.NDArray[np.float32], int] | None:
                return find_anchor(snapshot, column, value)

            bound = bind(
                unbound,
                self._catalog(snapshot),
                now_ns=now_ns,
                params=given_params(params),
                embed=lambda of: self._encoder.encode(of, snapshot.model),
                find_anchor=anchor,
                counts_from=newest_event(snapshot.parts, now_ns) if self._are_files else None,
                text=text,
            )
            return execute(snapshot, bound)

        return answer

    def _catalog(self, snapshot: Snapshot) -> Catalog:
        """The stored fields, gathered once for each state of the store."""
        known = self._known
        if (
            known is None
            or len(known[0]) != len(snapshot.parts)
            or any(map(is_not, known[0], snapshot.parts))
        ):
            known = self._known = (snapshot.parts, Catalog.of(snapshot.parts))
        return known[1]
