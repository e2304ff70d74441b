from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.random_batches import batches, lookup_of, plain_rows
from tests.storage.rich_segment import PART, failing_looks, flip, opened, rich_segment
from tests.storage.same_parts import KNOWN, SCALE, plain_batch, relaxed, rows_of, written
from treering.storage.batch import ColumnBatch
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.memory import build
from treering.storage.meta import SegmentMeta
from treering.storage.segment import Segment, write

FILES = (
    "hot.arrow",
    "text.arrow",
    "vec.arrow",
    "parts.arrow",
    "post.arrow",
    "patt.arrow",
    "late-0000.arrow",
)


DERIVED = ("post.arrow", "patt.arrow")


def check_damaged(directory: Path, meta: SegmentMeta, name: str, expected: dict[str, Any], what: str) -> None:
    segment = opened(directory, meta)
    errors = failing_looks(segment, expected)
    if name in DERIVED:
        assert not errors
        assert segment.rebuilt
        assert all(name in told and "made anew" in told for told in segment.rebuilt)
        return
    assert errors
    for error in errors:
        assert re.search(rf"s/{name} is damaged: {what}", str(error))
        assert re.search(
            "; 6,000 events of segment x from 1970-01-01T.*Z to 1970-01-01T.*Z are out of reach; restore",
            str(error),
        )
        assert error.path == directory / name
        assert error.segment_id == "x"


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named_where_it_is_needed_and_a_derived_one_is_made_anew(
    tmp_path: Path, name: str, expected: dict[str, Any]
) -> None:
    meta = rich_segment(tmp_path / "s")
    (tmp_path / "s" / name).unlink()
    check_damaged(tmp_path / "s", meta, name, expected, "it is missing")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("n_bytes", [0, 5, -1])
def test_cut_file_is_named(tmp_path: Path, name: str, n_bytes: int, expected: dict[str, Any]) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:n_bytes])
    what = rf"it has \d+ bytes, the manifest says {len(whole)}"
    check_damaged(tmp_path / "s", meta, name, expected, what)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0, -1])
def test_foreign_first_or_last_bytes_are_named(
    tmp_path: Path, name: str, place: int, expected: dict[str, Any]
) -> None:
    meta = rich_segment(tmp_path / "s")
    flip(tmp_path / "s" / name, place, 0xFF)
    check_damaged(tmp_path / "s", meta, name, expected, "its first or last bytes")


@pytest.mark.parametrize("name", FILES)
def test_zeroed_footer_is_named(tmp_path: Path, name: str, expected: dict[str, Any]) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / name
    whole = bytearray(path.read_bytes())
    whole[-200:-10] = bytes(190)
    path.write_bytes(whole)
    check_damaged(tmp_path / "s", meta, name, expected, r"(bytes \[|its crc32c)")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("has_sums", [True, False])
def test_a_flipped_bit_anywhere_never_changes_an_answer(
    tmp_path: Path, name: str, has_sums: bool, expected: dict[str, Any]
) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / name
    if not has_sums:
        (tmp_path / "s" / "segment.json").unlink()
    n_bytes = path.stat().st_size
    rng = np.random.default_rng(2)
    n_noticed = 0
    for place in [*rng.integers(0, n_bytes, 6).tolist(), *rng.integers(n_bytes - 1000, n_bytes, 2).tolist()]:
        mask = 1 << int(rng.integers(8))
        flip(path, place, mask)
        segment = opened(tmp_path / "s", meta)
        errors = failing_looks(segment, expected)
        n_noticed += bool(errors or segment.rebuilt)
        assert all(error.path == path for error in errors)
        assert not (errors and name in DERIVED)
        with pytest.raises(DamageError, match=rf"s/{name} is damaged"):
            opened(tmp_path / "s", meta).verify()
        flip(path, place, mask)
    # Padding, the schema's first copy, and blocks of a filter that nobody asks for are never read.
    assert n_noticed > 3
    assert not failing_looks(opened(tmp_path / "s", meta), expected)


@pytest.mark.parametrize("change", ["missing", "empty", "flipped", "of another segment"])
def test_without_its_checksums_a_segment_is_checked_whole(
    tmp_path: Path, change: str, expected: dict[str, Any]
) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / "segment.json"
    opened(tmp_path / "s", meta).verify()
    if change == "missing":
        path.unlink()
    elif change == "empty":
        path.write_bytes(b"")
    elif change == "flipped":
        flip(path, 300)
    else:
        other = build([plain_batch(7, {})], None, dim=None, part_id="y")
        write(OS_FILES, tmp_path / "other", other, level=44, cell=0)
        path.write_bytes((tmp_path / "other" / "segment.json").read_bytes())
    segment = opened(tmp_path / "s", meta)
    assert not failing_looks(segment, expected)
    assert not segment.rebuilt
    with pytest.raises(DamageError, match=r"segment.json"):
        opened(tmp_path / "s", meta).verify()


def test_only_the_column_that_is_damaged_is_out_of_reach(tmp_path: Path) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / "hot.arrow"
    place = path.read_bytes().index(PART.numbers("b#f")[0].tobytes()) + 8 * 3000
    flip(path, place)
    segment = opened(tmp_path / "s", meta)
    np.testing.assert_array_equal(segment.numbers("a#f")[0], PART.numbers("a#f")[0])
    assert segment.column("model#s").to_pylist() == PART.column("model#s").to_pylist()
    start = place // 16384 * 16384
    for _ in range(2):
        with pytest.raises(DamageError, match=rf"bytes \[{start}, {start + 16384}\) have crc32c"):
            segment.numbers("b#f")


