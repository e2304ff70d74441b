"""Where things lie in a store; `docs/format/layout.md` draws it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SEGMENT_FILE = "segment.json"
"""What a segment's directory says of itself: its entry of the manifest and the checksums of its blocks."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of the store at `path`."""

    path: Path

    @property
    def lock(self) -> Path:
        """File that the one writer holds a flock on."""
        return self.path / "LOCK"

    @property
    def backup(self) -> Path:
        """File in which a backup says of which store it is; a store that is no backup has none."""
        return self.path / "backup.json"

    @property
    def manifest(self) -> Path:
        """Directory of the manifests."""
        return self.path / "_manifest"

    @property
    def lists(self) -> Path:
        """Directory of what the manifests name: lists of segments, positions and reject files, the model."""
        return self.path / "meta"

    @property
    def repairing(self) -> Path:
        """File that is there while a repair writes files into segments that no version names yet."""
        return self.lists / "repairing"

    @property
    def wal(self) -> Path:
        """Directory of the write-ahead log."""
        return self.path / "wal"

    @property
    def segments(self) -> Path:
        """Directory of segment directories."""
        return self.path / "seg"

    @property
    def rejects(self) -> Path:
        """Directory of reject files."""
        return self.path / "rejects"

    @property
    def reembed(self) -> Path:
        """Directory of the shadow, while the store is being moved to another model; there is none else."""
        return self.path / "reembed"

    @property
    def salvaged(self) -> Path:
        """Directory of what salvages put aside; nothing counts on it."""
        return self.path / "salvaged"

    @property
    def directories(self) -> tuple[Path, ...]:
        """Every directory of a store but its own."""
        return (self.manifest, self.lists, self.wal, self.segments, self.rejects)

    def segment(self, segment_id: str) -> Path:
        """Directory of one segment."""
        return self.segments / segment_id
