"""All that one manifest version names, loaded; and the commit that makes the next version of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from .audit import AuditRecord, follow
from .batch import ModelInfo
from .blame import as_damage
from .document import pack, unpack
from .errors import DamageError, StoreError
from .files import Files, crc32c, write_file
from .layout import Layout
from .ledger import Position
from .listing import Listing, Rewrite, rewrite
from .manifest import ListFile, Root, missing_file, publish, read_root, root_path, stage, staged_path
from .meta import SegmentMeta
from .rejects import RejectFile
from .remote import is_remote
from .segment_list import pack_entries, unpack_entries
from .stored_file import Json, StoredFile, expect_members


class Stored(Protocol):
    """A value with a JSON form."""

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        ...

    @classmethod
    def from_json(cls, obj: Json) -> Self:
        """Read what `to_json` gave."""
        ...


S = TypeVar("S", bound=Stored)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What immutable files hold: segments by id, positions by fingerprint, reject files by name."""

    root: Root
    segments: Listing[SegmentMeta] = field(default_factory=Listing.empty)
    ledger: Listing[Position] = field(default_factory=Listing.empty)
    rejects: Listing[RejectFile] = field(default_factory=Listing.empty)
    audit: Listing[AuditRecord] = field(default_factory=Listing.empty)
    model: ModelInfo | None = None

    @property
    def n_rejected(self) -> int:
        """Number of rejects in files."""
        return sum(file.n for file in self.rejects.entries.values())

    @property
    def audit_records(self) -> list[AuditRecord]:
        """What was done to the store by hand, oldest first."""
        return [record for _, record in sorted(self.audit.entries.items())]


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit changes; None keeps what was.

    acts: action and details of each audit record to add. written: bytes by what wrote them, to be added to
    the root's.
    """

    put_segments: Collection[SegmentMeta] = ()
    drop_segments: Collection[str] = ()
    positions: Collection[Position] = ()
    rejects: Collection[RejectFile] = ()
    drop_rejects: Collection[str] = ()
    acts: Sequence[tuple[str, Mapping[str, Any]]] = ()
    written: Mapping[str, int] = field(default_factory=dict)
    model: ModelInfo | None = None
    wal_floor: int | None = None
    next_seq: int | None = None


def load(files: Files, layout: Layout, version: int, previous: Catalog | None = None) -> Catalog:
    """Read a version; list files that `previous` holds too are not read again.

    Raises FileNotFoundError where the version or a file it names is gone, DamageError, StoreError.
    """
    root = read_root(files, layout.manifest, version)
    old = previous or Catalog(root)
    if is_remote(files):
        needed = root.files() - {file.file for file in root.ledger}
        files.prefetch(layout.lists, needed - old.root.files() if previous else needed)
    return Catalog(
        root,
        _load_listing(files, layout, "segments", root.segments, SegmentMeta, old.segments),
        _later(files, layout, root, previous),
        _load_listing(files, layout, "rejects", root.rejects, RejectFile, old.rejects),
        _load_listing(files, layout, "audit", root.audit, AuditRecord, old.audit),
        None if root.model is None else load_model(files, layout, root.model),
    )


class Committer:
    """Makes versions of the manifest, one after the other.

    `commit` is durable on return. After an OSError of it the catalog is as before and the version was not
    made, unless `is_broken`: then it may have been made. `written` names the files of an unfinished commit.
    """

    def __init__(self, files: Files, layout: Layout, catalog: Catalog, *, epoch: int) -> None:
        self._files = files
        self._layout = layout
        self._epoch = epoch
        self._number = _last_number(files, layout)
        self.catalog = catalog
        self.written: list[Path] = []
        self.is_broken = False

    def next_number(self) -> int:
        """Give a number that no file below `meta/` and `rejects/` has in its name."""
        self._number += 1
        return self._number

    def commit(self, change: Change) -> list[Path]:
        """Commit a change, and give the files that the new version no longer names.

        Segment directories and files of the log are the caller's: it knows what it replaced.
        """
        old, self.written = self.catalog, []
        new = self._write(change)
        if self.written:
            self._files.fsync_dir(self._layout.lists)
        self.written.append(staged_path(self._layout.manifest, new.root.version))
        staged = stage(self._files, self._layout.manifest, new.root)
        self.is_broken = True
        self._publish(staged, new.root.version)
        self.catalog, self.written = new, []
        self.is_broken = False
        gone = old.root.names() - new.root.names()
        return [self._layout.lists / name for name in sorted(gone)]

    def _publish(self, staged: Path, version: int) -> None:
        try:
            publish(self._files, self._layout.manifest, staged, version)
        except FileExistsError as error:
            raise StoreError(
                f"{root_path(self._layout.manifest, version)} is of another writer; open the store again"
            ) from error

    def _write(self, change: Change) -> Catalog:
        old = self.catalog
        segments = self._write_listing(
            "segments", rewrite(old.segments, {s.id: s for s in change.put_segments}, change.drop_segments)
        )
        ledger = old.ledger
        if change.positions:
            positions = {p.fingerprint: p for p in change.positions}
            ledger = self._write_listing("ledger", rewrite(ledger, positions, ()))
        rejects = self._write_listing(
            "rejects", rewrite(old.rejects, {r.file.name: r for r in change.rejects}, change.drop_rejects)
        )
        records = _records(old, change.acts)
        audit = self._write_listing("audit", rewrite(old.audit, {r.key: r for r in records}, ()))
        root = replace(
            old.root,
            version=old.root.version + 1,
            epoch=self._epoch,
            wal_floor=old.root.wal_floor if change.wal_floor is None else change.wal_floor,
            next_seq=old.root.next_seq if change.next_seq is None else change.next_seq,
            segments=segments.files,
            ledger=ledger.files if change.positions else old.root.ledger,
            rejects=rejects.files,
            audit=audit.files,
            store_id=old.root.store_id or uuid.uuid4().hex,
            written=_sum(old.root.written, change.written),
            audit_head=records[-1].hash if records else old.root.audit_head,
            model=old.root.model
            if change.model is None
            else self._write_document("model", asdict(change.model)),
        )
        return Catalog(root, segments, ledger, rejects, audit, change.model or old.model)

    def _write_listing(self, kind: str, change: Rewrite[S]) -> Listing[S]:
        lists = dict(change.kept)
        for keys in change.groups:
            entries = {key: change.entries[key].to_json() for key in keys}
            body = pack_entries(entries) if kind == "segments" else {"entries": entries}
            lists[ListFile(self._write_document(kind, body), len(keys))] = keys
        return Listing(change.entries, lists)

    def _write_document(self, kind: str, body: Json) -> StoredFile:
        path = self._layout.lists / f"{kind}-{self.next_number():08d}.json"
        self.written.append(path)
        return write_file(self._files, path, [pack(kind, body)])


def _load_listing(
    files: Files, layout: Layout, kind: str, named: Collection[ListFile], of: type[S], old: Listing[S]
) -> Listing[S]:
    entries: dict[str, S] = {}
    lists: dict[ListFile, tuple[str, ...]] = {}
    for file in named:
        found = _known(old, file) or load_list(files, layout.lists, kind, file, of, old)
        entries.update(found)
        lists[file] = tuple(found)
    return Listing(entries, lists)


def _later(files: Files, layout: Layout, root: Root, old: Catalog | None) -> Listing[Position]:
    """Give the positions of sources, read when asked for: only a load asks, and there may be very many."""
    if old is not None and root.ledger == old.root.ledger:
        return old.ledger
    # A listing that nobody looked into must not be kept for the next: its files may be gone by then.
    known = old.ledger if old is not None and old.ledger.is_loaded else Listing[Position].empty()

    def read() -> Listing[Position]:
        try:
            return _load_listing(files, layout, "ledger", root.ledger, Position, known)
        except FileNotFoundError as error:
            raise missing_file(root.version, error) from error

    return Listing.later(read)


def _known(old: Listing[S], file: ListFile) -> Mapping[str, S] | None:
    return {key: old.entries[key] for key in old.lists[file]} if file in old.lists else None


def load_list(
    files: Files, directory: Path, kind: str, file: ListFile, of: type[S], old: Listing[S]
) -> Mapping[str, S]:
    """Give the entries of one list; those that `old` has too are its own objects.

    Raises FileNotFoundError, DamageError, StoreError.
    """
    body = unpack(kind, _read_checked(files, directory, file.file), str(directory / file.file.name))
    members = ("names", "entries") if kind == "segments" else ("entries",)
    expect_members(body, members, f"list {file.file.name}")
    entries = unpack_entries(body) if kind == "segments" else body["entries"]
    fresh = {key: of.from_json(entry) for key, entry in entries.items()}
    # What did not change stays the same object, so that what was opened for it stays open.
    return {key: old.entries[key] if old.entries.get(key) == entry else entry for key, entry in fresh.items()}


def load_model(files: Files, layout: Layout, file: StoredFile) -> ModelInfo:
    """Give what the vectors are made with. Raises FileNotFoundError, DamageError, StoreError."""
    body = unpack("model", _read_checked(files, layout.lists, file), str(layout.lists / file.name))
    return ModelInfo(**(body | {"qls_scale": tuple(body["qls_scale"])}))


def _read_checked(files: Files, directory: Path, file: StoredFile) -> bytes:
    if is_remote(files):
        return bytes(files.fetch(directory / file.name, file))
    with as_damage(directory / file.name):
        data = files.read(directory / file.name)
    if (len(data), crc32c(data)) != (file.n_bytes, file.crc32c):
        raise DamageError(
            f"{directory / file.name}: {len(data)} bytes with checksum {crc32c(data):08x}, expected "
            f"{file.n_bytes} with {file.crc32c:08x}; restore the file from a copy"
        )
    return data


def _records(old: Catalog, acts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[AuditRecord]:
    if not acts:
        return []
    records = [*old.audit_records[-1:]]
    n_old = len(records)
    for action, details in acts:
        records.append(follow(records[-1] if records else None, action, details, time.time_ns()))
    return records[n_old:]


def _sum(old: Mapping[str, int], added: Mapping[str, int]) -> dict[str, int]:
    return {name: old.get(name, 0) + added.get(name, 0) for name in {**old, **added}}


def _last_number(files: Files, layout: Layout) -> int:
    names = [*files.listdir(layout.lists), *files.listdir(layout.rejects)]
    numbers = (name.partition(".")[0].rpartition("-")[2] for name in names)
    return max((int(number) for number in numbers if number.isdigit()), default=0)
