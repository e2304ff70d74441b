"""Small JSON files that carry their own checksum: manifests, lists, the model, what a segment says of itself."""

from __future__ import annotations

import json
from typing import Any

import orjson

from .errors import DamageError, StoreError
from .files import crc32c
from .stored_file import Json
from .upgrade import FORMAT, OLDEST, upgraded

_PREFIX = b'{"crc32c":"%08x",'
_PREFIX_BYTES = len(_PREFIX % 0)


def pack(kind: str, body: Json) -> bytes:
    """Give the bytes of a document whose checksum covers all that stands behind it in the file."""
    head = {"treering": kind, "format": FORMAT, "body": body}
    # ASCII, because file names that are no UTF-8 hold lone surrogates, which only an escape can write.
    rest = json.dumps(head, allow_nan=False, separators=(",", ":")).encode("ascii")[1:] + b"\n"
    return _PREFIX % crc32c(rest) + rest


def unpack(kind: str, data: bytes, name: str) -> Json:
    """Give the body of a document that `pack` wrote, in the current format; `name` is how errors call it.

    Raises DamageError where the bytes are not those that were written, StoreError for a newer format.
    """
    rest = data[_PREFIX_BYTES:]
    if data[:_PREFIX_BYTES] != (expected := _PREFIX % crc32c(rest)):
        raise DamageError(
            f"{name}: checksum {data[:_PREFIX_BYTES]!r}, expected {expected!r}; restore the file from a copy"
        )
    document = _parse(b"{" + rest)
    version: int = document["format"]
    if not OLDEST <= version <= FORMAT:
        raise StoreError(
            f"{name}: store format {version}, this treering reads {OLDEST} to {FORMAT}; "
            "use the treering version that wrote it"
        )
    if document["treering"] != kind:
        raise DamageError(
            f"{name}: holds {document['treering']!r}, expected {kind!r}; restore it from a copy"
        )
    return upgraded(kind, version, document["body"])


def _parse(text: bytes) -> dict[str, Any]:
    try:
        document: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        # Lone surrogates in file names, which only the slower parser takes.
        document = json.loads(text)
    return document
