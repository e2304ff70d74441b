"""Manifests: small immutable roots, one a version; the newest says what the store holds.

Byte layout: `docs/format/manifest.md`. Commit order: everything a root names is written and synced, and its
directory synced; `stage`; `publish`, whose link is the commit point and takes a version number only once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .blame import MEND, as_damage
from .document import pack, unpack
from .errors import DamageError
from .files import Files, names_below, write_file
from .stored_file import Json, StoredFile, expect_members

_NAME = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, slots=True)
class ListFile:
    """A list file and how many entries it holds."""

    file: StoredFile
    n: int

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return self.file.to_json() | {"n": self.n}

    @classmethod
    def from_json(cls, obj: Json) -> ListFile:
        """Read what `to_json` gave."""
        expect_members(obj, ("name", "bytes", "crc32c", "n"), "list")
        return cls(StoredFile(obj["name"], obj["bytes"], obj["crc32c"]), obj["n"])


@dataclass(frozen=True, slots=True)
class Root:
    """What one manifest file says.

    epoch: how often the store had been opened for writing. wal_floor: first file of the log that is not in
    segments. next_seq: first sequence number that is not in segments. store_id: 32 hex digits, made with the
    store and kept by its copies. written: bytes written since the store was made, by what wrote them.
    audit_head: hash of the last audit record. The rest names files below `meta/`.
    """

    version: int
    epoch: int
    wal_floor: int
    next_seq: int
    segments: tuple[ListFile, ...] = ()
    ledger: tuple[ListFile, ...] = ()
    rejects: tuple[ListFile, ...] = ()
    audit: tuple[ListFile, ...] = ()
    model: StoredFile | None = None
    store_id: str = ""
    written: Mapping[str, int] = field(default_factory=dict)
    audit_head: str = ""

    def files(self) -> set[StoredFile]:
        """Give the files below `meta/` that it counts on."""
        lists = {file.file for file in (*self.segments, *self.ledger, *self.rejects, *self.audit)}
        return lists | ({self.model} if self.model else set())

    def names(self) -> set[str]:
        """Give their names."""
        return {file.name for file in self.files()}

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {
            "version": self.version,
            "epoch": self.epoch,
            "wal_floor": self.wal_floor,
            "next_seq": self.next_seq,
            "segments": [f.to_json() for f in self.segments],
            "ledger": [f.to_json() for f in self.ledger],
            "rejects": [f.to_json() for f in self.rejects],
            "audit": [f.to_json() for f in self.audit],
            "model": None if self.model is None else self.model.to_json(),
            "store_id": self.store_id,
            "written": dict(self.written),
            "audit_head": self.audit_head,
        }

    @classmethod
    def from_json(cls, obj: Json) -> Root:
        """Read what `to_json` gave. Raises StoreError for what a later version of treering may have added."""
        expect_members(obj, _MEMBERS, "root")
        return cls(
            version=obj["version"],
            epoch=obj["epoch"],
            wal_floor=obj["wal_floor"],
            next_seq=obj["next_seq"],
            segments=tuple(ListFile.from_json(f) for f in obj["segments"]),
            ledger=tuple(ListFile.from_json(f) for f in obj["ledger"]),
            rejects=tuple(ListFile.from_json(f) for f in obj["rejects"]),
            audit=tuple(ListFile.from_json(f) for f in obj["audit"]),
            model=None if obj["model"] is None else StoredFile.from_json(obj["model"]),
            store_id=obj["store_id"],
            written=obj["written"],
            audit_head=obj["audit_head"],
        )


_MEMBERS = (
    *("version", "epoch", "wal_floor", "next_seq", "segments", "ledger", "rejects", "audit", "model"),
    *("store_id", "written", "audit_head"),
)


def root_path(directory: Path, version: int) -> Path:
    """Give the path of a manifest."""
    return directory / f"{version:020d}.json"


def root_versions(files: Files, directory: Path) -> list[int]:
    """Give the versions that stand in the directory, ascending; none where it is not there."""
    names = names_below(files, directory)
    return [int(m[1]) for name in names if (m := _NAME.fullmatch(name))]


def read_root(files: Files, directory: Path, version: int) -> Root:
    """Give a manifest. Raises FileNotFoundError, DamageError naming it, StoreError for another format.

    One that was renamed is damaged: its number says what came before it, and what the next one has to be.
    """
    path = root_path(directory, version)
    with as_damage(path):
        data = files.read(path)
    root = Root.from_json(unpack("manifest", data, str(path)))
    if root.version != version:
        what = f"it says that it is of version {root.version}, its name says {version}"
        raise DamageError(f"{path}: {what}; give it its own name, or {MEND}", path=path, what=what)
    return root


def missing_file(version: int, error: FileNotFoundError) -> DamageError:
    """Give the error that says that a file which a version names is not there."""
    return DamageError(
        f"{error.filename}: missing, manifest {version} names it; restore the file from a copy"
    )


def staged_path(directory: Path, version: int) -> Path:
    """Give the path that a manifest has before it counts."""
    return directory / f"{version:020d}.tmp"


def stage(files: Files, directory: Path, root: Root) -> Path:
    """Write a manifest under a name that nobody reads, and give that; durable but for the directory."""
    path = staged_path(directory, root.version)
    with suppress(FileNotFoundError):
        files.unlink(path)
    write_file(files, path, [pack("manifest", root.to_json())])
    return path


def publish(files: Files, directory: Path, staged: Path, version: int) -> None:
    """Make a staged manifest the newest: committed and durable on return.

    Raises FileExistsError where another writer took the version. After any other OSError it may be committed.
    """
    files.link(staged, root_path(directory, version))
    files.fsync_dir(directory)
    # Committed: a staged name that stays is swept at the next opening.
    with suppress(OSError):
        files.unlink(staged)
