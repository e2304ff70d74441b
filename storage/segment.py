"""Segments: a part on disk as five immutable files, mapped when opened, and sidecars for what comes late."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from .agreement import Kinds, plain_type
from .arrow_file import ArrowFile, damage, map_file, read_lists, verify_file, write_arrow, write_lists
from .batch import KEY, Int32s, Int64s, Keys
from .columns import find_owners, shrink_codes
from .files import Files
from .late import LateColumns, read_late, write_late
from .memory import MemoryPart
from .meta import SegmentMeta, StoredFile
from .part import FieldStats, Postings, VectorTable
from .postings import PartsTable
from .rows import RowIndex, Rows
from .text_file import TextFile, write_text
from .tree import Tree
from .tree_file import tree_from_arrow, write_tree
from .vectors import add_late, fixed_binary, flat_view, from_arrow, to_arrow, view_rows

HOT, TEXT, VEC, POST, PATT = "hot.arrow", "text.arrow", "vec.arrow", "post.arrow", "patt.arrow"
"""The files of a segment."""

INTERNAL = ("vec_id", "template_id", "shard")
"""Columns of hot.arrow that are no fields of events."""


def write(
    files: Files, directory: Path, part: MemoryPart, *, level: int, cell: int, generation: int = 0
) -> SegmentMeta:
    """Write a part as a segment, durable on return but for the entry of `directory` in its parent.

    level, cell: the dyadic cell that holds all its times. generation: how often its rows were folded; young
    text is compressed with lz4, folded text with zstd (39 % smaller, 3 times slower to read a page). Raises
    OSError as the system gives it.
    """
    files.mkdir(directory)
    compression = "zstd" if generation else "lz4"
    stored = (
        _write_hot(files, directory / HOT, part),
        write_text(files, directory / TEXT, part.placed, part.n_rows, compression=compression),
        _write_vectors(files, directory / VEC, part),
        _write_postings(files, directory / POST, part),
        write_tree(files, directory / PATT, part.tree, len(part.slices)),
    )
    files.fsync_dir(directory)
    return SegmentMeta(
        id=part.id,
        level=level,
        cell=cell,
        n_rows=part.n_rows,
        t_min=part.t_min,
        t_max=part.t_max,
        seq_min=int(part.seq.min(initial=2**63 - 1)),
        seq_max=int(part.seq.max(initial=-1)),
        fields=dict(part.fields),
        slices=tuple(part.slices),
        files=stored,
        pending=part.pending,
        signals_pending=part.signals_pending,
        generation=generation,
    )


class Segment(Rows):
    """An open segment. Its arrays are views of memory maps, which stay good after the files are unlinked."""

    def __init__(self, directory: Path, meta: SegmentMeta, maps: Mapping[str, pa.Buffer]) -> None:
        super().__init__(meta.id, meta.n_rows, meta.slices)
        self.directory = directory
        self.meta = meta
        self._maps = maps
        self._fields = meta.all_fields()

    @classmethod
    def open(cls, files: Files, directory: Path, meta: SegmentMeta) -> Segment:
        """Map the files of a segment and check their sizes and ends; each is parsed when first needed.

        Format, kind and row counts are checked on parsing, checksums by `verify`. Raises DamageError, here
        and from any method, which names the file.
        """
        maps = {stored.name: map_file(files, directory, stored) for stored in _all_files(meta)}
        return cls(directory, meta, maps)

    def verify(self) -> None:
        """Read all files whole. Raises DamageError for the first whose checksum is not the manifest's."""
        for stored in _all_files(self.meta):
            verify_file(self.directory / stored.name, self._maps[stored.name], stored)

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
    def signals_pending(self) -> bool:
        """Whether signals that need vectors are still to come."""
        return self.meta.signals_pending

    @property
    def fields(self) -> Mapping[str, FieldStats]:
        """Physical columns that hold at least one value."""
        return self._fields

    @property
    def tree(self) -> Tree:
        """PATT over the segment's rows; columns that came late are not in it."""
        return self._tree

    def vectors(self) -> VectorTable:
        """Give the dictionary of distinct vectors, late ones included."""
        return self._vectors

    def vec_of_row(self) -> Int32s:
        """Give the vector of each row's primary text, -1 where it has none."""
        return flat_view(self._hot_columns["vec_id"], np.int32)

    def postings(self) -> Postings:
        """Give where each vector is used."""
        lists = self._lists
        return Postings(
            flat_view(lists["vector_offsets"], np.int64),
            flat_view(lists["vector_row"], np.int32),
            flat_view(lists["vector_field"], np.uint8),
        )

    def parts_table(self) -> PartsTable:
        """Give every embedded text with its vector."""
        lists = self._lists
        return PartsTable(
            flat_view(lists["parts_row"], np.int32),
            flat_view(lists["parts_field"], np.uint8),
            flat_view(lists["parts_chunk"], np.int16),
            flat_view(lists["parts_vec"], np.int32),
            flat_view(lists["parts_primary"], np.uint8).view(np.bool_),
        )

    def vector_keys(self) -> Keys:
        """Give the keys of the vector dictionary, ascending by (hi, lo)."""
        return self._vectors.key

    def template_of_row(self) -> Int32s:
        """Give the template of each row's body as index into `template_keys`, -1 where it has none."""
        return flat_view(self._hot_columns["template_id"], np.int32)

    def template_keys(self) -> Keys:
        """Give the distinct template keys, ascending by (hi, lo)."""
        return view_rows(self._lists["template_keys"], KEY)[:, 0]

    def template_rows(self) -> tuple[Int64s, Int32s]:
        """Give offsets int64 (templates + 1) and the rows of each template, in (ts, seq) order."""
        lists = self._lists
        offsets = flat_view(lists["template_offsets"], np.int64)
        return offsets, flat_view(lists["template_row"], np.int32)

    def kind(self, name: str) -> pa.DataType:
        """Give the plain type of a column, without reading its values. Raises KeyError."""
        array = self._fields_hot.get(name)
        if array is None and name not in self._text:
            raise KeyError(self._lacks(name))
        return plain_type(self._text.kind(name) if array is None else array.type)

    def kinds(self) -> Kinds:
        """Give the plain types of all columns that hold a value."""
        return {name: self.kind(name) for name in self.fields}

    def residual(self) -> pa.Array | None:
        """Give the rarest original fields by row, None where there are none."""
        return self._text.residual()

    def overflow(self) -> frozenset[str]:
        """Name the rarest original fields."""
        return self._text.overflow

    def owners(self) -> Mapping[str, str]:
        """Name, for columns that equal another, that one."""
        aliases: dict[str, str] = {**self._file(HOT, "hot").facts["aliases"], **self._text.aliases}
        return {name: owner for name, owner in aliases.items() if not {name, owner} & set(self._late.signals)}

    @cached_property
    def _hot_columns(self) -> dict[str, pa.Array]:
        file = self._file(HOT, "hot")
        file.expect_rows(self.n_rows)
        columns = file.columns()
        if any(len(array) != self.n_rows for array in columns.values()):
            raise damage(file.path, f"its record batch has not the {self.n_rows} rows of the manifest")
        return columns

    @cached_property
    def _fields_hot(self) -> dict[str, pa.Array]:
        stored = self._hot_columns
        aliases = self._file(HOT, "hot").facts["aliases"]
        named = {name: array for name, array in stored.items() if name not in INTERNAL}
        named.update({name: stored[owner] for name, owner in aliases.items()})
        named.update(self._late.signals)
        return named

    @cached_property
    def _text(self) -> TextFile:
        file = self._file(TEXT, "text")
        file.expect_rows(self.n_rows)
        return TextFile(file, self.n_rows)

    @cached_property
    def _stored_vectors(self) -> VectorTable:
        file = self._file(VEC, "vec")
        table = from_arrow(file.columns())
        file.expect_rows(len(table))
        return table

    @cached_property
    def _vectors(self) -> VectorTable:
        return add_late(self._stored_vectors, self._late.vectors)

    @cached_property
    def _lists(self) -> dict[str, pa.Array]:
        file = self._file(POST, "post")
        file.expect_rows(self.n_rows)
        lists = read_lists(file)
        if len(lists["vector_offsets"]) != len(self._stored_vectors) + 1:
            raise damage(file.path, f"it has not the {len(self._stored_vectors)} vectors of {VEC}")
        return lists

    @cached_property
    def _tree(self) -> Tree:
        file = self._file(PATT, "patt")
        tree = tree_from_arrow(file)
        if len(tree.count) and int(tree.count[0]) != self.n_rows:
            raise damage(file.path, f"its root has {tree.count[0]} rows, the manifest says {self.n_rows}")
        return tree

    @cached_property
    def _late(self) -> LateColumns:
        return read_late([self._file(late.file.name, "late") for late in self.meta.late], self.n_rows)

    def _file(self, name: str, kind: str) -> ArrowFile:
        if name not in self._open_files:
            self._open_files[name] = ArrowFile(self.directory / name, self._maps[name], kind)
        return self._open_files[name]

    @cached_property
    def _open_files(self) -> dict[str, ArrowFile]:
        return {}

    def _hot(self) -> Mapping[str, pa.Array]:
        return self._fields_hot

    def _has_cold(self, name: str) -> bool:
        return name in self._text

    def _cold(self, name: str, rows: RowIndex | None) -> pa.Array:
        return self._text.column(name, rows)


