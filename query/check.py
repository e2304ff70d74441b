"""A store looked at file by file, mended, or brought back with what is left of it; it need not open for that."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from treering.indexer.decode import Decoder
from treering.indexer.model import is_given
from treering.indexer.parts import body_keys, text_parts
from treering.storage.batch import KEY, Keys, ModelInfo, TextParts
from treering.storage.check import check_store
from treering.storage.errors import ConfigError, DamageError, StoreError
from treering.storage.files import Files, as_store_error
from treering.storage.findings import CheckReport
from treering.storage.layout import Layout
from treering.storage.locking import Patience
from treering.storage.place import located
from treering.storage.repair import repair as repair_store
from treering.storage.salvage import salvage as salvage_store
from treering.storage.writer import Writer

from .opening import place_of
from .progress import Progress, checking


def check(
    path: str | os.PathLike[str] | None = None,
    *,
    deep: bool = False,
    repair: bool = False,
    salvage: bool = False,
    wait_s: float | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Look at every file of a store and find all that is wrong; nothing stops it, and nothing is changed.

    Others read and write meanwhile. path: as of `open`. deep: read every byte, and compare what the files hold with
    each other. repair: mend then what can be mended without losing anything. salvage: bring a store that lost bytes
    back with all that can be read; the report says what is lost, and what is damaged is put aside (`aside`). Both
    need the writer's lock; wait_s: how long to wait for it.

    Raises StoreError where there is no store, or another process writes; for a salvage also where nothing is out of
    reach, for a repair where the store does not open.
    """
    if repair and salvage:
        raise ConfigError("repair and salvage: choose one; a salvage mends what it can as well")
    files, directory = located(place_of(path))
    layout, patience, told = Layout(directory), Patience(wait_s or 0.0), checking(progress)
    if salvage:
        return salvage_store(files, layout, Decoder(), embedded_texts, patience=patience, progress=told)
    report = check_store(files, layout, deep=deep, progress=told)
    return _repaired(files, layout, report, patience, told) if repair else report


def _repaired(
    files: Files,
    layout: Layout,
    before: CheckReport,
    patience: Patience,
    progress: Callable[[int, int, str], None] | None,
) -> CheckReport:
    with as_store_error(layout.path, "repair it"):
        try:
            writer = Writer.open(files, layout, Decoder(), patience)
        except DamageError as error:
            raise StoreError(
                f"{error}; nothing was repaired, since the store does not open: `treering check --salvage` keeps what "
                "is left of it"
            ) from error
        try:
            return repair_store(writer, before, progress=progress)
        finally:
            writer.close()


def embedded_texts(
    columns: Mapping[str, pa.Array], n_rows: int, model: ModelInfo | None
) -> tuple[TextParts, Keys]:
    """Give what decoded columns embed, and the key of the template of each row.

    Nothing is embedded in a store whose vectors came with the events.
    """
    body = columns.get("body")
    keys: Keys = body_keys(body) if body is not None and n_rows else np.zeros(n_rows, KEY)
    is_embedding = model is None or not is_given(model)
    return text_parts(columns, keys) if is_embedding else TextParts.empty(), keys
