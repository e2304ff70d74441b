"""How far each source has been taken, so that loading it again adds only what is new."""

from __future__ import annotations

from dataclasses import dataclass

from .meta import Json, expect_members


@dataclass(frozen=True, slots=True)
class Position:
    """A source taken up to here; it is acknowledged in one frame with the events before it.

    fingerprint: what the source is recognised by, whatever its name. offset: bytes taken of the decompressed
    stream. line: lines taken. digest: blake2b of the bytes [0, offset), in hex.
    """

    fingerprint: str
    name: str
    offset: int
    line: int
    digest: str

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {
            "fingerprint": self.fingerprint,
            "name": self.name,
            "offset": self.offset,
            "line": self.line,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, obj: Json) -> Position:
        """Read what `to_json` gave."""
        expect_members(obj, ("fingerprint", "name", "offset", "line", "digest"), "position")
        return cls(**obj)
