"""An Arrow IPC file of a segment: written once with its checksum, mapped and checked on reading."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from .errors import DamageError
from .files import Files, Handle, crc32c
from .meta import StoredFile

FORMAT = 1
"""Version of every file of a segment; a reader refuses any other."""

FACTS = b"treering"
"""Key of the schema's metadata that holds a JSON object: format, kind, rows and what the kind adds."""

MAGIC = b"ARROW1"
"""First and last bytes of an Arrow IPC file."""

MEND = "restore it from a copy of the store, or ingest its sources into a new store"
"""What to do about a damaged file."""


class ArrowFile:
    """An open file of a segment. Its arrays are views of the memory map, good as long as they are held."""

    def __init__(self, path: Path, buffer: pa.Buffer, kind: str) -> None:
        self.path = path
        self.buffer = buffer
        try:
            self._reader = pa.ipc.open_file(buffer)
            self.schema: pa.Schema = self._reader.schema
            self.facts: dict[str, Any] = orjson.loads((self.schema.metadata or {})[FACTS])
            found = (self.facts["format"], self.facts["kind"])
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise damage(path, f"it is no segment file ({_first_line(error)})") from error
        if found != (FORMAT, kind):
            raise damage(path, f"it has format {found[0]} and kind {found[1]}, expected {FORMAT} and {kind}")

    @property
    def n_batches(self) -> int:
        """Number of record batches."""
        return int(self._reader.num_record_batches)

    def columns(self) -> dict[str, pa.Array]:
        """Give the columns of a file that is one record batch."""
        batch = read_batch(self.path, self._reader, 0)
        return dict(zip(batch.schema.names, batch.columns, strict=True))

    def reader_of(self, name: str) -> pa.ipc.RecordBatchFileReader:
        """Give a reader that reads, and decompresses, one column only."""
        options = pa.ipc.IpcReadOptions(included_fields=[self.schema.get_field_index(name)])
        return pa.ipc.open_file(self.buffer, options=options)

    def expect_rows(self, n_rows: int) -> None:
        """Raise DamageError unless the file says that it has `n_rows`."""
        if self.facts["rows"] != n_rows:
            raise damage(self.path, f"it has {self.facts['rows']} rows, the manifest says {n_rows}")


def write_arrow(
    files: Files,
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    kind: str,
    facts: Mapping[str, Any],
    compression: str | None = None,
) -> StoredFile:
    """Write a new file and sync it; the caller syncs the directory. Raises OSError as the system gives it."""
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
    return StoredFile(path.name, sink.n_bytes, sink.checksum)


def write_lists(
    files: Files, path: Path, columns: Mapping[str, pa.Array], *, kind: str, facts: Mapping[str, Any]
) -> StoredFile:
    """Write columns of different lengths: one record batch of one row, in which each column is a list."""
    lists = {name: _as_list(array) for name, array in columns.items()}
    batch = pa.RecordBatch.from_arrays(list(lists.values()), names=list(lists))
    return write_arrow(files, path, batch.schema, [batch], kind=kind, facts=facts)


def read_lists(file: ArrowFile) -> dict[str, pa.Array]:
    """Give the columns that `write_lists` wrote."""
    return {name: array.values for name, array in file.columns().items()}


def map_file(files: Files, directory: Path, stored: StoredFile) -> pa.Buffer:
    """Map a file and check its size and both its ends. Raises DamageError."""
    path = directory / stored.name
    try:
        n_bytes = files.size(path)
        if n_bytes != stored.n_bytes:
            raise damage(path, f"it has {n_bytes} bytes, the manifest says {stored.n_bytes}")
        buffer = files.map(path)
    except FileNotFoundError as error:
        raise damage(path, "it is missing") from error
    if buffer.slice(0, len(MAGIC)) != MAGIC or buffer.slice(buffer.size - len(MAGIC)) != MAGIC:
        raise damage(path, "its first or last bytes are not those of an Arrow file")
    return buffer


def verify_file(path: Path, buffer: pa.Buffer, stored: StoredFile) -> None:
    """Read all of a file. Raises DamageError unless its checksum is the stored one."""
    found = crc32c(buffer)
    if found != stored.crc32c:
        raise damage(path, f"its crc32c is {found:08x}, the manifest says {stored.crc32c:08x}")


def read_batch(path: Path, reader: pa.ipc.RecordBatchFileReader, number: int) -> pa.RecordBatch:
    """Give one record batch. Raises DamageError."""
    try:
        return reader.get_batch(number)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damage(path, f"record batch {number} cannot be read ({_first_line(error)})") from error


def damage(path: Path, what: str) -> DamageError:
    """Give the error of a damaged file."""
    return DamageError(f"segment file {path} is damaged: {what}; {MEND}")


class _Sink(io.RawIOBase):
    """A handle as a Python file that counts and checks what passes."""

    def __init__(self, handle: Handle) -> None:
        super().__init__()
        self.handle = handle
        self.n_bytes = 0
        self.checksum = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        chunk = pa.py_buffer(data)
        self.handle.write(chunk)
        self.checksum = crc32c(chunk, self.checksum)
        self.n_bytes += chunk.size
        return int(chunk.size)


def _as_list(array: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__
