"""The memory that a compressed file needs is known before it is unpacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.arrow_files import written
from treering.storage.unpacked import unpacked_bytes


def buffer_bytes(array: Any) -> int:
    return sum(buffer.size for buffer in array.buffers() if buffer is not None)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_it_is_the_size_of_the_buffers_that_are_read(compression: str) -> None:
    rng = np.random.default_rng(3)
    batches = []
    for n in (1000, 1000, 1, 300):
        columns = {
            "same": pa.array(["again and again"] * n),
            "noise": pa.array([rng.bytes(40) for _ in range(n)], pa.binary()),
            "gaps": pa.array([None if i % 3 else i for i in range(n)], pa.int64()),
            "lists": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int64())),
            "none": pa.nulls(n, pa.string()),
        }
        batches.append(pa.RecordBatch.from_pydict(columns))
    file = written(batches, compression)
    reader = pa.ipc.open_file(file)
    read = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    expected = sum(buffer_bytes(column) for batch in read for column in batch.columns)
    # What is read may be padded to 64 bytes a buffer.
    n_buffers = sum(len(column.buffers()) for batch in read for column in batch.columns)
    assert expected - 64 * n_buffers <= unpacked_bytes(file) <= expected
    assert unpacked_bytes(file) > 1.3 * file.size
