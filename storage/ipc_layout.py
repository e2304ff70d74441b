"""Where the bytes of an Arrow IPC file lie: enough of its flatbuffers to know what a column is read from.

Source: Apache Arrow, format/File.fbs, format/Message.fbs; FlatBuffers, "FlatBuffer Internals". Only for bytes
that are known to be those that were written: it follows every offset that it finds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .errors import DamageError

Bytes = memoryview
Ranges = list[tuple[int, int]]
"""Byte ranges `[start, end)` of a file."""

TAIL_BYTES = 10
"""What a file ends with: the footer's length as int32, and six bytes of magic."""

_PREFIX_BYTES = 8
"""What a message begins with: four bytes 0xFF and its length as int32."""

_FIRST_MESSAGE = 8
_CONTINUES = 0xFFFFFFFF
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
"""Kinds of messages."""

_FOOTER_TABLE, _FOOTER_LISTS = 16, 36
"""Where, in a footer that is made here, its table and the lists of blocks begin."""

_METADATA_VERSION = 4
"""V5, which Arrow has written since 1.0."""

_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_MESSAGE_KIND, _MESSAGE_BODY = 1, 3
_MESSAGE_HEADER = 2
_BATCH_BUFFERS = 2
_DICTIONARY_ID, _DICTIONARY_DATA = 0, 1
"""Places of members in their tables (Footer, Message, RecordBatch, DictionaryBatch)."""


@dataclass(frozen=True, slots=True)
class Block:
    """One message of the file: `metadata_bytes` from byte `offset` on, then the buffers."""

    offset: int
    metadata_bytes: int
    body_bytes: int

    @property
    def body(self) -> int:
        """First byte of the buffers."""
        return self.offset + self.metadata_bytes

    @property
    def end(self) -> int:
        """First byte behind the buffers."""
        return self.body + self.body_bytes


@dataclass(frozen=True, slots=True)
class Blocks:
    """The messages of a file: dictionaries, then record batches, each in file order."""

    dictionaries: tuple[Block, ...]
    batches: tuple[Block, ...]


def footer_range(buffer: pa.Buffer) -> tuple[int, int]:
    """Give the bytes `[start, end)` of the footer, from its length at the end of the file.

    Raises ValueError for a length that the file has no room for.
    """
    (n_bytes,) = struct.unpack_from("<i", memoryview(buffer), buffer.size - TAIL_BYTES)
    end = buffer.size - TAIL_BYTES
    if not 0 < n_bytes <= end:
        raise ValueError(f"its footer has {n_bytes} bytes")
    return end - n_bytes, end


def read_blocks(buffer: pa.Buffer) -> Blocks:
    """Give the messages that the footer names."""
    start, end = footer_range(buffer)
    footer = memoryview(buffer)[start:end]
    table = _root(footer)
    return Blocks(_blocks(footer, table, _FOOTER_DICTIONARIES), _blocks(footer, table, _FOOTER_BATCHES))


def walk_messages(buffer: pa.Buffer, check: Callable[[int, int], None]) -> tuple[Block, Blocks]:
    """Give the schema's message and those behind it, as far as they can be followed without the footer.

    check: raises DamageError for bytes `[start, end)` that are not as they were written.
    """
    schema = _next_block(buffer, _FIRST_MESSAGE, check)[0]
    found: dict[int, list[Block]] = {_DICTIONARY_BATCH: [], _RECORD_BATCH: []}
    at = schema.end
    while at + _PREFIX_BYTES <= buffer.size:
        try:
            block, kind = _next_block(buffer, at, check)
        except (DamageError, ValueError, struct.error):
            break
        if kind not in found:
            break
        found[kind].append(block)
        at = block.end
    return schema, Blocks(tuple(found[_DICTIONARY_BATCH]), tuple(found[_RECORD_BATCH]))


def make_footer(buffer: pa.Buffer, schema: Block, blocks: Blocks) -> bytes:
    """Give a footer that names these messages: its flatbuffer, its length and the magic behind it.

    The schema is that of its message, which is copied as it is: offsets in it are relative.
    """
    message = _message(buffer, schema)
    dictionaries, batches = _block_vector(blocks.dictionaries), _block_vector(blocks.batches)
    behind = _FOOTER_LISTS + len(dictionaries)
    copy = behind + len(batches) + 4
    table = _follow(message, _member(message, _root(message), _MESSAGE_HEADER))
    head = struct.pack(
        "<IHHHHHHihxxIII",
        _FOOTER_TABLE,
        *(12, 20, 4, 8, 12, 16),
        _FOOTER_TABLE - 4,
        _METADATA_VERSION,
        copy + table - (_FOOTER_TABLE + 8),
        _FOOTER_LISTS - (_FOOTER_TABLE + 12),
        behind - (_FOOTER_TABLE + 16),
    )
    footer = head + dictionaries + batches + bytes(4) + bytes(message)
    return footer + struct.pack("<i", len(footer)) + b"ARROW1"


