"""One immutable file as it is named elsewhere: by its name, its size and its checksum."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .errors import StoreError

Json = dict[str, Any]
"""An object of JSON values, as orjson reads and writes it."""


def expect_members(obj: Json, names: Collection[str], what: str) -> None:
    """Raise StoreError unless `obj` has these members and no others.

    A member that is not known may say that events are gone: a reader that passed over it would show them.
    """
    names = names if isinstance(names, frozenset) else frozenset(names)
    if obj.keys() == names:
        return
    odd = sorted(obj.keys() ^ names)
    raise StoreError(
        f"{what} of the manifest: member {odd[0]!r} is {'unknown' if odd[0] in obj else 'missing'}; "
        "use the treering version that wrote the store"
    )


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One immutable file: its name inside its directory, its size and the crc32c of all its bytes."""

    name: str
    n_bytes: int
    crc32c: int

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {"name": self.name, "bytes": self.n_bytes, "crc32c": self.crc32c}

    @classmethod
    def from_json(cls, obj: Json) -> StoredFile:
        """Read what `to_json` gave."""
        expect_members(obj, ("name", "bytes", "crc32c"), "file")
        return cls(obj["name"], obj["bytes"], obj["crc32c"])
