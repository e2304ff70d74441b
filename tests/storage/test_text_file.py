from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.same_parts import (
    plain_batch,
    written,
)
from treering.storage.files import OS_FILES
from treering.storage.memory import build
from treering.storage.text_file import BATCH_ROWS


@pytest.mark.parametrize("head", [b"2026-05-01 INFO ", b""])
@pytest.mark.parametrize("tail", [b"", b" }"])
def test_body_that_stands_in_its_record_takes_no_room(tmp_path: Path, head: bytes, tail: bytes) -> None:
    rng = np.random.default_rng(0)
    n_rows = 2 * BATCH_ROWS + 17
    bodies = [f"ünique {rng.integers(2**60)} {rng.integers(2**60)}" if i % 5 else None for i in range(n_rows)]
    record = pa.array([head + (b or "nothing").encode() + tail for b in bodies], pa.binary())
    part = build(
        [plain_batch(n_rows, {"record": record, "body": pa.array(bodies)})], None, dim=None, part_id="x"
    )
    other = build([plain_batch(n_rows, {"record": record})], None, dim=None, part_id="x")
    with_body, without = written(part, tmp_path / "a"), written(other, tmp_path / "b")
    sizes = [next(f.n_bytes for f in s.meta.files if f.name == "text.arrow") for s in (with_body, without)]
    assert sizes[0] < sizes[1] + 12 * n_rows
    assert with_body.column("body").to_pylist() == bodies
    rows = np.array([n_rows - 1, 0, BATCH_ROWS, 1, BATCH_ROWS - 1])
    assert with_body.column("body", rows).to_pylist() == [bodies[row] for row in rows]


def test_text_of_many_batches_is_read_in_the_asked_order(tmp_path: Path) -> None:
    n_rows = 3 * BATCH_ROWS + 5
    words = [
        f"{i} " * (i % 40) + "long enough to be no identifier at all, whatever it says" for i in range(n_rows)
    ]
    lists = [[i, None] if i % 3 else None for i in range(n_rows)]
    columns = {"prompt": pa.array(words), "steps#[i]": pa.array(lists)}
    segment = written(build([plain_batch(n_rows, columns)], None, dim=None, part_id="x"), tmp_path / "s")
    rows = np.random.default_rng(1).integers(0, n_rows, 300)
    assert segment.column("prompt", rows).to_pylist() == [words[row] for row in rows]
    assert segment.column("steps#[i]", rows).to_pylist() == [lists[row] for row in rows]
    assert segment.column("prompt").to_pylist() == words
    assert segment.column("prompt", rows[:0]).to_pylist() == []


def test_long_rows_come_in_small_batches(tmp_path: Path) -> None:
    n_rows = 3000
    rng = np.random.default_rng(0)
    texts = [rng.bytes(4000).hex() for _ in range(n_rows)]
    part = build([plain_batch(n_rows, {"response": pa.array(texts)})], None, dim=None, part_id="x")
    directory = tmp_path / "s"
    segment = written(part, directory)
    assert pa.ipc.open_file(OS_FILES.map(directory / "text.arrow")).get_batch(0).num_rows == 128
    rows = np.array([2999, 0, 127, 128, 1500])
    assert segment.column("response", rows).to_pylist() == [texts[row] for row in rows]
    assert segment.column("response").to_pylist() == texts


def test_sparse_numbers_are_compressed_and_read_alike(tmp_path: Path) -> None:
    n_rows = 3 * BATCH_ROWS
    sparse = pa.array([i if i % 1000 == 0 else None for i in range(n_rows)], pa.int64())
    part = build([plain_batch(n_rows, {"rare#i": sparse})], None, dim=None, part_id="x")
    segment = written(part, tmp_path / "s")
    hot, text = segment.meta.files[:2]
    assert hot.n_bytes < n_rows * 28
    assert text.n_bytes < n_rows
    found, mask = segment.numbers("rare#i")
    assert mask is not None
    assert found[mask].tolist() == list(range(0, n_rows, 1000))
