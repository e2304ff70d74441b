"""The vectors and embedded texts of a segment whose files are whole, and what is derived of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrow_file import read_lists
from .batch import NO_HEAD, Keys
from .blooms import BLOOM, make_filter
from .check_rows import MANIFEST, Wrong
from .columns import plain
from .deletion import Gone
from .part import VectorTable
from .post_file import read_postings, read_template_rows
from .rows import Rows, inverse
from .segment import Segment
from .segment_files import SegmentFiles
from .survivors import waiting
from .tree import Tree
from .tree_file import FLAT, tree_from_arrow
from .vectors import code_width, flat_view

BLOCK_VECTORS = 4096
"""Vectors that are worked on at once."""

SIGNATURE_DRIFT = 1e-3
"""Signatures are float32 sums that come to the same in another order, but for this share of the largest."""


@dataclass(frozen=True, slots=True)
class VectorsCheck:
    """Compares vectors, texts and derived files with the rows. opened: the segment's files, all of them whole.

    gone: what of the segment is deleted. next_seq: first number that no segment has.
    """

    segment: Segment
    opened: SegmentFiles
    gone: Gone
    next_seq: int

    def vectors(self) -> Iterator[Wrong]:
        """Look at the dictionary by itself."""
        name, table = self._name("vec"), self.opened.own_vectors
        if not _ascend(table.key):
            yield Wrong(name, "its keys do not ascend")
        if len(table) and int(table.exemplar.max()) >= self.next_seq:
            yield Wrong(name, "a vector is made of an event that the store has not had yet")
        if _is_coded_wrong(table):
            yield Wrong(name, "codes, scale and err of a vector do not bound it")
        found = self._pending()
        if found != self.segment.meta.pending:
            yield Wrong(
                MANIFEST, f"{self.segment.meta.pending} vectors are to come by it, {found} by the files"
            )
        if len(self.gone.vectors) and int(self.gone.vectors[-1]) >= len(table):
            yield Wrong(MANIFEST, "vectors are deleted that it does not have")

    def texts(self) -> Iterator[Wrong]:
        """Compare the embedded texts and templates with the rows and the dictionary."""
        segment, name = self.segment, self._name("parts")
        parts, n_vectors = segment.parts_table(), len(segment.vector_keys())
        if len({len(getattr(parts, one)) for one in ("row", "field", "chunk", "vec", "primary")}) != 1:
            yield Wrong(name, "its columns have different lengths")
            return
        if len(parts) and not (_is_inside(parts.row, segment.n_rows) and _is_inside(parts.vec, n_vectors)):
            yield Wrong(name, "a text is of an event or a vector that is not there")
            return
        order = np.lexsort((parts.chunk, parts.field, parts.row))
        if not np.array_equal(order, np.arange(len(parts))):
            yield Wrong(name, "its texts are not in the order of events")
        if len(np.unique(parts.row[parts.primary])) != np.count_nonzero(parts.primary):
            yield Wrong(name, "two texts stand for one event")
        if not np.array_equal(parts.vec_of_row(segment.n_rows), segment.vec_of_row()):
            yield Wrong(name, "an event's vector is not that of its first text")
        keys, template = segment.template_keys(), segment.template_of_row()
        if not _ascend(keys) or (len(keys) and not (keys[0]["hi"] or keys[0]["lo"])):
            yield Wrong(name, "the keys of its templates do not ascend from above zero")
        if len(template) and not -1 <= int(template.min()) <= int(template.max()) < len(keys):
            yield Wrong(self._name("hot"), "an event has a template that is not there")

    def postings(self) -> Iterator[Wrong]:
        """Compare post.arrow with what it is made of."""
        segment, stored = self.segment, self.opened.stored("post")
        if stored is None:
            return
        file, order = self.opened.of("post"), segment.time_order()
        made = segment.parts_table().postings(
            len(segment.vector_keys()), None if order is None else inverse(order)
        )
        found = read_postings(file, segment.n_rows, len(segment.vector_keys()))
        if not all(np.array_equal(getattr(found, n), getattr(made, n)) for n in ("offsets", "row", "field")):
            yield Wrong(stored.name, "its postings are not those of the embedded texts")
        offsets, rows = read_template_rows(file, segment.n_rows)
        made_offsets, made_rows = Rows.template_rows(segment)
        if not (np.array_equal(offsets, made_offsets) and np.array_equal(rows, made_rows)):
            yield Wrong(stored.name, "its rows of templates are not those of the events")
        yield from self._filters(stored.name)

    def tree(self) -> Iterator[Wrong]:
        """Compare patt.arrow with the rows."""
        stored = self.opened.stored("patt")
        if stored is None:
            return
        what = _other_tree(tree_from_arrow(self.opened.of("patt")), self.segment.made_tree())
        if what is not None:
            yield Wrong(stored.name, f"its {what} are not those of the events")

    def _filters(self, name: str) -> Iterator[Wrong]:
        file = self.opened.of("post")
        words, owners = read_lists(file), file.facts.get("blooms", {})
        for owner in sorted(set(owners.values())):
            column = BLOOM + owner
            if column not in words:
                yield Wrong(name, f"the filter of {owner} is not there")
                continue
            values = plain(self._own(owner))
            if not np.array_equal(flat_view(words[column], np.uint32), make_filter(values)):
                yield Wrong(name, f"the filter of {owner} is not that of its values")
            same = [n for n, other in owners.items() if other == owner and n != owner]
            if not all(plain(self._own(n)).equals(values) for n in same):
                yield Wrong(name, f"a column that shares the filter of {owner} has other values")

    def _own(self, name: str) -> Any:
        if name in self.opened.hot:
            return self.opened.hot.column(name)
        return self.opened.text.column(name, None)

    def _pending(self) -> int:
        if self.segment.meta.deleted is not None:
            return int(np.count_nonzero(waiting(self.segment, self.gone)))
        return int(np.count_nonzero(~self.segment.vectors().have))

    def _name(self, kind: str) -> str:
        kind = kind if kind != "parts" or self.opened.has_description else "post"
        stored = self.opened.stored(kind)
        return f"{kind}.arrow" if stored is None else stored.name


def _ascend(keys: Keys) -> bool:
    high, low = keys["hi"], keys["lo"]
    ahead = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    return bool(ahead.all())


def _is_inside(values: npt.NDArray[np.integer[Any]], end: int) -> bool:
    return bool(values.min() >= 0 and values.max() < end)


def _is_coded_wrong(table: VectorTable) -> bool:
    for start in range(0, len(table), BLOCK_VECTORS):
        rows = np.arange(start, min(start + BLOCK_VECTORS, len(table)))
        if not _bounds_hold(table, rows):
            return True
    return False


def _bounds_hold(table: VectorTable, rows: npt.NDArray[np.intp]) -> bool:
    """Whether the exact vectors are within `err` of their codes, and what is to come is blank."""
    table.touch(rows)
    codes, scale, err = table.codes[rows], table.scale[rows].astype(np.float64), table.err[rows]
    if codes.shape[1] != code_width(table.dim) or codes[:, table.dim :].any() or (codes == -128).any():
        return False
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        return False
    near = codes[:, : table.dim].astype(np.float64) * scale[:, None]
    off = np.linalg.norm(table.exact(rows).astype(np.float64) - near, axis=1)
    waits = ~table.have[rows]
    # The sum of squares is itself rounded.
    is_bounded = off <= err.astype(np.float64) * (1 + 1e-6) + 1e-30
    blank = (table.scale[rows][waits] == 0).all() and (table.head[rows][waits] == NO_HEAD).all()
    return bool(is_bounded[~waits].all() and blank)


def _other_tree(found: Tree, made: Tree) -> str | None:
    """Name what of a stored tree is not as it is made of the rows, None where all is.

    A total depends on the order of its sum, and a signature may be there or not by what was known of the model.
    """
    for name in (*FLAT, "signals", "lo", "hi", "n", "levels"):
        if not np.array_equal(getattr(found, name), getattr(made, name)):
            return name
    for name in ("minimum", "maximum"):
        if not np.array_equal(getattr(found, name), getattr(made, name), equal_nan=True):
            return name
    with np.errstate(all="ignore"):
        largest = np.maximum(np.abs(made.minimum), np.abs(made.maximum)) * np.maximum(made.n, 1)
        near = np.abs(found.total - made.total) <= 1e-9 * largest
    same = near | (found.total == made.total) | (np.isnan(found.total) & np.isnan(made.total))
    if not same[np.isfinite(largest) | np.isnan(largest)].all():
        return "totals"
    return "signatures" if _other_signatures(found, made) else None


def _other_signatures(found: Tree, made: Tree) -> bool:
    if found.signature.shape != made.signature.shape or not found.signature.size:
        return False
    known = ~(np.isnan(found.signature).any(axis=1) | np.isnan(made.signature).any(axis=1))
    one, other = (tree.signature[known].astype(np.float64) for tree in (found, made))
    if not len(one):
        return False
    limit = SIGNATURE_DRIFT * (1 + np.abs(other).max(axis=1, keepdims=True))
    return bool((np.abs(one - other) > limit).any())
