"""What a table and rows like it are read as, compared value by value."""

from typing import Any

import numpy as np
import pyarrow as pa

from tests.indexer.recorder import Recorder
from treering.indexer.decode import Decoder
from treering.indexer.ingest import IngestOptions, ingest_rows
from treering.indexer.tables import TableOptions, table_batches, to_table
from treering.storage.batch import ColumnBatch

OWN_COLUMNS = ("ts", "seq", "ts_origin", "source", "reader", "source_offset", "source_line", "record")


def from_dicts(rows: list[dict[str, Any]], **options: Any) -> ColumnBatch:
    ring = Recorder()
    ingest_rows(ring, rows, options=IngestOptions(**options))
    assert len(ring.batches) == 1 and not list(ring.rejects())
    return Decoder()(ring.batches[0], 0)


def from_table(data: Any, **options: Any) -> ColumnBatch:
    (one,) = table_batches(to_table(data), TableOptions(**options))
    return one.batch


def values_of(batch: ColumnBatch) -> dict[str, list[Any]]:
    return {name: told_of(array) for name, array in batch.columns.items() if name not in OWN_COLUMNS}


def told_of(array: pa.Array) -> list[Any]:
    return [repr(value) for value in array.to_pylist()]  # so that NaN is NaN, and 1 not 1.0


def assert_same(table: ColumnBatch, dicts: ColumnBatch, *, times: bool = True) -> None:
    assert values_of(table) == values_of(dicts)
    for name in table.columns:
        assert table.columns[name].type == dicts.columns[name].type or name in ("source", "reader")
    assert (table.template == dicts.template).all()
    assert (table.parts.key == dicts.parts.key).all()
    for one in ("row", "field", "chunk", "primary"):
        assert (getattr(table.parts, one) == getattr(dicts.parts, one)).all()
    dated = np.asarray(dicts.columns["ts_origin"]) != 3
    assert (np.asarray(table.columns["ts_origin"]) == np.asarray(dicts.columns["ts_origin"])).all()
    assert not times or (table.ts_ns[dated] == dicts.ts_ns[dated]).all()
