"""A look at a store names the very file that is not as it was written, and nothing else."""

from __future__ import annotations

import random
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from tests.effort import examples, scaled
from tests.storage.buckets import ROOT, object_files
from tests.storage.checking import besides_erasures, look, wrong
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
    LIVE,
    decode,
    delete,
    embed,
    file_of,
    flip,
    is_of,
    open_store,
    records,
    stored_rows,
)
from treering.storage.audit import check_chain
from treering.storage.check import check_store
from treering.storage.errors import ConfigError, DamageError, StoreError
from treering.storage.findings import Severity
from treering.storage.layout import Layout
from treering.storage.ring import Ring


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_store_is_found_whole(base: Path, deep: bool) -> None:
    report = look(base, deep=deep)
    assert report.is_clean and besides_erasures(report) == []
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
        assert [(one.severity, one.file) for one in besides_erasures(look(store))] == [("note", name)]
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


@pytest.fixture(scope="module")
def places(base: Path) -> list[Path]:
    return [
        path.relative_to(base) for path in sorted(base.rglob("*")) if path.is_file() and path.name != "LOCK"
    ]


@examples(30)
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


@pytest.mark.parametrize("seed", range(scaled(2)))
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


@examples(30)
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


def test_a_store_of_format_1_is_found_whole_and_its_damage_named(old_store: Path) -> None:
    report = look(old_store, deep=True)
    assert report.findings == () and report.events > 0
    for kind, severity in (("hot", "damaged"), ("post", "damaged"), ("patt", "derived")):
        harmed = min(old_store.glob(f"seg/*/{kind}.arrow"))
        flip(harmed)
        found = wrong(look(old_store, deep=True))
        assert [one.severity for one in found if f"/{kind}." in one.file] == [severity]
        flip(harmed)


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
