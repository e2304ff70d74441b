"""Arrow files in memory, as pyarrow writes them."""

from __future__ import annotations

import pyarrow as pa


def written(batches: list[pa.RecordBatch], compression: str | None = None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