def _all_files(meta: SegmentMeta) -> list[StoredFile]:
    return [*meta.files, *(late.file for late in meta.late)]


def _write_hot(files: Files, path: Path, part: MemoryPart) -> StoredFile:
    hot = part.placed.hot
    owners = find_owners(hot)
    shard = np.empty(part.n_rows, np.uint16)
    for piece in part.slices:
        shard[piece.lo : piece.hi] = piece.shard
    columns = {
        "ts": hot["ts"],
        "seq": hot["seq"],
        "vec_id": pa.array(part.vec_of_row()),
        "template_id": pa.array(part.template_of_row()),
        "shard": pa.array(shard),
    }
    for name in sorted(hot):
        if owners[name] == name and name not in columns:
            array = hot[name]
            columns[name] = shrink_codes(array) if pa.types.is_dictionary(array.type) else array
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    aliases = {name: owner for name, owner in sorted(owners.items()) if name != owner}
    facts = {"rows": part.n_rows, "aliases": aliases}
    return write_arrow(files, path, batch.schema, [batch], kind="hot", facts=facts)


def _write_vectors(files: Files, path: Path, part: MemoryPart) -> StoredFile:
    table = part.vectors()
    columns = to_arrow(table)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    facts = {"rows": len(table), "dim": int(table.exact.shape[1])}
    return write_arrow(files, path, batch.schema, [batch], kind="vec", facts=facts)


def _write_postings(files: Files, path: Path, part: MemoryPart) -> StoredFile:
    parts, postings = part.parts_table(), part.postings()
    offsets, rows = part.template_rows()
    columns = {
        "parts_row": pa.array(parts.row),
        "parts_field": pa.array(parts.field),
        "parts_chunk": pa.array(parts.chunk),
        "parts_vec": pa.array(parts.vec),
        "parts_primary": pa.array(parts.primary.view(np.uint8)),
        "vector_offsets": pa.array(postings.offsets),
        "vector_row": pa.array(postings.row),
        "vector_field": pa.array(postings.field),
        "template_keys": fixed_binary(part.template_keys()),
        "template_offsets": pa.array(offsets),
        "template_row": pa.array(rows),
    }
    return write_lists(files, path, columns, kind="post", facts={"rows": part.n_rows})


__all__ = ["Segment", "write", "write_late"]
