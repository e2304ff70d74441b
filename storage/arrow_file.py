"""An Arrow IPC file of a segment: written once with its checksums, mapped, and checked before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from .arrow_write import FACTS, MAGIC, write_arrow, write_lists
from .blame import told
from .damage import MEND, Origin
from .errors import DamageError, StoreError
from .files import Files, as_store_error
from .ipc_layout import (
    Block,
    Blocks,
    Ranges,
    batch_ranges,
    dictionary_ranges,
    footer_range,
    n_buffers,
    read_blocks,
)
from .remote import GoneError, Remote, is_remote
from .stored_file import StoredFile
from .sums import Checks, Integers
from .upgrade import FORMAT, OLDEST

Guarded = tuple[str, ...]
"""Beginnings of the names of columns that are read without a check: whoever asks for them checks them."""


class ArrowFile:
    """An open file of a segment. Its arrays are views of the memory map, good as long as they are held.

    checks: what knows the bytes of `buffer`; None where they were checked before. Whatever Arrow parses is
    checked first: the ends and the footer on opening, of a batch its head and the buffers of a column that is
    asked for. Raises DamageError.
    """

    def __init__(
        self,
        path: Path,
        buffer: pa.Buffer,
        kind: str,
        *,
        checks: Checks | None = None,
        origin: Origin | None = None,
        guarded: Guarded = (),
    ) -> None:
        self.path = path
        self.buffer = buffer
        self._origin = origin or Origin(path)
        self._checks = checks
        self._guarded = guarded
        try:
            self._check_ends()
            self._reader = pa.ipc.open_file(buffer)
            self.schema: pa.Schema = self._reader.schema
            self.facts: dict[str, Any] = orjson.loads((self.schema.metadata or {})[FACTS])
            found = (self.facts["format"], self.facts["kind"])
        except (DamageError, MemoryError):
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise self.damage(f"it is no segment file ({_first_line(error)})") from error
        if not OLDEST <= found[0] <= FORMAT or found[1] != kind:
            raise self.damage(
                f"it has format {found[0]} and kind {found[1]}, expected {OLDEST} to {FORMAT} and {kind}"
            )

    def damage(self, what: str) -> DamageError:
        """Give the error that says what is wrong with the file."""
        return self._origin.damage(what)

    @property
    def n_batches(self) -> int:
        """Number of record batches."""
        return int(self._reader.num_record_batches)

    def columns(self) -> Mapping[str, pa.Array]:
        """Give the columns of a file that is one record batch, each checked when it is asked for."""
        return _Columns(self)

    def column(self, name: str) -> pa.Array:
        """Give a column of a file that is one record batch. Raises KeyError."""
        array = self._batch[name]
        if not name.startswith(self._guarded or ("\0",)):
            self.check_column(0, name)
        return array

    def unchecked(self, name: str) -> pa.Array:
        """Give a column of a file that is one record batch, of whose bytes nobody knows whether they are right."""
        return self._batch[name]

    def buffer_ranges(self, name: str) -> Ranges:
        """Give where each buffer of a column lies, in a file that is one record batch; not its dictionary."""
        place = self.schema.get_field_index(name)
        return self._ranges(0)[self._first_buffer[place] : self._first_buffer[place + 1]]

    def check_dictionary(self, name: str) -> None:
        """Look at the dictionary of a column, if it has one."""
        for block, (own, ranges) in zip(self._blocks.dictionaries, self._dictionaries, strict=True):
            if own == name and self._checks is not None:
                self._check_all(block, ranges)

    def batch_column(self, number: int, name: str) -> pa.Array:
        """Give one column of one record batch, and decompress no other."""
        self.check_column(number, name)
        if name not in self._readers:
            # One column gains nothing by threads, and where none can be started that says nothing of the file.
            place = self.schema.get_field_index(name)
            options = pa.ipc.IpcReadOptions(included_fields=[place], use_threads=False)
            self._readers[name] = pa.ipc.open_file(self.buffer, options=options)
        return self._read(self._readers[name], number).column(0)

    def check_column(self, number: int, name: str) -> None:
        """Look at what a column of a record batch is read from, if nobody did."""
        if self._checks is None:
            return
        place = self.schema.get_field_index(name)
        self._check_head(self._blocks.batches[number])
        for start, end in self._ranges(number)[self._first_buffer[place] : self._first_buffer[place + 1]]:
            self._checks.check(start, end)
        self.check_dictionary(name)

    def check_rows(self, name: str, rows: Integers | None) -> None:
        """Look at some rows (None: all) of a column of fixed width without nulls, in a file of one batch."""
        if self._checks is None or rows is None:
            self.check_column(0, name)
            return
        place = self.schema.get_field_index(name)
        start, _ = self._ranges(0)[self._first_buffer[place] + 1]
        self._checks.check_rows(start, self.schema.field(place).type.byte_width, rows)

    def check_items(self, name: str, start: int, end: int) -> None:
        """Look at items `[start, end)` of a list column whose items have a fixed width, in a file of one row."""
        if self._checks is None:
            return
        place = self.schema.get_field_index(name)
        width = self.schema.field(place).type.value_type.bit_width // 8
        values, _ = self._ranges(0)[self._first_buffer[place + 1] - 1]
        self._checks.check(values + start * width, values + end * width)

    def expect_rows(self, n_rows: int) -> None:
        """Raise DamageError unless the file says that it has `n_rows`."""
        if self.facts["rows"] != n_rows:
            raise self.damage(f"it has {self.facts['rows']} rows, the manifest says {n_rows}")

    @cached_property
    def _batch(self) -> dict[str, pa.Array]:
        if self._checks is not None:
            for block in (*self._blocks.dictionaries, *self._blocks.batches[:1]):
                self._check_head(block)
        batch = self._read(self._reader, 0)
        return dict(zip(batch.schema.names, batch.columns, strict=True))

    @cached_property
    def _readers(self) -> dict[str, pa.ipc.RecordBatchFileReader]:
        return {}

    @cached_property
    def _blocks(self) -> Blocks:
        return read_blocks(self.buffer)

    @cached_property
    def _first_buffer(self) -> list[int]:
        """Of each column the place of its first buffer in a batch, and behind the last one."""
        first = [0]
        for column in self.schema:
            first.append(first[-1] + n_buffers(column.type))
        return first

    @cached_property
    def _dictionaries(self) -> list[tuple[str, Ranges]]:
        """Of each dictionary the column it is of and where it lies: they are numbered in the order of columns."""
        names = [column.name for column in self.schema if pa.types.is_dictionary(column.type)]
        found = [dictionary_ranges(self.buffer, block) for block in self._blocks.dictionaries]
        return [(names[number], ranges) for number, ranges in found]

    def _ranges(self, number: int) -> Ranges:
        if number not in self._known_ranges:
            block = self._blocks.batches[number]
            self._check_head(block)
            self._known_ranges[number] = batch_ranges(self.buffer, block)
        return self._known_ranges[number]

    @cached_property
    def _known_ranges(self) -> dict[int, Ranges]:
        return {}

    def _check_ends(self) -> None:
        if self._checks is None:
            return
        self._checks.check(0, len(MAGIC))
        self._checks.check(self.buffer.size - len(MAGIC) - 4, self.buffer.size)
        self._checks.check(*footer_range(self.buffer))

    def _check_head(self, block: Block) -> None:
        assert self._checks is not None
        self._checks.check(block.offset, block.body)

    def _check_all(self, block: Block, ranges: Ranges) -> None:
        assert self._checks is not None
        self._check_head(block)
        for start, end in ranges:
            self._checks.check(start, end)

    def _read(self, reader: pa.ipc.RecordBatchFileReader, number: int) -> pa.RecordBatch:
        try:
            return reader.get_batch(number)
        except MemoryError:
            # Arrow's is an ArrowException as well, and says nothing of the file.
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.damage(f"record batch {number} cannot be read ({_first_line(error)})") from error


class _Columns(Mapping[str, pa.Array]):
    """The columns of a file, each checked when it is asked for."""

    def __init__(self, file: ArrowFile, *, is_lists: bool = False) -> None:
        self._file = file
        self._is_lists = is_lists

    def __getitem__(self, name: str) -> pa.Array:
        array = self._file.column(name)
        return array.values if self._is_lists else array

    def __contains__(self, name: object) -> bool:
        return name in self._file.schema.names

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.schema.names)

    def __len__(self) -> int:
        return len(self._file.schema.names)


def read_lists(file: ArrowFile) -> Mapping[str, pa.Array]:
    """Give the columns that `write_lists` wrote, each checked when it is asked for."""
    return _Columns(file, is_lists=True)


def map_file(files: Files, directory: Path, stored: StoredFile, origin: Origin | None = None) -> pa.Buffer:
    """Map a file and check its size and both its ends. Raises DamageError."""
    path = directory / stored.name
    origin = origin or Origin(path)
    if is_remote(files):
        return _fetched(files, path, stored, origin)
    try:
        n_bytes = files.size(path)
        if n_bytes != stored.n_bytes:
            raise origin.damage(f"it has {n_bytes} bytes, the manifest says {stored.n_bytes}")
        buffer = files.map(path)
    except OSError as error:
        raise origin.damage(told(error, path)) from error
    if buffer.slice(0, len(MAGIC)) != MAGIC or buffer.slice(buffer.size - len(MAGIC)) != MAGIC:
        raise origin.damage("its first or last bytes are not those of an Arrow file")
    return buffer


def _fetched(files: Remote, path: Path, stored: StoredFile, origin: Origin) -> pa.Buffer:
    """Take a file from elsewhere, checked as a whole."""
    try:
        with as_store_error(path, "read it"):
            return files.fetch(path, stored)
    except DamageError as error:
        raise origin.damage(told(error, path)) from error
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise GoneError(
                f"{path}: gone: what was being read has expired, look again; if it is gone then too, {origin.loss}",
                path=path,
                segment_id=origin.segment_id,
            ) from error
        raise


def damage(path: Path, what: str) -> DamageError:
    """Give the error of a damaged file."""
    return Origin(path).damage(what)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__


__all__ = [
    "MEND",
    "ArrowFile",
    "damage",
    "map_file",
    "read_lists",
    "write_arrow",
    "write_lists",
]
