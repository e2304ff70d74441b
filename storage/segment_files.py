"""The files of one segment: found by kind, mapped when first needed, their bytes checked before they are read."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow_file import ArrowFile, Guarded, map_file
from .blob_file import BlobFile
from .blooms import Blooms
from .damage import Origin, origin_of
from .description import Description, find_description
from .files import Files, as_store_error
from .hot_file import HotFile
from .kept import Holder, Kept
from .late import LateColumns, read_late
from .meta import SegmentMeta
from .part import VectorTable
from .remote import is_remote
from .stored_file import StoredFile
from .sums import Checks
from .text_file import TextFile
from .vec_file import PLANES, SIDES, read_vectors
from .vectors import add_late

DERIVED = ("post", "patt")
"""Kinds of files that hold nothing that does not follow from the others."""

_GUARDED: dict[str, Guarded] = {"vec": (*PLANES, *SIDES), "post": ("bloom.",)}
"""Columns that are checked by those who read them, a few rows or words at a time."""


def kind_of(name: str) -> str:
    """Give what a file of a segment holds: its name up to the first `-` or `.`."""
    return name.partition(".")[0].partition("-")[0]


def next_number(names: Iterable[str], kind: str) -> int:
    """Give a number that no file of a kind has among these: 0, and 1 behind the highest; without one is 0."""
    stems = [name.partition(".")[0] for name in names if kind_of(name) == kind]
    numbers = [stem.partition("-")[2] or "0" for stem in stems]
    return 1 + max((int(number) for number in numbers if number.isdigit()), default=-1)


class SegmentFiles(Holder):
    """Open files of a segment, and what was read from them. Raises DamageError."""

    def __init__(self, files: Files, directory: Path, meta: SegmentMeta, kept: Kept) -> None:
        super().__init__()
        self._files = files
        self._directory = directory
        self._meta = meta
        self._kept = kept
        self._checks: dict[str, Checks] = {}
        self._opened: dict[str, ArrowFile] = {}
        self._mutex = threading.Lock()

    def stored(self, kind: str) -> StoredFile | None:
        """Give the file of a kind, None where the segment has none."""
        return self._by_kind.get(kind)

    def of(self, kind: str) -> ArrowFile:
        """Give the open file of a kind that the segment has."""
        stored = self.stored(kind)
        if stored is None:
            raise Origin(self._directory, self._meta.id).damage(f"the manifest names no file of kind {kind}")
        return self._open(stored, kind)

    def verify(self, stored: StoredFile) -> None:
        """Read a file whole, by the manifest and by segment.json."""
        checks = self._checks_of(stored)
        checks.check_sums()
        checks.check_whole()

    @property
    def has_description(self) -> bool:
        """Whether the segment was written with a segment.json: those of format 1 were not."""
        return self.stored("parts") is not None

    def heap_bytes(self, value: Any) -> int:
        """Give the bytes that the arrays of a value take beyond the maps."""
        arrays = value if isinstance(value, tuple) else [getattr(value, n, None) for n in _slots(value)]
        return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray) and not self._is_mapped(a))

    def origin(self, name: str) -> Origin:
        """Give what damage to a file means."""
        kind = kind_of(name)
        return origin_of(
            self._directory / name,
            self._meta,
            is_derived=self._is_derived(kind),
            has_payloads=kind == "blobs",
        )

    @cached_property
    def blooms(self) -> Blooms:
        """The filters of a segment that has a post.arrow."""
        return Blooms(self.of("post"))

    @cached_property
    def hot(self) -> HotFile:
        """The hot columns."""
        return HotFile(self.of("hot"), self._meta.n_rows)

    @cached_property
    def text(self) -> TextFile:
        """The cold columns."""
        return TextFile(self.of("text"), self._meta.n_rows, self._kept.keeper(self))

    @cached_property
    def blobs(self) -> BlobFile:
        """The payloads that were cut out of records."""
        return BlobFile(self.of("blobs"))

    @cached_property
    def own_vectors(self) -> VectorTable:
        """The dictionary as it was written, without what came late."""
        return read_vectors(self.of("vec"))

    @cached_property
    def vectors(self) -> VectorTable:
        """The dictionary, late vectors included."""
        return add_late(self.own_vectors, self.late.vectors)

    @cached_property
    def late(self) -> LateColumns:
        """What came late."""
        sidecars = [self._open(late.file, "late") for late in self._meta.late]
        return read_late(sidecars, self._meta.n_rows)

    @cached_property
    def _by_kind(self) -> dict[str, StoredFile]:
        return {kind_of(file.name): file for file in self._meta.files}

    @cached_property
    def _description(self) -> Description | None:
        with as_store_error(self._directory, "read it"):
            return find_description(self._files, self._directory, self._meta.id)

    def _is_mapped(self, array: npt.NDArray[Any]) -> bool:
        place = array.__array_interface__["data"][0]
        buffers = [checks.buffer for checks in self._checks.values()]
        return any(buffer.address <= place < buffer.address + buffer.size for buffer in buffers)

    def _is_derived(self, kind: str) -> bool:
        # Files of format 1 have no parts.arrow: what it holds is in their post.arrow.
        return kind == "patt" or (kind == "post" and self.has_description)

    def _open(self, stored: StoredFile, kind: str) -> ArrowFile:
        if stored.name not in self._opened:
            checks, origin = self._checks_of(stored), self.origin(stored.name)
            self._opened[stored.name] = ArrowFile(
                origin.path,
                checks.buffer,
                kind,
                checks=checks,
                origin=origin,
                guarded=_GUARDED.get(kind, ()),
            )
        return self._opened[stored.name]

    def _checks_of(self, stored: StoredFile) -> Checks:
        # One thread fetches a file, the others wait for it.
        with self._mutex:
            return self._known_checks(stored)

    def _known_checks(self, stored: StoredFile) -> Checks:
        if stored.name not in self._checks:
            origin = self.origin(stored.name)
            with as_store_error(origin.path, "read it"):
                buffer = map_file(self._files, self._directory, stored, origin)
            self._checks[stored.name] = self._made_checks(origin, buffer, stored)
        return self._checks[stored.name]

    def _made_checks(self, origin: Origin, buffer: pa.Buffer, stored: StoredFile) -> Checks:
        if is_remote(self._files):
            return Checks(origin, buffer, stored, None, is_known=True)
        described = self._description
        sums = None if described is None else described.sums_of(stored.name, self._meta)
        return Checks(origin, buffer, stored, sums)


def _slots(value: Any) -> tuple[str, ...]:
    return getattr(type(value), "__slots__", ())
