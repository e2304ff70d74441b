"""Records that no reader understood: counted, kept as they came, never events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .blame import MEND, as_damage
from .errors import DamageError
from .files import Files, crc32c, write_file
from .stored_file import Json, StoredFile, expect_members


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that could not become an event.

    source: name of its source. line, offset: 1-based line and byte offset (of the decompressed stream) of its
    start. reason: one line for the user. record: its bytes.
    """

    source: str
    line: int
    offset: int
    reason: str
    record: bytes


@dataclass(frozen=True, slots=True)
class RejectFile:
    """A file of `n` rejects below `rejects/`, as the manifest names it; written_ns: when, None: not known."""

    file: StoredFile
    n: int
    written_ns: int | None = None

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {"file": self.file.to_json(), "n": self.n, "written_ns": self.written_ns}

    @classmethod
    def from_json(cls, obj: Json) -> RejectFile:
        """Read what `to_json` gave."""
        expect_members(obj, ("file", "n", "written_ns"), "reject file")
        return cls(StoredFile.from_json(obj["file"]), obj["n"], obj["written_ns"])


_SCHEMA = pa.schema(
    {
        "source": pa.large_binary(),
        "line": pa.int64(),
        "offset": pa.int64(),
        "reason": pa.large_binary(),
        "record": pa.large_binary(),
    }
)


def write_rejects(files: Files, path: Path, rejects: Sequence[Reject]) -> RejectFile:
    """Write `rejects` to a new, synced file; the caller syncs the directory."""
    columns = [
        [_encode(r.source) for r in rejects],
        [r.line for r in rejects],
        [r.offset for r in rejects],
        [_encode(r.reason) for r in rejects],
        [r.record for r in rejects],
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(pa.table(columns, schema=_SCHEMA), max_chunksize=4096)
    return RejectFile(write_file(files, path, [sink.getvalue()]), len(rejects), time.time_ns())


def read_rejects(files: Files, path: Path, stored: StoredFile) -> Iterator[Reject]:
    """Give the rejects of a file. Raises DamageError where it is missing, or not as it was written."""
    try:
        with as_damage(path):
            data = files.map(path)
    except FileNotFoundError as error:
        raise DamageError(f"{path}: missing, the manifest names it; {MEND}", path=path) from error
    found = crc32c(data)
    if (data.size, found) != (stored.n_bytes, stored.crc32c):
        raise DamageError(
            f"{path}: {data.size} bytes with checksum {found:08x}, expected {stored.n_bytes} with "
            f"{stored.crc32c:08x}; restore the file from a copy"
        )
    with pa.ipc.open_file(data) as reader:
        for index in range(reader.num_record_batches):
            for row in reader.get_batch(index).to_pylist():
                yield Reject(**(row | {name: _decode(row[name]) for name in ("source", "reason")}))


def count_rejects(buffer: pa.Buffer) -> int:
    """Give how many rejects a file holds. Raises ValueError where not all of them can be read."""
    try:
        with pa.ipc.open_file(buffer) as reader:
            batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=True)
    except MemoryError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error).split("\n", 1)[0]) from error
    return sum(len(batch) for batch in batches)


def _encode(text: str) -> bytes:
    # A file name that is no UTF-8 holds lone surrogates, which plain UTF-8 cannot write.
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
