"""Manifests, their lists and the segments in them come back as they were written, and damage is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.metas import meta
from tests.storage.records import MODEL, position
from treering.storage.catalog import Catalog, Change, Committer, load
from treering.storage.document import pack, unpack
from treering.storage.errors import DamageError, StoreError
from treering.storage.files import OS_FILES, crc32c
from treering.storage.layout import Layout
from treering.storage.listing import LIST_ENTRIES, Listing, rewrite
from treering.storage.manifest import ListFile, Root, publish, read_root, root_path, root_versions, stage
from treering.storage.meta import Deletion, LateFile, SegmentMeta
from treering.storage.opening import NOTHING
from treering.storage.part import FieldStats
from treering.storage.stored_file import Json, StoredFile
from treering.storage.upgrade import FORMAT

INFINITY = float("inf")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    for directory in layout.directories:
        OS_FILES.mkdir(directory)
    return layout


def committer(layout: Layout, catalog: Catalog = NOTHING) -> Committer:
    return Committer(OS_FILES, layout, catalog, epoch=catalog.root.epoch + 1)


@pytest.mark.parametrize(
    "stats",
    [
        FieldStats(0),
        FieldStats(3, 5, 2**63 - 1),
        FieldStats(3, -(2**63), 5),
        FieldStats(2, 5.0, 1e300),
        FieldStats(2, -INFINITY, INFINITY),
        FieldStats(1, 5e-324, 0.1),
    ],
)
def test_field_statistics_come_back_exactly(stats: FieldStats) -> None:
    late = LateFile(StoredFile("late-0000.arrow", 5, 6), 7, {"surprise": stats})
    segment = replace(meta(3), fields={"a#f": stats}).with_late(late, pending=0, signals_pending=False)
    got = SegmentMeta.from_json(json.loads(json.dumps(segment.to_json(), allow_nan=False)))
    assert got == segment
    assert [type(b) for b in (got.fields["a#f"].minimum, got.fields["a#f"].maximum)] == [
        type(b) for b in (stats.minimum, stats.maximum)
    ]
    assert got.all_fields() == ({"a#f": stats, "surprise": stats} if stats.n else {})


def test_the_later_of_two_late_columns_counts() -> None:
    first = LateFile(StoredFile("late-0000.arrow", 5, 6), 0, {"x": FieldStats(1, 1.0, 1.0)})
    second = LateFile(StoredFile("late-0001.arrow", 5, 6), 0, {"x": FieldStats(2, 0.0, 2.0)})
    segment = (
        meta(1)
        .with_late(first, pending=1, signals_pending=True)
        .with_late(second, pending=0, signals_pending=False)
    )
    assert segment.all_fields()["x"] == FieldStats(2, 0.0, 2.0)
    assert segment.is_finished and not meta(1).is_finished


def test_a_document_checks_every_byte() -> None:
    data = pack("manifest", {"name": "Ünï \udc80", "n": 1})
    assert unpack("manifest", data, "m") == {"name": "Ünï \udc80", "n": 1}
    assert data[:21] == b'{"crc32c":"%08x",' % google_crc32c.value(data[21:])
    for place in range(len(data)):
        with pytest.raises(DamageError, match=r"^m: checksum"):
            unpack("manifest", data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], "m")
    for cut in range(len(data)):
        with pytest.raises(DamageError, match=r"^m: checksum"):
            unpack("manifest", data[:cut], "m")


def test_a_document_of_another_format_or_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DamageError, match="m: holds 'ledger', expected 'manifest'"):
        unpack("manifest", pack("ledger", {}), "m")
    monkeypatch.setattr("treering.storage.document.FORMAT", 2)
    newer = pack("manifest", {})
    monkeypatch.setattr("treering.storage.document.FORMAT", 1)
    with pytest.raises(StoreError, match="m: store format 2, this treering reads 1"):
        unpack("manifest", newer, "m")


def test_a_version_is_written_once(layout: Layout) -> None:
    root = Root(3, 1, 1, 0)
    publish(OS_FILES, layout.manifest, stage(OS_FILES, layout.manifest, root), 3)
    with pytest.raises(FileExistsError):
        publish(OS_FILES, layout.manifest, stage(OS_FILES, layout.manifest, replace(root, epoch=9)), 3)
    assert read_root(OS_FILES, layout.manifest, 3) == root
    assert root_versions(OS_FILES, layout.manifest) == [3]


def test_a_commit_that_another_writer_overtook_stops(layout: Layout) -> None:
    mine, other = committer(layout), committer(layout)
    other._number += 100
    other.commit(Change(wal_floor=1))
    with pytest.raises(StoreError, match="is of another writer"):
        mine.commit(Change(wal_floor=2))
    assert mine.is_broken
    assert load(OS_FILES, layout, 1).root.wal_floor == 1


def test_a_version_loads_as_it_was_committed(layout: Layout) -> None:
    writer = committer(layout)
    writer.commit(Change(wal_floor=1, model=MODEL))
    writer.commit(Change([meta(i) for i in range(100)], positions=[position(4)], wal_floor=7, next_seq=55))
    writer.commit(Change([replace(meta(5), pending=0)], [meta(6).id], positions=[position(9)]))
    got = load(OS_FILES, layout, 3)
    assert dict(got.segments.entries) == {
        m.id: replace(m, pending=0) if m == meta(5) else m for m in map(meta, range(100)) if m != meta(6)
    }
    assert dict(got.ledger.entries) == {"source": position(9)}
    assert got.model == MODEL
    root = got.root
    assert (root.version, root.epoch, root.wal_floor, root.next_seq) == (3, 1, 7, 55)
    assert load(OS_FILES, layout, 3, load(OS_FILES, layout, 2)) == got == writer.catalog


def test_loading_the_next_version_keeps_what_did_not_change(layout: Layout) -> None:
    writer = committer(layout)
    writer.commit(Change([meta(i) for i in range(100)]))
    before = load(OS_FILES, layout, 1)
    writer.commit(Change([replace(meta(5), pending=0)]))
    after = load(OS_FILES, layout, 2, before)
    changed = [k for k, m in after.segments.entries.items() if m is not before.segments.entries[k]]
    assert changed == [meta(5).id]


def test_a_commit_at_ten_thousand_segments_writes_kilobytes(layout: Layout) -> None:
    writer = committer(layout)
    writer.commit(Change([meta(i, n_fields=30) for i in range(10_000)]))
    for change in (
        Change([meta(10_001, 30)]),
        Change([replace(meta(77, 30), pending=0)], [meta(1234, 30).id]),
    ):
        before = set(layout.lists.iterdir())
        writer.commit(change)
        new = [p.stat().st_size for p in set(layout.lists.iterdir()) - before]
        root = root_path(layout.manifest, writer.catalog.root.version).stat().st_size
        assert sum(new) + root < 400_000


def test_damage_is_named_and_never_stepped_over(layout: Layout) -> None:
    writer = committer(layout)
    for floor in (1, 2):
        writer.commit(Change([meta(floor)], wal_floor=floor))
    path = root_path(layout.manifest, 2)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"wal_floor":2', b'"wal_floor":1'))
    with pytest.raises(DamageError, match=r"00000000000000000002\.json: checksum"):
        load(OS_FILES, layout, 2)
    path.write_bytes(data)
    [listed] = writer.catalog.root.segments
    (layout.lists / listed.file.name).write_bytes(pack("segments", {"entries": {}}))
    with pytest.raises(DamageError, match=rf"{listed.file.name}: \d+ bytes with checksum"):
        load(OS_FILES, layout, 2)


def test_numbers_of_new_files_go_on_behind_leftovers(layout: Layout) -> None:
    (layout.lists / "segments-00000041.json").write_bytes(b"left by a crash")
    (layout.rejects / "00000044.arrow").write_bytes(b"left by a crash")
    writer = committer(layout)
    writer.commit(Change([meta(1)]))
    assert [f.file.name for f in writer.catalog.root.segments] == ["segments-00000045.json"]


def test_numbers_of_new_files_do_not_end_at_eight_digits(layout: Layout) -> None:
    (layout.lists / "segments-99999999.json").write_bytes(b"left by a crash")
    assert committer(layout).next_number() == 100_000_000
    (layout.lists / "ledger-100000000.json").write_bytes(b"left by a crash")
    assert committer(layout).next_number() == 100_000_001


keys = st.integers(0, 300).map(str)


@examples(50)
@given(
    st.lists(
        st.tuples(st.dictionaries(keys, st.integers(), max_size=80), st.sets(keys, max_size=80)), max_size=12
    )
)
def test_a_listing_holds_each_entry_in_one_file_and_few_files(
    changes: list[tuple[dict[str, int], set[str]]],
) -> None:
    listing: Listing[int] = Listing.empty()
    model: dict[str, int] = {}
    names = iter(range(10_000))
    for put, drop in changes:
        put = {key: value for key, value in put.items() if key not in drop}
        model = {key: value for key, value in model.items() if key not in drop} | put
        change = rewrite(listing, put, drop)
        made = {ListFile(StoredFile(str(next(names)), 0, 0), len(group)): group for group in change.groups}
        stale = {key for file, held in change.kept.items() for key in held} & ({*put} | drop)
        assert not stale
        listing = Listing(change.entries, {**change.kept, **made})
        assert dict(listing.entries) == model
        assert sorted(key for held in listing.lists.values() for key in held) == sorted(model)
        assert all(0 < len(held) <= LIST_ENTRIES for held in listing.lists.values())
        assert len(listing.lists) <= 2 * len(model) / LIST_ENTRIES + 4


def put_member(obj: Json, path: tuple[str | int, ...], value: Any) -> Json:
    """Give a copy of a JSON value with one member more."""
    copy: Json = json.loads(json.dumps(obj))
    inside: Any = copy
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return copy


@pytest.mark.parametrize(
    "path", [("gone",), ("files", 0, "gone"), ("late", 0, "gone"), ("late", 0, "file", "gone")]
)
def test_a_segment_with_a_member_that_this_version_does_not_know_is_refused(
    path: tuple[str | int, ...],
) -> None:
    late = LateFile(StoredFile("late-0000.arrow", 5, 6), 3, {})
    known = meta(3).with_late(late, pending=0, signals_pending=False)
    assert SegmentMeta.from_json(known.to_json()) == known
    with pytest.raises(StoreError, match="member 'gone' is unknown; use the treering version that wrote"):
        SegmentMeta.from_json(put_member(known.to_json(), path, None))


def test_a_segment_with_deleted_events_comes_back_as_it_was() -> None:
    gone = Deletion(StoredFile("del-0000.arrow", 70, 6), 3, 2)
    known = replace(meta(3), deleted=gone, partitions={"tenant_id": ("a", "b"), "intent_tag": None})
    assert SegmentMeta.from_json(json.loads(json.dumps(known.to_json()))) == known
    assert known.n_live == known.n_rows - 3
    obj = known.to_json()
    del obj["deleted"]
    with pytest.raises(StoreError, match="member 'deleted' is missing"):
        SegmentMeta.from_json(obj)


def test_the_format_of_a_later_version_is_refused_with_what_to_do() -> None:
    data = pack("manifest", {}).replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1))
    rest = data[21:]
    with pytest.raises(
        StoreError, match=f"store format {FORMAT + 1}, this treering reads 1 to {FORMAT}; use"
    ):
        unpack("manifest", b'{"crc32c":"%08x",' % crc32c(rest) + rest, "x.json")


def test_a_root_with_a_member_that_this_version_does_not_know_is_refused(layout: Layout) -> None:
    writer = committer(layout)
    writer.commit(Change(put_segments=[meta(1)]))
    root = writer.catalog.root
    assert Root.from_json(root.to_json()) == root
    for path in (("gone",), ("segments", 0, "gone")):
        with pytest.raises(StoreError, match="member 'gone' is unknown"):
            Root.from_json(put_member(root.to_json(), path, []))
