"""What a store touches of its segments: nothing before it is needed, and never more than is allowed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.records import MODEL, decode, fill, numbers_in, raw_batch, text_keys
from tests.storage.same_parts import plain_batch
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES, OsFiles
from treering.storage.kept import Kept
from treering.storage.memory import build
from treering.storage.ring import Ring
from treering.storage.segment import Segment, write

STARTS = range(0, 5_000_000, 1_000_000)


class Watched(OsFiles):
    """Files that remember what was looked at below `seg/`."""

    def __init__(self) -> None:
        self.seen: list[Path] = []

    def _see(self, path: Path) -> None:
        if "seg" in path.parts and path.name != "seg":
            self.seen.append(path)

    def size(self, path: Path) -> int:
        self._see(path)
        return super().size(path)

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        self._see(path)
        return super().read(path, start, n_bytes)

    def map(self, path: Path) -> pa.Buffer:
        self._see(path)
        return super().map(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of five filled segments of ten records, days apart so that none are joined."""
    with Ring.open(tmp_path / "ring", decoder=decode) as ring:
        ring.set_model(MODEL)
        for start in STARTS:
            ring.append(raw_batch(range(start, start + 10)))
            ring.flush()
        fill(ring)
    return tmp_path / "ring"


def test_opening_a_store_and_asking_what_it_has_touches_no_segment(path: Path) -> None:
    files = Watched()
    with Ring.open(path, "r", decoder=decode, files=files) as ring, ring.snapshot() as snapshot:
        assert (snapshot.n_rows, len(snapshot.parts)) == (50, 5)
        assert all("n#i" in part.fields for part in snapshot.parts)
        assert not files.seen
        first = snapshot.parts[0]
        assert sorted(first.numbers("n#i")[0].tolist()) == list(range(10))
        assert {file.parent.name for file in files.seen} == {first.id}
        assert "text.arrow" not in {file.name for file in files.seen}


@pytest.mark.parametrize("name", ["hot.arrow", "text.arrow", "vec.arrow", "parts.arrow"])
def test_a_missing_file_hurts_only_the_segment_that_needs_it(path: Path, name: str) -> None:
    with Ring.open(path, "r", decoder=decode) as ring, ring.snapshot() as snapshot:
        bad, *good = (part.id for part in snapshot.parts)
    (path / "seg" / bad / name).unlink()
    with Ring.open(path, "r", decoder=decode) as ring, ring.snapshot() as snapshot:
        for part in snapshot.parts[1:]:
            assert part.id in good
            assert part.column("record").null_count == 0
            part.parts()
        with pytest.raises(DamageError, match=f"{name} is damaged: it is missing") as caught:
            snapshot.parts[0].column("record"), snapshot.parts[0].parts()
    assert caught.value.segment_id == bad


@pytest.mark.parametrize("damage", ["missing", "flipped", "footer"])
def test_damaged_vectors_do_not_stop_appends_and_their_texts_are_embedded_again(
    path: Path, damage: str
) -> None:
    for file in path.glob("seg/*/vec.arrow"):
        whole = bytearray(file.read_bytes())
        whole[-20 if damage == "footer" else len(whole) // 3] ^= 1
        file.unlink()
        if damage != "missing":
            file.write_bytes(whole)
    with Ring.open(path, decoder=decode) as ring:
        ring.append(raw_batch(range(6_000_000, 6_000_010)))
        keys = text_keys([f"text {n}" for n in range(7)])
        assert not ring.lookup(keys)[0].any()
        ring.flush()
        with ring.snapshot() as snapshot:
            assert sorted(numbers_in(snapshot)) == [
                start + i for start in [*STARTS, 6_000_000] for i in range(10)
            ]
            assert snapshot.pending == 7


def test_few_segments_stay_open_and_closed_ones_open_again(tmp_path: Path) -> None:
    files, kept = Watched(), Kept(max_open=3)
    segments = []
    for i in range(8):
        part = build(
            [plain_batch(20, {"a#f": pa.array(np.arange(20) + i / 7)})], None, dim=None, part_id=f"s{i}"
        )
        directory = tmp_path / "seg" / f"s{i}"
        (tmp_path / "seg").mkdir(exist_ok=True)
        segments.append(
            Segment.open(files, directory, write(OS_FILES, directory, part, level=44, cell=0), kept=kept)
        )
    for _ in range(2):
        for i, segment in enumerate(segments):
            np.testing.assert_array_equal(segment.numbers("a#f")[0], np.arange(20) + i / 7)
            assert sum(one.is_open for one in segments) <= 3
    n_seen = len(files.seen)
    assert segments[-1].numbers("a#f")[0][0] == 1.0
    assert len(files.seen) == n_seen
    assert segments[0].numbers("a#f")[0][0] == 0.0
    assert len(files.seen) > n_seen
