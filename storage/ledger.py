"""How far each source has been taken, so that loading it again adds only what is new."""

from __future__ import annotations

from dataclasses import dataclass

from .meta import Json, expect_members


@dataclass(frozen=True, slots=True)
class Position:
    """A source taken up to here; it is acknowledged in one frame with the events before it.

    fingerprint: what the source is recognised by, whatever its name. offset: bytes taken of the decompressed
    stream. line: lines taken. digest: blake2b of the bytes [0, offset), in hex. marks: offset and digest of
    earlier places, ascending: by these a shorter copy of the source is recognised.
    """

    fingerprint: str
    name: str
    offset: int
    line: int
    digest: str
    marks: tuple[tuple[int, str], ...] = ()

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {
            "fingerprint": self.fingerprint,
            "name": self.name,
            "offset": self.offset,
            "line": self.line,
            "digest": self.digest,
            "marks": [list(mark) for mark in self.marks],
        }

    @classmethod
    def from_json(cls, obj: Json) -> Position:
        """Read what `to_json` gave."""
        expect_members(obj, ("fingerprint", "name", "offset", "line", "digest", "marks"), "position")
        return cls(**(obj | {"marks": tuple((offset, digest) for offset, digest in obj["marks"])}))
