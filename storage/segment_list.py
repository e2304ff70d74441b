"""The body of a list of segments: as small and as quick to read as JSON allows.

A store of a thousand segments has a hundred columns in each. So the names of columns stand once a list, their
statistics are one text a segment, and nothing of that is taken apart before somebody asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from .meta import FieldTable
from .stored_file import Json


def pack_entries(entries: Mapping[str, Json]) -> Json:
    """Give the body of a list whose entries are those that `SegmentMeta.to_json` gives."""
    names: dict[str, int] = {}
    packed = {}
    for key, entry in entries.items():
        fields: Json = entry["fields"]
        ids = [names.setdefault(name, len(names)) for name in fields]
        columns = [list(column) for column in zip(*fields.values(), strict=True)] or [[], [], []]
        files = [[file["name"], file["bytes"], file["crc32c"]] for file in entry["files"]]
        fields_text = json.dumps([ids, *columns], allow_nan=False, separators=(",", ":"))
        packed[key] = {**entry, "fields": fields_text, "files": files}
    return {"names": list(names), "entries": packed}


def unpack_entries(body: Json) -> dict[str, Json]:
    """Give the entries of a body that `pack_entries` made, statistics as a `FieldTable`."""
    names: list[str] = body["names"]
    entries: dict[str, Json] = body["entries"]
    for entry in entries.values():
        if isinstance(entry["fields"], str):
            entry["fields"] = FieldTable.packed(names, entry["fields"])
    return entries
