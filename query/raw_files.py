"""Raw files asked without a store: an index that lives as long as the answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from treering.indexer.decode import Decoder
from treering.indexer.signals import SIGNALS
from treering.storage.ring import Ring

from . import ast
from .forms import to_ast
from .names import fold_name
from .opening import chosen_model
from .progress import Progress
from .questions import Questions
from .result import Result
from .scratch import Scratch
from .store import Store
from .walk import names_of, uses_meaning


def query_files(
    query: Any,
    files: str | os.PathLike[str] | Iterable[Any],
    *,
    params: Mapping[str, Any] | None = None,
    now: Any = None,
    model: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Query raw files without a store: a throw-away index that lives as long as the answer.

    Texts are embedded only when the query asks for meaning or for a signal that needs vectors. On raw files
    `last 1h` counts back from the newest event that is at most an hour later than the clock (`now`), from the newest
    of all where every one is later.
    """
    is_embedding, name = needs_vectors(to_ast(query)), chosen_model(model)
    place = Scratch()
    ring = Ring.open(place.name, "w", decoder=Decoder())
    store = Store(ring, model=name)
    given = (files,) if isinstance(files, (str, os.PathLike)) else tuple(files)
    try:
        summary = store.ingest(*given, embed=is_embedding, progress=progress, **options)
        result = Questions(ring, name, are_files=True).ask(query, params, now)
        result.meta["ingest"] = summary
    except BaseException as error:
        try:
            store.__exit__(type(error), error, error.__traceback__)
        finally:
            place.remove()
        raise
    result.keep_alive(store, place)
    return result


def needs_vectors(query: ast.Query) -> bool:
    """Whether a query asks for meaning or names a signal that is computed from vectors."""
    needing = {signal.name for signal in SIGNALS.values() if signal.needs_vectors}
    return uses_meaning(query) or any(fold_name(name) in needing for name in names_of(query))
