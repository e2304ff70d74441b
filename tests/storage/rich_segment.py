"""A segment with every kind of file, everything that can be asked of it, and ways to damage it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.storage.random_batches import values, vectors_of
from tests.storage.same_parts import plain_batch
from treering.storage.batch import KEY, ColumnBatch, TextParts
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.memory import MemoryPart, build
from treering.storage.meta import SegmentMeta
from treering.storage.part import VectorTable
from treering.storage.segment import Segment, write, write_late


def rich_part() -> MemoryPart:
    rng = np.random.default_rng(0)
    n_rows = 6000
    keys = np.array([(i + 1, i) for i in range(400)], KEY)[rng.integers(0, 400, n_rows)]
    parts = TextParts(
        np.arange(n_rows, dtype=np.int32),
        np.zeros(n_rows, np.uint8),
        np.zeros(n_rows, np.int16),
        keys,
        rng.random(n_rows) < 0.9,
    )
    texts = [f"{rng.integers(2**62):x} {rng.integers(2**62):x} and what else there is to say" for _ in keys]
    columns = {
        "a#f": pa.array(rng.random(n_rows)),
        "b#f": pa.array(rng.random(n_rows)),
        "c#i": pa.array(rng.integers(0, 200, n_rows)),
        "model#s": pa.array(rng.choice(["llama", "qwen", "phi"], n_rows)),
        "request_id": pa.array([f"req-{i:012x}" for i in rng.permutation(n_rows)]),
        "record": pa.array([f"> {text}".encode() for text in texts], pa.binary()),
        "body": pa.array(texts),
    }
    batch = ColumnBatch(n_rows, plain_batch(n_rows, columns).columns, parts, keys)
    vectors = vectors_of(np.unique(keys), dim=384)
    return build([batch], lambda asked: (np.ones(len(asked), np.bool_), vectors), dim=384, part_id="x")


PART = rich_part()
"""What every segment here is written from."""


@cache
def rich_files() -> tuple[SegmentMeta, dict[str, bytes]]:
    """The segment as it is written: what the manifest says of it, and its files."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "s"
        meta = write(OS_FILES, directory, PART, level=44, cell=0)
        score = pa.array(np.random.default_rng(1).random(PART.n_rows))
        late = write_late(OS_FILES, directory, 0, vectors=None, signals={"score": score})
        files = {file.name: file.read_bytes() for file in directory.iterdir()}
    return meta.with_late(late, pending=0, signals_pending=PART.signals_pending), files


def rich_segment(directory: Path) -> SegmentMeta:
    """Lay the segment out in a new directory."""
    meta, files = rich_files()
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return meta


def opened(directory: Path, meta: SegmentMeta) -> Segment:
    return Segment.open(OS_FILES, directory, meta)


def column_look(name: str) -> Callable[[Segment], object]:
    return lambda segment: values(segment.column(name))


LOOKS: dict[str, Callable[[Segment], object]] = {
    **{name: column_look(name) for name in ("ts", "seq", "score", *PART.fields)},
    "ids": lambda segment: segment.codes("request_id"),
    "ranges": lambda segment: segment.numbers("a#f"),
    "some rows": lambda segment: values(segment.column("body", np.array([5999, 0, 3000]))),
    "filter": lambda segment: [segment.may_hold("request_id", f"req-{i:012x}") for i in range(0, 6000, 7)],
    "vectors": lambda segment: all_of(segment.vectors()),
    "some vectors": lambda segment: segment.vectors().exact(np.array([0, 399, 200])),
    "keys": lambda segment: segment.vector_keys(),
    "vec_of_row": lambda segment: segment.vec_of_row(),
    "postings": lambda segment: all_of(segment.postings()),
    "parts": lambda segment: all_of(segment.parts_table()),
    "template_of_row": lambda segment: segment.template_of_row(),
    "template_keys": lambda segment: segment.template_keys(),
    "template_rows": lambda segment: segment.template_rows(),
    "tree": lambda segment: all_of(segment.tree),
    "kinds": lambda segment: segment.kinds(),
}
"""Everything that can be asked of a segment."""


def all_of(held: Any) -> list[Any]:
    if isinstance(held, VectorTable):
        held.touch()
    return [getattr(held, name) for name in type(held).__slots__ if name != "guard"]


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    elif isinstance(expected, pa.Array):
        assert found.equals(expected)
    else:
        assert found == expected


def failing_looks(segment: Segment, expected: dict[str, Any]) -> list[DamageError]:
    """Look at everything: whatever does not fail is right."""
    errors = []
    for name, look in LOOKS.items():
        try:
            found = look(segment)
        except DamageError as error:
            errors.append(error)
        else:
            assert_same(found, expected[name])
    return errors


def flip(path: Path, place: int, mask: int = 0x10) -> None:
    whole = bytearray(path.read_bytes())
    whole[place] ^= mask
    path.write_bytes(whole)
