"""Arrow IPC files of a segment, written once, with the checksums of their blocks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from .files import Files, Handle, crc32c
from .stored_file import StoredFile
from .sums import Summer, Sums
from .upgrade import FORMAT

FACTS = b"treering"
"""Key of the schema's metadata that holds a JSON object: format, kind, rows and what the kind adds."""

MAGIC = b"ARROW1"
"""First and last bytes of an Arrow IPC file."""


def write_arrow(
    files: Files,
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    kind: str,
    facts: Mapping[str, Any],
    compression: str | None = None,
    sums: MutableMapping[str, Sums] | None = None,
) -> StoredFile:
    """Write a new file and sync it; the caller syncs the directory. Raises OSError as the system gives it.

    sums: gets the checksums of its blocks, under its name.
    """
    told = orjson.dumps({"format": FORMAT, "kind": kind, **facts})
    sink = _Sink(files.create(path))
    try:
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_file(
            pa.PythonFile(sink, mode="w"), schema.with_metadata({FACTS: told}), options=options
        ) as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(None))
        sink.handle.sync()
    finally:
        sink.handle.close()
    if sums is not None:
        sums[path.name] = sink.summer.finish()
    return StoredFile(path.name, sink.n_bytes, sink.checksum)


def write_lists(
    files: Files,
    path: Path,
    columns: Mapping[str, pa.Array],
    *,
    kind: str,
    facts: Mapping[str, Any],
    sums: MutableMapping[str, Sums] | None = None,
) -> StoredFile:
    """Write columns of different lengths: one record batch of one row, in which each column is a list."""
    lists = {name: _as_list(array) for name, array in columns.items()}
    batch = pa.RecordBatch.from_arrays(list(lists.values()), names=list(lists))
    return write_arrow(files, path, batch.schema, [batch], kind=kind, facts=facts, sums=sums)


class _Sink(io.RawIOBase):
    """A handle as a Python file that counts and checks what passes."""

    def __init__(self, handle: Handle) -> None:
        super().__init__()
        self.handle = handle
        self.summer = Summer()
        self.n_bytes = 0
        self.checksum = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        chunk = pa.py_buffer(data)
        self.handle.write(chunk)
        self.checksum = crc32c(chunk, self.checksum)
        self.summer.add(chunk)
        self.n_bytes += chunk.size
        return int(chunk.size)


def _as_list(array: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
