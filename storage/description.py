"""segment.json: what a segment's directory says of itself, and the checksums of the blocks of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .blame import past_damage, told
from .damage import Origin
from .document import pack, unpack
from .errors import DamageError
from .files import Files, write_file
from .layout import SEGMENT_FILE
from .meta import SegmentMeta
from .stored_file import expect_members
from .sums import Sums, n_blocks, pack_sums, unpack_sums


@dataclass(frozen=True, slots=True)
class Description:
    """meta: the segment as it was written, without what came later. sums: of the blocks of each file, by name."""

    meta: SegmentMeta
    sums: Mapping[str, Sums]

    def sums_of(self, name: str, meta: SegmentMeta) -> Sums | None:
        """Give the checksums of a file that the manifest names, None where these are not of that file."""
        stored = next((file for file in meta.files if file.name == name), None)
        described = next((file for file in self.meta.files if file.name == name), None)
        sums = self.sums.get(name)
        if stored is None or stored != described or sums is None or len(sums) != n_blocks(stored.n_bytes):
            return None
        return sums


def write_description(
    files: Files, directory: Path, meta: SegmentMeta, sums: Mapping[str, Sums], *, name: str = SEGMENT_FILE
) -> None:
    """Write it, synced; the caller syncs the directory. Raises OSError as the system gives it."""
    body = {
        "meta": replace(meta, late=(), deleted=None).to_json(),
        "sums": {file: pack_sums(found) for file, found in sums.items()},
    }
    write_file(files, directory / name, [pack("segment", body)])


def read_description(files: Files, directory: Path, segment_id: str) -> Description:
    """Read it. Raises DamageError where it is missing, not as it was written, or of another segment."""
    path = directory / SEGMENT_FILE
    origin = Origin(path, segment_id, "`treering check --repair` writes it anew")
    try:
        body = unpack("segment", files.read(path), str(path))
    except DamageError as error:
        raise origin.damage("its checksum is not that of its bytes") from error
    except OSError as error:
        raise origin.damage(told(error, path)) from error
    expect_members(body, ("meta", "sums"), "segment.json")
    sums = {name: unpack_sums(text) for name, text in body["sums"].items()}
    found = Description(SegmentMeta.from_json(body["meta"]), sums)
    if found.meta.id != segment_id:
        raise origin.damage(f"it is of segment {found.meta.id}, expected {segment_id}")
    return found


def find_description(files: Files, directory: Path, segment_id: str) -> Description | None:
    """Give the description of a segment, None where it is damaged: then files are checked whole, by the manifest."""
    with past_damage():
        return read_description(files, directory, segment_id)
    return None
