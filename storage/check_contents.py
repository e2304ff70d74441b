"""What the files of a segment hold against each other: bytes that are as they were written may still be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from .batch import Int64s
from .blame import told
from .check_blobs import BlobsCheck
from .check_files import SegmentCheck
from .check_rows import MANIFEST, RowsCheck, Wrong
from .check_vectors import VectorsCheck
from .deletion import Gone, read_deletion
from .errors import DamageError
from .findings import SALVAGE, Finding, Severity
from .kept import Kept
from .segment import Segment
from .segment_files import SegmentFiles
from .seq_runs import SeqRuns
from .survivors import kept_rows

KEPT_BYTES = 64 << 20
"""Decoded columns of the segment at hand that are kept."""

_UNREADABLE = (pa.ArrowException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What taking a file apart raises that has the right checksum, but not what it should hold."""

Step = Callable[[], Iterator[Wrong]]


def check_contents(
    check: SegmentCheck, found: Sequence[Finding], runs: SeqRuns, qls_scale: Sequence[float] | None
) -> Iterator[Finding]:
    """Compare rows, statistics, vectors and derived files of a segment, as far as its files are whole.

    found: what is wrong with its files; nothing is compared while data of it is out of reach. runs: gets the
    sequence numbers of its events. qls_scale: of the store's model.
    """
    if any(finding.severity is Severity.DAMAGED for finding in found):
        return
    odd = {Path(finding.file).name for finding in found}
    directory = check.layout.segment(check.meta.id)
    kept = Kept(max_bytes=KEPT_BYTES)
    opened = SegmentFiles(check.files, directory, check.meta, kept)
    segment = Segment.open(check.files, directory, check.meta, kept=kept, qls_scale=qls_scale)
    gone = read_deletion(check.files, directory, check.meta)
    rows = RowsCheck(check.files, check.layout, check.meta, opened)
    vectors = VectorsCheck(segment, opened, gone, check.next_seq)
    yield from _findings(check, _kept_apart("hot.arrow", rows.order))
    yield from _findings(check, _kept_apart("text.arrow", rows.columns))
    yield from _findings(check, _kept_apart("blobs.arrow", BlobsCheck(opened).payloads))
    yield from _findings(check, _kept_apart("vec.arrow", vectors.vectors))
    wrong_texts = list(_findings(check, _kept_apart("parts.arrow", vectors.texts)))
    yield from wrong_texts
    runs.add(check.meta.id, _live_seq(segment, gone))
    if wrong_texts:
        return
    for kind, step in (("post", vectors.postings), ("patt", vectors.tree)):
        stored = opened.stored(kind)
        if stored is not None and stored.name not in odd:
            yield from _findings(check, _kept_apart(stored.name, step))


def _live_seq(segment: Segment, gone: Gone) -> Int64s:
    return np.asarray(segment.seq[kept_rows(segment.n_rows, gone)])


def _kept_apart(name: str, step: Step) -> Iterator[Wrong]:
    """Give what a step finds; if a file cannot be taken apart, that is what it found."""
    try:
        yield from step()
    except DamageError as error:
        path = error.path or Path(name)
        yield Wrong(path.name, told(error, path))
    except MemoryError:
        # Arrow's is an ArrowException as well, and says nothing of the file.
        raise
    except _UNREADABLE as error:
        what = str(error).split("\n", 1)[0] or type(error).__name__
        yield Wrong(name, f"its checksum is right, but what it holds cannot be taken apart ({what})")


def _findings(check: SegmentCheck, wrongs: Iterator[Wrong]) -> Iterator[Finding]:
    for wrong in wrongs:
        if wrong.file != MANIFEST:
            yield check.finding(wrong.file, wrong.what)
            continue
        meta = check.meta
        file = str(check.layout.segment(meta.id).relative_to(check.layout.path))
        what = f"the manifest disagrees with it: {wrong.what}"
        yield Finding(Severity.DAMAGED, file, what, SALVAGE, meta.n_live, meta.t_min, meta.t_max, meta.id)
