"""Segments: a part on disk as a few immutable files, mapped when needed, and sidecars for what comes late."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from .agreement import Kinds, plain_type
from .arrow_file import ArrowFile
from .batch import Int32s, Int64s, Keys
from .columns import number_view
from .derived import rewrite_derived
from .description import read_description
from .errors import DamageError
from .files import Files
from .hot_file import TEMPLATE_ID, VEC_ID, overlaid
from .kept import Kept
from .late import write_late
from .memory_part import summarised
from .meta import SegmentMeta
from .part import FieldStats, Postings, VectorTable
from .parts_file import read_parts, read_parts_of_format_1, read_template_keys
from .patt import build_tree
from .payloads import Payloads
from .post_file import read_postings, read_template_rows
from .postings import PartsTable
from .remote import GoneError
from .rows import RowIndex, Rows
from .segment_files import SegmentFiles
from .segment_writer import write
from .stored_file import StoredFile
from .tree import Tree
from .tree_file import tree_from_arrow
from .unpacked import unpacked_bytes

T = TypeVar("T")


class Segment(Rows):
    """A segment of the store. Its arrays are views of memory maps, which stay good after the files are unlinked.

    Files are mapped when first needed, and again after `close`. Methods raise DamageError, which names the
    file; what follows from other files is made of these instead, and `rebuilt` says so.
    """

    def __init__(
        self,
        files: Files,
        place: tuple[Path, str],
        meta: SegmentMeta,
        kept: Kept,
        qls_scale: Sequence[float] | None,
    ) -> None:
        super().__init__(meta.id, meta.n_rows, meta.slices)
        self._place = place
        self.meta = meta
        self.rebuilt: list[str] = []
        self._source = files
        self._shared = kept
        self._qls_scale = qls_scale
        self._opened: SegmentFiles | None = None

    @classmethod
    def open(
        cls,
        files: Files,
        directory: Path,
        meta: SegmentMeta,
        *,
        kept: Kept | None = None,
        qls_scale: Sequence[float] | None = None,
    ) -> Segment:
        """Give a segment; no file is touched before it is needed.

        kept: what is shared with other segments, its own if None. qls_scale: of the store's model, for a tree
        that must be made anew.
        """
        return cls(files, (directory.parent, directory.name), meta, kept or Kept(), qls_scale)

    @classmethod
    def of_store(
        cls, files: Files, segments: Path, meta: SegmentMeta, *, kept: Kept, qls_scale: Sequence[float] | None
    ) -> Segment:
        """Give a segment of the store whose segments lie in this directory, as `open` does."""
        return cls(files, (segments, meta.id), meta, kept, qls_scale)

    @cached_property
    def directory(self) -> Path:
        """Where its files lie. Joined when asked for: a store has thousands, and a query looks into few."""
        parent, name = self._place
        return parent / name

    def close(self) -> None:
        """Let go of the files; a later look opens them again."""
        self._opened = None

    @property
    def is_open(self) -> bool:
        """Whether files of it are mapped."""
        return self._opened is not None

    def verify(self) -> None:
        """Read all files whole, and segment.json. Raises DamageError for the first that is not as written."""
        for stored in self.meta.all_files():
            self.verify_file(stored)
        if self._files.has_description:
            read_description(self._source, self.directory, self.id)

    def verify_file(self, stored: StoredFile) -> None:
        """Read one file whole. Raises DamageError."""
        self._files.verify(stored)

    @property
    def is_stored(self) -> bool:
        """Whether this is a segment of the store: yes."""
        return True

    @property
    def t_min(self) -> int:
        """First event time."""
        return self.meta.t_min

    @property
    def t_max(self) -> int:
        """Last event time, inclusive."""
        return self.meta.t_max

    @property
    def pending(self) -> int:
        """Number of distinct vectors still to come."""
        return self.meta.pending

    @property
    def own_pending(self) -> int:
        """Number of distinct vectors that were still to come when the segment was written."""
        return int(np.count_nonzero(~self._files.own_vectors.have))

    @property
    def signals_pending(self) -> bool:
        """Whether signals that need vectors are still to come."""
        return self.meta.signals_pending

    @cached_property
    def fields(self) -> Mapping[str, FieldStats]:
        """Physical columns that hold at least one value."""
        return self.meta.all_fields()

    @cached_property
    def partitions(self) -> Mapping[str, tuple[str, ...] | None]:
        """All values of the partition columns, as the manifest lists them; None: too many to list."""
        return {name: values for name, values in self.meta.partitions.items() if not self.is_late(name)}

    def is_late(self, name: str) -> bool:
        """Whether a column came after the segment was written."""
        return any(name in late.fields for late in self.meta.late)

    def may_hold(self, name: str, value: str) -> bool:
        """Whether a text column may hold this value, by its filter; no other file is read."""
        if self.is_late(name):
            return True
        return self._derived("post", lambda _: self._files.blooms.may_hold(name, value), lambda: True)

    @property
    def tree(self) -> Tree:
        """PATT over the segment's rows; columns that came late are not in it."""
        return self._keep("tree", lambda: self._derived("patt", self._read_tree, self.made_tree))

    def made_tree(self) -> Tree:
        """Make the tree of the segment's rows."""
        own = self._files.hot
        names = summarised({name: own.kind(name) for name in own})
        return build_tree(
            self.ts,
            self.seq,
            self.slices,
            numbers={name: number_view(own[name]) for name in names},
            level=number_view(own["level"]) if "level" in own else None,
            vec_of_row=self.vec_of_row(),
            table=self._files.own_vectors if self._qls_scale is not None else None,
            qls_scale=self._qls_scale,
        )

    def vectors(self) -> VectorTable:
        """Give the dictionary of distinct vectors, late ones included."""
        return self._files.vectors

    def vec_of_row(self) -> Int32s:
        """Give the vector of each row's primary text, -1 where it has none."""
        return self._keep(VEC_ID, lambda: self._internal(VEC_ID))

    def postings(self) -> Postings:
        """Give where each vector is used."""
        return self._keep(
            "postings",
            lambda: self._derived(
                "post",
                lambda file: read_postings(file, self.n_rows, len(self.vector_keys())),
                self._postings_of_parts,
            ),
        )

    def parts_table(self) -> PartsTable:
        """Give every embedded text with its vector."""
        return self._keep("parts", self._read_parts)

    def vector_keys(self) -> Keys:
        """Give the keys of the vector dictionary, ascending by (hi, lo)."""
        return self._files.own_vectors.key

    def template_of_row(self) -> Int32s:
        """Give the template of each row's body as index into `template_keys`, -1 where it has none."""
        return self._keep(TEMPLATE_ID, lambda: self._internal(TEMPLATE_ID))

    def template_keys(self) -> Keys:
        """Give the distinct template keys, ascending by (hi, lo)."""
        return read_template_keys(self._files.of(self._parts_kind))

    def template_rows(self) -> tuple[Int64s, Int32s]:
        """Give offsets int64 (templates + 1) and the rows of each template, in (ts, seq) order."""
        return self._keep(
            "template_rows",
            lambda: self._derived(
                "post", lambda file: read_template_rows(file, self.n_rows), super(Segment, self).template_rows
            ),
        )

    def kind(self, name: str) -> pa.DataType:
        """Give the plain type of a column, without reading its values. Raises KeyError."""
        files = self._files
        if name in files.late.signals:
            return plain_type(files.late.signals[name].type)
        if name in files.hot:
            return plain_type(files.hot.kind(name))
        if name not in files.text:
            raise KeyError(self._lacks(name))
        return plain_type(files.text.kind(name))

    def kinds(self) -> Kinds:
        """Give the plain types of all columns that hold a value."""
        return {name: self.kind(name) for name in self.fields}

    def raw(self, name: str, rows: RowIndex | None = None) -> pa.Array:
        """Give a column as it is kept: texts may come dictionary-encoded. Raises KeyError."""
        files = self._files
        if name in files.late.signals or name not in files.hot:
            return super().raw(name, rows)
        return files.hot.column(name, None if rows is None else np.asarray(rows, np.int64))

    def residual(self) -> pa.Array | None:
        """Give the rarest original fields by row, None where there are none."""
        return self._files.text.residual()

    def overflow(self) -> frozenset[str]:
        """Name the rarest original fields."""
        return self._files.text.overflow

    @property
    def is_cut(self) -> bool:
        """Whether payloads were cut out of records."""
        return self._files.text.is_cut

    def payloads(self) -> Payloads:
        """Give the payloads that were cut out of records. Raises DamageError."""
        return self._files.blobs if self.is_cut else super().payloads()

    def unpacked_bytes(self) -> int:
        """Give about the memory that a merge of it takes; call it only once the files were verified.

        Its columns are in memory whole, its payloads pass through it.
        """
        files, n_bytes = self._files, self.meta.n_bytes
        text = files.of("text").buffer
        n_bytes += unpacked_bytes(text) - int(text.size)
        if self.is_cut:
            n_bytes += files.blobs.merge_bytes - int(files.blobs.file.buffer.size)
        return n_bytes

    def owners(self) -> Mapping[str, str]:
        """Name, for columns that equal another, that one."""
        files = self._files
        aliases: dict[str, str] = {**files.hot.aliases, **files.text.aliases}
        return {name: owner for name, owner in aliases.items() if not {name, owner} & set(files.late.signals)}

    @property
    def _files(self) -> SegmentFiles:
        opened = self._opened
        if opened is None:
            opened = self._opened = SegmentFiles(self._source, self.directory, self.meta, self._shared)
        self._shared.use(self)
        return opened

    def _derived(self, kind: str, read: Callable[[ArrowFile], T], make: Callable[[], T]) -> T:
        """Read from a derived file, or make what it holds where it is damaged or was not written."""
        files = self._files
        if files.stored(kind) is None:
            return make()
        try:
            return read(files.of(kind))
        except GoneError:
            raise
        except DamageError as error:
            if str(error) not in self.rebuilt:
                self.rebuilt.append(str(error))
        return make()

    def _read_tree(self, file: ArrowFile) -> Tree:
        tree = tree_from_arrow(file)
        if len(tree.count) and int(tree.count[0]) != self.n_rows:
            raise file.damage(f"its root has {tree.count[0]} rows, the manifest says {self.n_rows}")
        return tree

    def _read_parts(self) -> PartsTable:
        file = self._files.of(self._parts_kind)
        file.expect_rows(self.n_rows)
        if self._parts_kind == "post":
            return read_parts_of_format_1(file)
        return read_parts(file, self.vec_of_row())

    @property
    def _parts_kind(self) -> str:
        return "parts" if self._files.has_description else "post"

    def _internal(self, name: str) -> Int32s:
        return np.asarray(number_view(self._files.hot.column(name))[0], np.int32)

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        files = self._files
        found: T = self._shared.value(files, key, make, files.heap_bytes)
        return found

    def _hot(self) -> Mapping[str, pa.Array]:
        files = self._files
        return overlaid(files.hot, files.late.signals)

    def _has_cold(self, name: str) -> bool:
        return name in self._files.text

    def _cold(self, name: str, rows: RowIndex | None) -> pa.Array:
        return self._files.text.column(name, rows)


__all__ = ["Segment", "rewrite_derived", "write", "write_late"]
