"""A part written as a segment: its primary files, what is derived of them, and what it says of itself."""

from __future__ import annotations

from pathlib import Path

from .blob_file import write_blobs
from .blooms import bloom_columns
from .description import write_description
from .files import Files
from .hot_file import write_hot
from .memory_part import MemoryPart
from .meta import SegmentMeta
from .parts_file import write_parts
from .post_file import write_post
from .record_cuts import cut_out
from .stored_file import StoredFile
from .sums import Sums
from .text_file import write_text
from .tree import LEAF_ROWS
from .tree_file import write_tree
from .vec_file import write_vectors

HOT, TEXT, VEC, PARTS, BLOBS, POST, PATT = (
    f"{kind}.arrow" for kind in ("hot", "text", "vec", "parts", "blobs", "post", "patt")
)
"""The files of a segment; a repair gives `post` and `patt` names with a number."""


def write(
    files: Files, directory: Path, part: MemoryPart, *, level: int, cell: int, generation: int = 0
) -> SegmentMeta:
    """Write a part as a segment, durable on return but for the entry of `directory` in its parent.

    Payloads are cut out of records that still have them. level, cell: the dyadic cell that holds all its times.
    generation: how often its rows were folded; young text is compressed with lz4, folded text with zstd (39 %
    smaller, 3 times slower to read a page). Raises OSError as the system gives it, DamageError where a payload of
    the part cannot be read.
    """
    files.mkdir(directory)
    sums: dict[str, Sums] = {}
    meta = SegmentMeta(
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
        files=(
            *_write_primary(files, directory, part, "zstd" if generation else "lz4", sums),
            *_write_derived(files, directory, part, sums),
        ),
        pending=part.pending,
        signals_pending=part.signals_pending,
        generation=generation,
        partitions=part.partitions,
    )
    write_description(files, directory, meta, sums)
    files.fsync_dir(directory)
    return meta


def _write_primary(
    files: Files, directory: Path, part: MemoryPart, compression: str, sums: dict[str, Sums]
) -> list[StoredFile]:
    vec_of_row = part.vec_of_row()
    placed, payloads = cut_out(part.placed, part.payloads())
    stored = [
        write_hot(
            files,
            directory / HOT,
            placed,
            part.n_rows,
            vec_of_row=vec_of_row,
            template_of_row=part.template_of_row(),
            sums=sums,
        ),
        write_text(files, directory / TEXT, placed, part.n_rows, compression=compression, sums=sums),
        write_vectors(files, directory / VEC, part.vectors(), sums=sums),
        write_parts(
            files,
            directory / PARTS,
            part.parts_table(),
            vec_of_row=vec_of_row,
            template_keys=part.template_keys(),
            sums=sums,
        ),
    ]
    if len(payloads):
        stored.append(write_blobs(files, directory / BLOBS, payloads, sums=sums))
    return stored


def _write_derived(
    files: Files, directory: Path, part: MemoryPart, sums: dict[str, Sums]
) -> list[StoredFile]:
    """Write what a look would else have to make; of few rows it is made as quickly as it is read."""
    filters = bloom_columns(part.placed, part.partitions)
    is_small = part.n_rows <= LEAF_ROWS
    stored = []
    if not is_small or filters[1]:
        stored.append(write_post(files, directory / POST, part, filters=filters, sums=sums))
    if not is_small:
        stored.append(write_tree(files, directory / PATT, part.tree, len(part.slices), sums=sums))
    return stored
