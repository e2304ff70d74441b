"""One state of a store, to be queried: it never changes, and what it needs stays until it is closed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import TracebackType

from .batch import ModelInfo
from .part import Part


class Snapshot:
    """Parts of the store as they were at one moment.

    parts: segments, then what is not in segments yet. n_rows: events. n_rejected: records that did not become
    events. pending: distinct vectors still to come, summed over the parts. version: of the manifest. Close
    it, or use it in a `with`: as long as it is open, files that only it needs stay on disk.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        n_rejected: int,
        model: ModelInfo | None,
        version: int,
        release: Callable[[], None],
    ) -> None:
        self.parts = tuple(parts)
        self.n_rows = sum(part.n_rows for part in parts)
        self.n_rejected = n_rejected
        self.pending = sum(part.pending for part in parts)
        self.model = model
        self.version = version
        self._finalizer = weakref.finalize(self, release)

    def without(self, part_id: str) -> Snapshot:
        """Give this state without a part; it lasts as long as this snapshot is open."""
        return Snapshot(
            [part for part in self.parts if part.id != part_id],
            n_rejected=self.n_rejected,
            model=self.model,
            version=self.version,
            release=lambda: None,
        )

    def close(self) -> None:
        """Let go of the manifest version; twice is once."""
        self._finalizer()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
