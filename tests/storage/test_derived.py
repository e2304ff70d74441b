from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.random_batches import batches, lookup_of
from tests.storage.rich_segment import all_of, assert_same, failing_looks, flip, opened, rich_segment
from tests.storage.same_parts import KNOWN, SCALE, assert_same_part, relaxed, rows_of, written
from treering.storage import segment_writer
from treering.storage.batch import ColumnBatch
from treering.storage.catalog import load
from treering.storage.derived import rewrite_derived
from treering.storage.description import read_description
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout
from treering.storage.memory import build, merge
from treering.storage.meta import SegmentMeta
from treering.storage.newest import newest_version
from treering.storage.segment import Segment


@pytest.mark.parametrize("names", [["post.arrow"], ["patt.arrow"], ["patt.arrow", "post.arrow"]])
def test_derived_files_are_written_anew(tmp_path: Path, names: list[str], expected: dict[str, Any]) -> None:
    directory = tmp_path / "s"
    meta = rich_segment(directory)
    for number in (1, 2):
        for name in names:
            stored = next(f for f in meta.files if f.name.startswith(name[:4]))
            flip(directory / stored.name, stored.n_bytes // 2)
        meta = rewrite_derived(OS_FILES, directory, opened(directory, meta))
        assert {f"{name[:4]}-{number:04d}.arrow" for name in names} <= {f.name for f in meta.files}
        segment = opened(directory, SegmentMeta.from_json(meta.to_json()))
        segment.verify()
        assert not failing_looks(segment, expected)
        assert not segment.rebuilt
    assert rewrite_derived(OS_FILES, directory, segment) is segment.meta


def test_lost_checksums_are_made_anew(tmp_path: Path, expected: dict[str, Any]) -> None:
    directory = tmp_path / "s"
    meta = rich_segment(directory)
    before = read_description(OS_FILES, directory, "x")
    flip(directory / "segment.json", 500)
    assert rewrite_derived(OS_FILES, directory, opened(directory, meta)) == meta
    opened(directory, meta).verify()
    after = read_description(OS_FILES, directory, "x")
    assert {k: v.tolist() for k, v in after.sums.items()} == {k: v.tolist() for k, v in before.sums.items()}
    assert replace(after.meta, signals_pending=False) == replace(before.meta, signals_pending=False)


@pytest.mark.parametrize("name", ["hot.arrow", "vec.arrow", "parts.arrow"])
def test_nothing_is_made_of_damaged_files(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "s"
    meta = rich_segment(directory)
    (directory / "post.arrow").unlink()
    (directory / "patt.arrow").unlink()
    flip(directory / name, (directory / name).stat().st_size // 2)
    with pytest.raises(DamageError, match=rf"s/{name} is damaged"):
        rewrite_derived(OS_FILES, directory, opened(directory, meta))


@relaxed
@given(batches(), batches(first_seq=100), KNOWN, st.data())
def test_what_derived_files_hold_is_the_same_without_them(
    first: list[ColumnBatch], second: list[ColumnBatch], known: set[tuple[int, int]], data: st.DataObject
) -> None:
    parts = [
        build(given_, lookup_of(known), dim=32, part_id="p", qls_scale=SCALE) for given_ in (first, second)
    ]
    part = data.draw(st.sampled_from([parts[0], merge(parts, "m", qls_scale=SCALE)]))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        # So few rows have no derived files otherwise.
        patch.setattr(segment_writer, "LEAF_ROWS", -1)
        directory = Path(name) / "s"
        whole = written(part, directory)
        assert {"post.arrow", "patt.arrow"} <= {stored.name for stored in whole.meta.files}
        assert_same_part(whole, part)
        assert not whole.rebuilt
        lost = data.draw(st.sampled_from(["post.arrow", "patt.arrow"]))
        if data.draw(st.booleans()):
            (directory / lost).unlink()
        else:
            flip(directory / lost, data.draw(st.integers(0, (directory / lost).stat().st_size - 1)))
        segment = Segment.open(OS_FILES, directory, whole.meta, qls_scale=SCALE)
        assert_same_part(segment, part)
        for found, expected in zip(segment.template_rows(), part.template_rows(), strict=True):
            np.testing.assert_array_equal(found, expected)
        changed = rewrite_derived(OS_FILES, directory, segment)
        again = Segment.open(OS_FILES, directory, changed, qls_scale=SCALE)
        again.verify()
        assert_same_part(again, part)
        assert not again.rebuilt


@pytest.fixture
def old_segment(old_store: Path) -> tuple[Path, SegmentMeta]:
    """A segment of format 1."""
    layout = Layout(old_store)
    catalog = load(OS_FILES, layout, newest_version(OS_FILES, layout))
    meta = max(catalog.segments.entries.values(), key=lambda meta: meta.n_rows)
    return layout.segment(meta.id), meta


def test_files_of_format_1_are_checked_whole(old_segment: tuple[Path, SegmentMeta]) -> None:
    directory, meta = old_segment
    expected = rows_of(opened(directory, meta)), opened(directory, meta).parts().key.tolist()
    opened(directory, meta).verify()
    for stored in meta.files:
        flip(directory / stored.name, stored.n_bytes // 2)
        segment = opened(directory, meta)
        try:
            found = rows_of(segment), segment.parts().key.tolist()
            _ = segment.tree
            segment.vectors().touch()
        except DamageError as error:
            assert error.path == directory / stored.name
            assert "its crc32c is" in str(error)
            assert stored.name != "patt.arrow"
        else:
            assert found == expected
            assert stored.name == "patt.arrow"
            assert len(segment.rebuilt) == 1
        flip(directory / stored.name, stored.n_bytes // 2)


def test_the_tree_of_a_segment_of_format_1_is_written_anew(old_segment: tuple[Path, SegmentMeta]) -> None:
    directory, meta = old_segment
    expected = all_of(opened(directory, meta).tree)
    (directory / "patt.arrow").unlink()
    changed = rewrite_derived(OS_FILES, directory, opened(directory, meta))
    segment = opened(directory, changed)
    segment.verify()
    assert_same(all_of(segment.tree)[:-1], expected[:-1])
    assert not segment.rebuilt
    assert not (directory / "segment.json").exists()