def test_only_the_rows_of_a_damaged_batch_are_out_of_reach(tmp_path: Path) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / "text.arrow"
    flip(path, path.stat().st_size // 3)
    flip(path, path.stat().st_size - 40_000)
    segment = opened(tmp_path / "s", meta)
    batch_rows = int(pa.ipc.open_file(str(path)).get_batch(0).num_rows)
    assert batch_rows == 4096
    with pytest.raises(DamageError, match=r"text.arrow is damaged: bytes"):
        segment.column("record", np.array([5999]))
    flip(path, path.stat().st_size // 3)
    segment = opened(tmp_path / "s", meta)
    rows = np.array([0, 17, 4095])
    assert segment.column("record", rows).to_pylist() == PART.column("record", rows).to_pylist()
    with pytest.raises(DamageError, match=r"text.arrow is damaged: bytes"):
        segment.column("record", np.array([5999]))


def test_only_the_vectors_of_a_damaged_block_are_out_of_reach(tmp_path: Path) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / "vec.arrow"
    rest = PART.vectors().rest
    start = path.read_bytes().index(rest.tobytes())
    flip(path, start + 384 * 200 + 7)
    table = opened(tmp_path / "s", meta).vectors()
    bad = range(((start + 384 * 200) // 16384) * 16384, ((start + 384 * 200) // 16384 + 1) * 16384)
    good = [
        row for row in range(400) if start + 384 * row >= bad.stop or start + 384 * (row + 1) <= bad.start
    ]
    assert len(good) > 300
    np.testing.assert_array_equal(table.values(np.array(good)), PART.vectors().values(np.array(good)))
    for rows in (np.array([200]), np.array([0, 200]), None):
        with pytest.raises(DamageError, match=rf"vec.arrow is damaged: bytes \[{bad.start}, {bad.stop}\)"):
            table.touch(rows)
    np.testing.assert_array_equal(table.qls, PART.vectors().qls)


def test_damaged_sides_of_vectors_are_found_where_they_are_asked_for(tmp_path: Path) -> None:
    meta = rich_segment(tmp_path / "s")
    path = tmp_path / "s" / "vec.arrow"
    flip(path, path.read_bytes().index(PART.vectors().qls.tobytes()) + 20_000)
    table = opened(tmp_path / "s", meta).vectors()
    table.touch()
    for _ in range(2):
        with pytest.raises(DamageError, match=r"vec.arrow is damaged: bytes"):
            _ = table.qls


def test_file_of_another_format_or_segment_is_refused(tmp_path: Path) -> None:
    meta = rich_segment(tmp_path / "s")
    part = build([plain_batch(7, {})], None, dim=None, part_id="y")
    other = write(OS_FILES, tmp_path / "other", part, level=44, cell=0)
    for stored in other.files:
        (tmp_path / "s" / stored.name).write_bytes((tmp_path / "other" / stored.name).read_bytes())
    mixed = SegmentMeta.from_json({**meta.to_json(), "files": other.to_json()["files"]})
    with pytest.raises(DamageError, match=r"s/hot.arrow is damaged: it has 7 rows, the manifest says 6000"):
        _ = opened(tmp_path / "s", mixed).ts
    swapped = [
        {**f, "name": {"hot.arrow": "vec.arrow", "vec.arrow": "hot.arrow"}.get(f["name"], f["name"])}
        for f in other.to_json()["files"]
    ]
    (tmp_path / "s" / "hot.arrow").write_bytes((tmp_path / "other" / "vec.arrow").read_bytes())
    (tmp_path / "s" / "vec.arrow").write_bytes((tmp_path / "other" / "hot.arrow").read_bytes())
    segment = opened(tmp_path / "s", SegmentMeta.from_json({**other.to_json(), "files": swapped}))
    with pytest.raises(
        DamageError, match=r"s/hot.arrow is damaged: it has format 2 and kind vec, expected 1 to 2 and hot"
    ):
        _ = segment.ts


@relaxed
@given(batches(), KNOWN, st.data())
def test_any_flipped_bit_of_a_random_segment_is_found_or_changes_nothing(
    given_: list[ColumnBatch], known: set[tuple[int, int]], data: st.DataObject
) -> None:
    part = build(given_, lookup_of(known), dim=32, part_id="x", qls_scale=SCALE)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "s"
        meta = written(part, directory).meta
        path = directory / data.draw(st.sampled_from([f.name for f in meta.files]))
        place, bit = data.draw(st.integers(0, path.stat().st_size - 1)), data.draw(st.integers(0, 7))
        flip(path, place, 1 << bit)
        try:
            found = rows_of(Segment.open(OS_FILES, directory, meta))
            keys = Segment.open(OS_FILES, directory, meta).parts().key.tolist()
        except DamageError as error:
            assert error.path == path
        else:
            assert found == plain_rows(given_)
            assert keys == part.parts().key.tolist()
        with pytest.raises(DamageError):
            Segment.open(OS_FILES, directory, meta).verify()
