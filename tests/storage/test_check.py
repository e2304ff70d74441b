"""A look at a store names the very file that is not as it was written, and nothing else; a repair mends it."""

from __future__ import annotations

import random
import shutil
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from tests.storage.buckets import ROOT, object_files
from tests.storage.faults import CHANGES, Fault, FaultyFiles, PowerLoss
from tests.storage.model import Model, do, draw
from tests.storage.random_batches import batches
from tests.storage.random_batches import vectors_of as random_vectors
from tests.storage.records import MODEL
from tests.storage.records import decode as decode_numbered
from tests.storage.whole_store import (
    DAMAGES,
    DERIVED,
    FILES,
    GONE,
    LIES,
    LIVE,
    build_store,
    decode,
    delete,
    embed,
    file_of,
    flip,
    is_of,
    open_store,
    records,
    rows_in,
    stored_rows,
    told_otherwise,
)
from treering.storage import derived, vectors
from treering.storage.audit import check_chain
from treering.storage.catalog import Change, Committer, load
from treering.storage.check import check_store
from treering.storage.document import pack, unpack
from treering.storage.errors import ConfigError, DamageError, StoreError
from treering.storage.files import OS_FILES, crc32c
from treering.storage.findings import CheckReport, Finding, Severity
from treering.storage.layout import Layout
from treering.storage.meta import StoredFile
from treering.storage.post_file import write_post
from treering.storage.repair import repair
from treering.storage.ring import Ring
from treering.storage.tree_file import write_tree
from treering.storage.view import newest_version
from treering.storage.writer import Writer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "ring"
    build_store(path)
    return path


@pytest.fixture
def store(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "ring"))


def look(path: Path, *, deep: bool = False) -> CheckReport:
    return check_store(OS_FILES, Layout(path), deep=deep)


def wrong(report: CheckReport) -> list[Finding]:
    return [*report.of(Severity.DAMAGED), *report.of(Severity.DERIVED)]


def mended(path: Path, *, deep: bool = False, files: Any = OS_FILES) -> CheckReport:
    """Repair a store that nobody has open."""
    layout = Layout(path)
    before = check_store(files, layout, deep=deep)
    writer = Writer.open(files, layout, decode)
    try:
        return repair(writer, before)
    finally:
        writer.close()


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_store_is_found_whole(base: Path, deep: bool) -> None:
    report = look(base, deep=deep)
    assert report.is_clean and report.findings == ()
    assert (report.events, report.segments) == (len(LIVE), 4)
    with open_store(base, "r") as ring:
        records_, head = ring.audit()
        check_chain(records_, head)
    assert report.audit_head == head


