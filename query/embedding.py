"""The vectors of a store: made for the texts that wait, or made anew by another model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.indexer.model import locate
from treering.storage.ring import Ring
from treering.storage.shortage import shortage_told

from .progress import Progress, counting

if TYPE_CHECKING:
    from treering.indexer.fill import FillReport
    from treering.indexer.reembed import ReembedReport


def embed(ring: Ring, model: str | None, progress: Progress | None) -> FillReport:
    """Give every waiting text its vector, by the model of that name or path (None: the default one)."""
    from treering.indexer.fill import fill_ring

    ring.flush()
    return fill_ring(
        ring,
        model=model,
        progress=counting(progress, "embed", "texts"),
        folding=counting(progress, "fold", "segments"),
    )


def reembed(
    ring: Ring, model: str, *, drops_given: bool, budget_s: float | None, progress: Progress | None
) -> ReembedReport:
    """Move a ring to another model, going on where an earlier call stopped. Raises ModelError, DamageError."""
    from treering.indexer.reembed import check_movable, reembed

    check_movable(ring, drops_given=drops_given)
    with shortage_told("while the model was loaded"):
        from treering.indexer.embedder import Embedder

        embedder = Embedder(locate(model))
    return reembed(
        ring,
        embedder,
        drops_given=drops_given,
        progress=counting(progress, "embed", "texts"),
        folding=counting(progress, "fold", "segments"),
        copied=counting(progress, "copy", "events"),
        budget=budget_s,
    )
