"""What is read and held of payloads: those of the records that somebody looks at, and of a fold few at a time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.any_records import (
    blob_files,
    chat,
    delete,
    held,
    moved,
    open_any,
    picture,
    put,
    segments_of,
)
from treering.storage.arrow_file import ArrowFile
from treering.storage.blob_file import BATCH_BYTES, BlobFile
from treering.storage.compactor import Compactor
from treering.storage.files import OS_FILES
from treering.storage.memory import merge
from treering.storage.segment import write


@pytest.fixture
def batches_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """Which columns of which batches are decoded, by kind of file."""
    seen: list[tuple[str, int, str]] = []
    plain = ArrowFile.batch_column

    def watched(file: ArrowFile, number: int, name: str) -> pa.Array:
        seen.append((file.facts["kind"], number, name))
        return plain(file, number, name)

    monkeypatch.setattr(ArrowFile, "batch_column", watched)
    return seen


def test_a_record_is_read_without_the_payloads_of_others(
    tmp_path: Path, batches_read: list[tuple[str, int, str]]
) -> None:
    with open_any(tmp_path / "ring") as ring:
        put(ring, [chat(n, picture(n, 600_000)) if n % 2 else b"no picture" for n in range(12)])
        with ring.snapshot() as snapshot:
            (part,) = snapshot.parts
            batches_read.clear()
            assert part.column("record", np.array([0, 4, 10])).to_pylist() == [b"no picture"] * 3
            assert part.column("body").to_pylist()[0] == "no picture"
            assert not [one for one in batches_read if one[0] == "blobs"]
            assert part.column("record", np.array([5])).to_pylist() == [chat(5, picture(5, 600_000))]
            assert [name for kind, _, name in batches_read if kind == "blobs"] == ["payload"]


def test_payloads_of_a_batch_are_few(tmp_path: Path) -> None:
    sizes = [900, 300_000, 2_000_000, 5000, 1_000_000, 400_000, 800]
    with open_any(tmp_path / "ring") as ring:
        put(ring, [chat(n, picture(n, size)) for n, size in enumerate(sizes)])
        (file,) = blob_files(ring.path)
        reader = pa.ipc.open_file(file)
        filled = [
            [len(one) for one in reader.get_batch(n).column("payload").to_pylist()]
            for n in range(reader.num_record_batches)
        ]
        assert sum(len(batch) for batch in filled) == len(sizes)
        assert all(len(batch) == 1 or sum(batch) <= BATCH_BYTES for batch in filled)
        assert held(ring) == {n: chat(n, picture(n, size)) for n, size in enumerate(sizes)}


def test_text_is_batched_by_what_is_left_of_records(tmp_path: Path) -> None:
    with open_any(tmp_path / "ring") as ring:
        put(ring, [chat(n, picture(n % 3)) for n in range(300)])
        (file,) = ring.path.glob("seg/*/text.arrow")
        assert pa.ipc.open_file(file).num_record_batches == 1


def test_no_other_way_than_a_look_at_records_puts_them_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        pytest.fail("a record was put together")

    with open_any(tmp_path / "ring") as ring:
        for first in (0, 10, 20):
            put(ring, [chat(n, picture(0), picture(n % 2)) for n in range(first, first + 10)])
        before = held(ring)
        with monkeypatch.context() as patch:
            patch.setattr("treering.storage.rows.stitch", forbidden)
            delete(ring, [3, 14])
            moved(ring, tmp_path)
            ring.compact()
            ring.backup(tmp_path / "backup")
            assert ring.check(deep=True).is_clean
        assert held(ring) == {seq: record for seq, record in before.items() if seq not in (3, 14)}


# -- memory -------------------------------------------------------------------------------------------------------


@pytest.fixture
def peak_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Give the most memory that is taken while something is done: of arrays, as batches are read and written."""
    plain, most = ArrowFile.batch_column, list[int]()

    def sampled(file: ArrowFile, number: int, name: str) -> pa.Array:
        array = plain(file, number, name)
        most.append(pa.total_allocated_bytes())
        return array

    def measured(work: Callable[[], object]) -> int:
        monkeypatch.setattr(ArrowFile, "batch_column", sampled)
        before: int = pa.total_allocated_bytes()
        tracemalloc.start()
        try:
            work()
            traced: int = tracemalloc.get_traced_memory()[1]
            return max(most) - before + traced
        finally:
            tracemalloc.stop()

    return measured


def test_a_fold_takes_the_memory_of_few_payloads(
    tmp_path: Path, peak_bytes: Callable[[Callable[[], object]], int]
) -> None:
    # Whole records come to 4 * 20 * 2 MB, payloads to 16 MB.
    def records(k: int) -> list[bytes]:
        return [chat(n, *(picture(k * 8 + seed, 400_000) for seed in range(4))) for n in range(20)]

    segments = segments_of(tmp_path, 4, records)

    def fold() -> None:
        write(OS_FILES, tmp_path / "merged", merge(segments, "m"), level=44, cell=0, generation=1)

    told = sum(segment.unpacked_bytes() for segment in segments)
    assert peak_bytes(fold) < 6 * BATCH_BYTES
    assert told < 4 * 4 * BATCH_BYTES
    merged = pa.ipc.open_file(tmp_path / "merged" / "blobs.arrow").read_all().column("payload").to_pylist()
    assert sorted(merged) == sorted(picture(k * 8 + seed, 400_000) for k in range(4) for seed in range(4))


def test_a_stream_of_payloads_holds_no_batch_that_was_read(tmp_path: Path) -> None:
    (segment,) = segments_of(tmp_path, 1, lambda _: [chat(n, picture(n, 900_000)) for n in range(6)])
    payloads = segment.payloads()
    assert isinstance(payloads, BlobFile)
    stream, held_bytes = payloads.read(np.arange(6)), []
    before = pa.total_allocated_bytes()
    for value in stream:
        held_bytes.append(pa.total_allocated_bytes() - before)
        assert value.size == 1_200_000
        del value
    assert max(held_bytes) < 2 * 1_200_000 + 4096


def test_what_a_fold_takes_counts_what_is_left_of_records_and_not_all_payloads(tmp_path: Path) -> None:
    (segment,) = segments_of(tmp_path, 1, lambda _: [chat(n, picture(n, 600_000)) for n in range(12)])
    n_bytes = sum(file.n_bytes for file in segment.meta.files if file.name == "blobs.arrow")
    assert n_bytes > 7_000_000
    assert segment.unpacked_bytes() < 3 * BATCH_BYTES


def test_many_segments_with_payloads_are_joined_at_once(tmp_path: Path) -> None:
    # Their whole records would not fit into what a fold may take.
    with open_any(tmp_path / "ring") as ring:
        for k in range(5):
            put(ring, [chat(n, picture(k, 1_500_000)) for n in range(12)])
        whole = sum(len(one or b"") for one in held(ring).values())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("treering.storage.compactor.MERGE_BYTES", whole // 4)
            assert Compactor(ring._writing()).compact().segments_after == 1