SEEN_FROM_OUTSIDE = {"cut", "cut a little", "emptied", "missing"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", FILES)
def test_the_very_file_is_named(store: Path, kind: str, damage: str) -> None:
    path = file_of(store, kind)
    name = str(path.relative_to(store))
    DAMAGES[damage](path)
    found = wrong(look(store, deep=True))
    if kind == "log" and damage in ("cut", "cut a little", "flipped at the end"):
        # What cannot be told from an append that was never acknowledged.
        assert not found
        assert [(one.severity, one.file) for one in look(store).findings] == [("note", name)]
        return
    if kind == "root" and damage == "missing":
        name = "_manifest"
    assert {one.file for one in found} == {name}
    is_derived = kind in DERIVED
    assert {one.severity for one in found} == {Severity.DERIVED if is_derived else Severity.DAMAGED}
    assert all(("--repair" if is_derived else "--salvage") in one.todo for one in found)
    if not kind.endswith((".json", "log")) and damage in SEEN_FROM_OUTSIDE:
        assert {one.file for one in wrong(look(store))} == {name}


@pytest.mark.parametrize(
    ("kind", "n", "span"),
    [
        ("hot", 1499, (0, 1499)),
        ("text", 1499, (0, 1499)),
        ("late", 400, (2000, 2399)),
        ("deletion", 499, (1500, 1999)),
    ],
)
def test_a_damaged_segment_tells_how_many_events_are_out_of_reach(
    store: Path, kind: str, n: int, span: tuple[int, int]
) -> None:
    flip(file_of(store, kind))
    report = look(store, deep=True)
    (found,) = wrong(report)
    assert (found.n_rows, found.t_min, found.t_max) == (n, span[0] * 10**9, span[1] * 10**9)
    assert report.n_unreachable == n


@pytest.mark.parametrize("kind", ["hot", "text", "vec", "parts", "post", "patt", "segment.json"])
def test_what_does_not_need_the_damaged_file_is_answered_right(store: Path, kind: str) -> None:
    flip(file_of(store, kind))
    with open_store(store, "r") as ring, ring.snapshot() as snapshot:
        seen = set[int]()
        for part in snapshot.parts:
            try:
                rows = zip(part.seq.tolist(), part.column("n#i").to_pylist(), strict=True)
                for seq, n in rows:
                    assert seq == n
                    seen.add(seq)
            except DamageError as error:
                assert kind == "hot" and error.path is not None and error.path.name == "hot.arrow"
        assert seen == {n for n in LIVE if n >= 1500} if kind == "hot" else seen == LIVE


def test_all_that_is_wrong_is_found_at_once(store: Path) -> None:
    kinds = ["list of positions", "log", "rejects", "hot", "vec", "post", "late", "deletion"]
    for kind in kinds:
        flip(file_of(store, kind), 0.4)
    found = wrong(look(store, deep=True))
    assert {one.file for one in found} == {str(file_of(store, kind).relative_to(store)) for kind in kinds}


def test_damaged_blocks_are_told(store: Path) -> None:
    path = file_of(store, "text")
    flip(path, 0.5)
    n_bytes, at = path.stat().st_size, path.stat().st_size // 2
    first = at // 16384 * 16384
    (found,) = wrong(look(store, deep=True))
    assert f"wrong are bytes [{first}, {min(first + 16384, n_bytes)})" in found.what


def test_a_damaged_frame_tells_which_numbers_are_lost(store: Path) -> None:
    flip(file_of(store, "log"), 0.5)
    (found,) = wrong(look(store))
    assert "sequence numbers [25" in found.what and found.n_rows == 10


def test_what_lies_about_is_harmless_and_told(store: Path) -> None:
    segment = file_of(store, "hot").parent
    left = [
        store / "_manifest/00000000000000000099.tmp",
        store / "meta/segments-00000001.json",
        store / "rejects/00000099.arrow",
        store / "wal/000001.wal",
        segment / "late-0000.arrow",
    ]
    for path in left:
        path.write_bytes(b"x")
    (store / "seg/0-0-0").mkdir()
    (store / "salvaged/then").mkdir(parents=True)
    report = look(store)
    assert report.is_clean
    expected = {str(path.relative_to(store)) for path in left} | {"seg/0-0-0"}
    assert {one.file for one in report.of(Severity.LEFTOVER)} == expected
    assert [one.file for one in report.of(Severity.NOTE)] == ["salvaged/then"]


def test_it_looks_beside_a_writer_that_writes_on(store: Path) -> None:
    with open_store(store) as ring, open_store(store, "r") as reader, reader.snapshot() as held:
        before = ring.check(deep=True)
        ring.append(records(range(2560, 2600)))
        ring.flush()
        delete(ring, range(100, 120))
        ring.append(records(range(2600, 2605)))
        for report in (ring.check(deep=True), reader.check(deep=True), look(store, deep=True)):
            assert not wrong(report)
            assert report.events == len(LIVE) + 45 - 20
        assert before.version < report.version
        assert held.n_rows == len(LIVE)


def test_where_there_is_no_store_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no treering store there"):
        look(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_an_altered_audit_record_is_named(store: Path) -> None:
    path = file_of(store, "list of audit records")
    body = unpack("audit", path.read_bytes(), "")
    body["entries"]["000000000001"]["details"]["query"] = "nothing"
    rewritten(store, "audit", path, body)
    (found,) = wrong(look(store))
    assert (
        found.file.startswith("meta/audit-") and "record 1: its hash is not that of the chain" in found.what
    )


def rewritten(store: Path, kind: str, path: Path, body: dict[str, Any]) -> None:
    """Put another list in the place of one, with all checksums right."""
    layout, data = Layout(store), pack(kind, body)
    version = newest_version(OS_FILES, layout)
    catalog = load(OS_FILES, layout, version)
    (old,) = (one for one in getattr(catalog.root, kind) if one.file.name == path.name)
    path.write_bytes(data)
    new = replace(old, file=StoredFile(path.name, len(data), crc32c(data)))
    lists = tuple(new if one == old else one for one in getattr(catalog.root, kind))
    changed: dict[str, Any] = {kind: lists}
    root = replace(catalog.root, **changed)
    (store / f"_manifest/{version:020d}.json").write_bytes(pack("manifest", root.to_json()))


# -- contents that are wrong although every checksum is right -----------------------------------------------------


@pytest.mark.parametrize("what", LIES)
def test_a_manifest_that_disagrees_with_the_rows_is_found(store: Path, what: str) -> None:
    told_otherwise(store, LIES[what])
    found = wrong(look(store, deep=True))
    assert any(what in one.what for one in found if one.severity is Severity.DAMAGED)


def derived_wrong(store: Path, monkeypatch: pytest.MonkeyPatch, kind: str, wrongs: Any) -> None:
    """Write a derived file anew with something wrong in it, and checksums that are right."""
    with monkeypatch.context() as patch:
        patch.setattr(derived, f"write_{'tree' if kind == 'patt' else 'post'}", wrongs)
        file_of(store, kind).unlink()
        mended(store)


def test_a_derived_file_that_disagrees_with_the_rows_is_found_and_mended(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong_tree(files: Any, path: Path, tree: Any, n_slices: int, **more: Any) -> Any:
        return write_tree(files, path, replace(tree, maximum=tree.maximum + 1), n_slices, **more)

    def wrong_post(files: Any, path: Path, part: Any, *, filters: Any, **more: Any) -> Any:
        words = {name: pa.array(np.asarray(array) | 1) for name, array in filters[0].items()}
        return write_post(files, path, part, filters=(words, filters[1]), **more)

    for kind, made, what in (("patt", wrong_tree, "its maximum"), ("post", wrong_post, "the filter of")):
        derived_wrong(store, monkeypatch, kind, made)
        assert look(store).is_clean
        found = wrong(look(store, deep=True))
        assert {one.severity for one in found} == {Severity.DERIVED}
        assert any(what in one.what for one in found if f"/{kind}-" in one.file)
    assert mended(store, deep=True).is_clean
    assert set(stored_rows(store)) == LIVE


def test_bounds_of_vectors_are_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "ring") as ring:
        ring.append(records(range(50)))
        ring.flush()
        monkeypatch.setattr(vectors, "plane_error", lambda rest, step: np.zeros(len(step), np.float32))
        embed(ring)
        ring.fold()
    found = wrong(look(tmp_path / "ring", deep=True))
    assert [one.what for one in found] == ["codes, scale and err of a vector do not bound it"]
    assert found[0].file.endswith("vec.arrow")


def test_events_that_stand_in_two_segments_are_found(store: Path) -> None:
    layout = Layout(store)
    catalog = load(OS_FILES, layout, newest_version(OS_FILES, layout))
    (meta,) = (one for one in catalog.segments.entries.values() if one.id.startswith("22-0-"))
    twin = replace(meta, id="22-0-ffff")
    shutil.copytree(layout.segment(meta.id), layout.segment(twin.id))
    (layout.segment(twin.id) / "segment.json").unlink()
    Committer(OS_FILES, layout, catalog, epoch=1).commit(Change(put_segments=[twin]))
    found = look(store, deep=True).of(Severity.DAMAGED)
    assert [one.what for one in found] == [
        f"events with sequence numbers in [2000, 2400) stand in segment {meta.id} as well"
    ]


# -- repair -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", DERIVED)
def test_a_repair_makes_derived_files_anew(store: Path, kind: str, damage: str) -> None:
    DAMAGES[damage](file_of(store, kind))
    report = mended(store)
    assert not wrong(look(store, deep=True)) and not wrong(report)
    assert any(line.startswith("seg/21-0-") for line in report.repairs)
    assert set(stored_rows(store)) == LIVE
    with open_store(store, "r") as ring:
        records_, head = ring.audit()
        check_chain(records_, head)
    assert records_[-1].action == "repair" and records_[-1].details["done"] == list(report.repairs)


def test_a_repair_removes_leftovers_and_finishes_erasures(store: Path) -> None:
    segment = file_of(store, "patt").parent
    for path in (segment / "patt-0007.arrow", store / "meta/ledger-00000001.json"):
        path.write_bytes(b"x")
    report = mended(store)
    assert report.findings == ()
    assert sum("without its deleted events" in line for line in report.repairs) == 2
    assert any(line.startswith("2 leftovers were removed") for line in report.repairs)
    assert not list(store.glob("seg/*/del-*"))
    assert set(stored_rows(store)) == LIVE


def test_a_second_repair_has_nothing_to_do(store: Path) -> None:
    version = mended(store).version
    again = mended(store)
    assert again.repairs == () and again.version == version


def test_a_repair_leaves_what_is_out_of_reach(store: Path) -> None:
    flip(file_of(store, "hot"))
    flip(file_of(store, "patt"))
    report = mended(store, deep=True)
    assert {Path(one.file).name for one in wrong(report)} == {"hot.arrow", "patt.arrow"}


def test_a_store_that_is_open_is_repaired_while_others_append(store: Path) -> None:
    flip(file_of(store, "post"))
    with open_store(store) as ring:
        ring.append(records(range(2560, 2570)))
        report = ring.repair(deep=True)
        assert report.is_clean and len(report.repairs) >= 2
        ring.append(records(range(2570, 2580)))
        embed(ring)
        assert set(rows_in(ring)) == LIVE | set(range(2560, 2580))
        assert ring.check(deep=True).is_clean


def test_after_a_power_loss_in_a_repair_it_can_be_done_again(base: Path, tmp_path: Path) -> None:
    def damaged(place: Path) -> Path:
        ring = Path(shutil.copytree(base, place / "ring"))
        for kind in DERIVED:
            flip(file_of(ring, kind))
        return ring

    whole = FaultyFiles(tmp_path, None)
    damaged(tmp_path / "count")
    whole = FaultyFiles(tmp_path / "count")
    mended(tmp_path / "count/ring", files=whole)
    n_changes = sum(call in CHANGES for call in whole.calls)
    for at in range(0, n_changes, 7):
        place = tmp_path / f"live-{at}"
        damaged(place)
        files = FaultyFiles(place, Fault(at, among=CHANGES))
        with pytest.raises(PowerLoss):
            mended(place / "ring", files=files)
        left = tmp_path / f"left-{at}"
        left.mkdir()
        files.after_power_loss(left, None)
        assert mended(left / "ring").is_clean
        assert not wrong(look(left / "ring", deep=True))
        assert set(stored_rows(left / "ring")) == LIVE


# -- anything at all ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places(base: Path) -> list[Path]:
    return [
        path.relative_to(base) for path in sorted(base.rglob("*")) if path.is_file() and path.name != "LOCK"
    ]


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_flipped_bit_is_found_in_its_file(base: Path, places: list[Path], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(places))
    with tempfile.TemporaryDirectory() as place:
        store = Path(shutil.copytree(base, Path(place) / "ring"))
        size = (store / name).stat().st_size
        at, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
        whole = bytearray((store / name).read_bytes())
        whole[at] ^= 1 << bit
        (store / name).write_bytes(whole)
        report = look(store, deep=True)
        told = {one.file for one in wrong(report)} or {one.file for one in report.of(Severity.NOTE)}
        assert told == {str(name)}


def test_numbers_of_the_store_are_those_of_the_model(base: Path) -> None:
    rows = stored_rows(base)
    assert set(rows) == LIVE and not set(GONE) & set(rows)
    assert all(is_of(seq, row) for seq, row in rows.items())


# -- any store ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_store_is_found_whole_at_every_step_of_its_life(tmp_path: Path, seed: int) -> None:
    dice, expected = random.Random(seed), Model()
    with Ring.open(tmp_path / "ring", decoder=decode_numbered, flush_bytes=20_000) as ring:
        for step in range(25):
            if step == 5 * seed:
                ring.set_model(MODEL)
            what = draw(dice, expected)
            do(ring, what, tmp_path / "backup")
            expected = expected.after(what)
            report = ring.check(deep=True)
            assert not wrong(report), what
            assert report.events == len(expected.events)


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_columns_of_any_values_are_found_whole(data: st.DataObject) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        Ring.open(Path(place) / "r", decoder=decode_numbered) as ring,
    ):
        for _ in range(data.draw(st.integers(1, 3))):
            for batch in data.draw(batches()):
                with suppress(ConfigError):
                    ring.append_columns(batch)
            ring.flush()
            for segment in ring.unfinished() if data.draw(st.booleans()) else ():
                table = segment.vectors()
                fresh = random_vectors(table.key[~table.have], dim=32)
                ring.add_late(segment.id, vectors=fresh, signals_done=True)
            if data.draw(st.booleans()):
                ring.compact()
        assert not wrong(ring.check(deep=True))


def test_a_store_of_format_1_is_found_whole_and_its_damage_named(tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).parent / "data" / "format-1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (path,) = (root.parent for root in tmp_path.rglob("_manifest"))
    report = look(path, deep=True)
    assert report.findings == () and report.events > 0
    for kind, severity in (("hot", "damaged"), ("post", "damaged"), ("patt", "derived")):
        flip(min(path.glob(f"seg/*/{kind}.arrow")))
        assert [one.severity for one in wrong(look(path, deep=True)) if f"/{kind}." in one.file] == [severity]
        flip(min(path.glob(f"seg/*/{kind}.arrow")))


def test_a_store_in_a_bucket_is_looked_at_where_it_lies() -> None:
    memory = MemoryStore()
    files: Any = object_files(memory)
    with Ring.open(ROOT, decoder=decode, files=files) as ring:
        ring.append(records(range(1100)))
        ring.flush()
        embed(ring)
        ring.fold()
        ring.append(records(range(1100, 1110)))
        for deep in (False, True):
            report = ring.check(deep=deep)
            assert report.is_clean and report.events == 1110
        with ring.snapshot() as snapshot:
            [name] = [part.id for part in snapshot.parts if part.is_stored]
    for ending in ("hot.arrow", "text.arrow", "patt.arrow"):
        key = f"seg/{name}/{ending}"
        whole = bytes(memory.get(key).bytes())
        memory.put(key, whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        report = check_store(object_files(memory), Layout(ROOT), deep=True)
        assert [one.file for one in wrong(report)] == [key]
        memory.delete(key)
        report = check_store(object_files(memory), Layout(ROOT))
        assert [(one.file, one.what) for one in wrong(report)] == [(key, "it is missing")]
        memory.put(key, whole)