def batch_ranges(buffer: pa.Buffer, block: Block) -> Ranges:
    """Give the bytes of each buffer of a record batch, in the order of its schema's fields."""
    message = _message(buffer, block)
    header = _follow(message, _member(message, _root(message), _MESSAGE_HEADER))
    return _buffers(message, header, block)


def dictionary_ranges(buffer: pa.Buffer, block: Block) -> tuple[int, Ranges]:
    """Give the number of a dictionary, and the bytes of its buffers."""
    message = _message(buffer, block)
    header = _follow(message, _member(message, _root(message), _MESSAGE_HEADER))
    at = _member(message, header, _DICTIONARY_ID)
    number = struct.unpack_from("<q", message, at)[0] if at else 0
    data = _follow(message, _member(message, header, _DICTIONARY_DATA))
    return number, _buffers(message, data, block)


def n_buffers(kind: pa.DataType) -> int:
    """Give how many buffers a field of this type has in a record batch; those of a dictionary lie apart."""
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_dictionary(kind):
        return n_buffers(kind.index_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return 2 + n_buffers(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return 1 + n_buffers(kind.value_type)
    if any(is_kind(kind) for is_kind in _OF_THREE):
        return 3
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        return 2
    raise TypeError(f"no segment file has columns of type {kind}")


_OF_THREE: tuple[Any, ...] = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def _message(buffer: pa.Buffer, block: Block) -> Bytes:
    return memoryview(buffer)[block.offset + _PREFIX_BYTES : block.body]


def _next_block(buffer: pa.Buffer, at: int, check: Callable[[int, int], None]) -> tuple[Block, int]:
    """Give the message at a place, and its kind. Raises ValueError where there is none."""
    check(at, at + _PREFIX_BYTES)
    mark, n_bytes = struct.unpack_from("<Ii", memoryview(buffer), at)
    if mark != _CONTINUES or not 0 < n_bytes <= buffer.size - at - _PREFIX_BYTES:
        raise ValueError("no message")
    check(at, at + _PREFIX_BYTES + n_bytes)
    message = memoryview(buffer)[at + _PREFIX_BYTES : at + _PREFIX_BYTES + n_bytes]
    kind, body = (_member(message, _root(message), number) for number in (_MESSAGE_KIND, _MESSAGE_BODY))
    body_bytes = int(struct.unpack_from("<q", message, body)[0]) if body else 0
    block = Block(at, _PREFIX_BYTES + n_bytes, body_bytes)
    if body_bytes < 0 or block.end > buffer.size:
        raise ValueError("a message longer than its file")
    return block, message[kind] if kind else 0


def _block_vector(blocks: Sequence[Block]) -> bytes:
    """Give a vector of blocks that begins four bytes before a multiple of 8, and ends so."""
    packed = (struct.pack("<qi4xq", one.offset, one.metadata_bytes, one.body_bytes) for one in blocks)
    return struct.pack("<I", len(blocks)) + b"".join(packed) + bytes(4)


def _root(table: Bytes) -> int:
    return _follow(table, 0)


def _follow(data: Bytes, at: int) -> int:
    """Give the place that the offset at `at` points to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _member(data: Bytes, table: int, number: int) -> int:
    """Give the place of a member of a table, 0 where it has none."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    n_bytes = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * number
    if entry >= n_bytes:
        return 0
    shift = int(struct.unpack_from("<H", data, vtable + entry)[0])
    return table + shift if shift else 0


def _vector(data: Bytes, table: int, number: int) -> tuple[int, int]:
    """Give the place and the length of a vector."""
    at = _member(data, table, number)
    if not at:
        return 0, 0
    at = _follow(data, at)
    return at + 4, int(struct.unpack_from("<I", data, at)[0])


def _blocks(data: Bytes, table: int, number: int) -> tuple[Block, ...]:
    at, n = _vector(data, table, number)
    # Block: offset int64, metaDataLength int32, four bytes of padding, bodyLength int64.
    return tuple(Block(*struct.unpack_from("<qi4xq", data, at + 24 * i)) for i in range(n))


def _buffers(data: Bytes, table: int, block: Block) -> Ranges:
    at, n = _vector(data, table, _BATCH_BUFFERS)
    pairs = [struct.unpack_from("<qq", data, at + 16 * i) for i in range(n)]
    return [(block.body + start, block.body + start + n_bytes) for start, n_bytes in pairs]
