"""Payloads in records: each kept once, given back to the byte, read apart from others, and gone with their events."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from tests.storage.any_records import (
    RECORDS,
    batch_of,
    blob_files,
    chat,
    delete,
    head_of,
    held,
    moved,
    open_any,
    picture,
    put,
    raw_of,
    segments_of,
)
from tests.storage.buckets import ROOT, object_files
from tests.storage.words import files_with
from treering.storage.admission import check_columns
from treering.storage.columns import Placed
from treering.storage.errors import ConfigError
from treering.storage.meta import SegmentMeta
from treering.storage.payloads import NO_PAYLOADS, Payloads
from treering.storage.ring import Ring
from treering.storage.segment import Segment
from treering.storage.text_file import TextFile


def payloads_of(path: Path) -> list[bytes]:
    """Give every payload of every file of a segment."""
    found: list[bytes] = []
    for file in blob_files(path):
        for batch in pa.ipc.open_file(file).read_all().column("payload").chunks:
            found += batch.to_pylist()
    return found


# -- bit by bit ---------------------------------------------------------------------------------------------------


def flushed(ring: Ring, path: Path) -> Ring:
    ring.flush()
    return ring


def folded(ring: Ring, path: Path) -> Ring:
    ring.flush()
    ring.compact()
    return ring


def reopened(ring: Ring, path: Path) -> Ring:
    ring.close()
    return open_any(ring.path)


def restored(ring: Ring, path: Path) -> Ring:
    ring.backup(path / "backup")
    ring.close()
    shutil.rmtree(ring.path)
    with open_any(path / "backup", "r") as copy:
        copy.restore(ring.path)
    shutil.rmtree(path / "backup")
    return open_any(ring.path)


STEPS: dict[str, Callable[[Ring, Path], Ring]] = {
    "flush": flushed,
    "compact": folded,
    "reopen": reopened,
    "restore": restored,
    "move": moved,
}


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.one_of(
            st.lists(RECORDS, min_size=1, max_size=4),
            st.sampled_from(list(STEPS)),
            st.integers(0, 3).map(lambda rest: ("delete", rest)),
        ),
        max_size=10,
    )
)
def test_every_byte_comes_back_whatever_is_done_to_the_store(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path, expected = Path(place), dict[int, bytes | None]()
        ring = open_any(path / "ring")
        for step in [*steps, "compact", "reopen"]:
            if isinstance(step, list):
                expected |= dict(enumerate(step, ring.next_seq))
                ring.append(raw_of(step, ring.next_seq))
            elif isinstance(step, str):
                ring = STEPS[step](ring, path)
            else:
                gone = [seq for seq in expected if seq % 4 == step[1]]
                delete(ring, gone)
                expected = {seq: record for seq, record in expected.items() if seq not in gone}
            assert held(ring) == expected
            taken = ring.acknowledged(0, ring.next_seq)
            assert {one.seq: one.record for one in taken} == expected
        assert ring.check(deep=True).is_clean
        ring.close()


def test_records_of_tables_are_cut_too(tmp_path: Path) -> None:
    records: list[bytes | None] = [chat(0, picture(0)), None, b"plain", chat(1, picture(0))]
    batch = batch_of([one or b"" for one in records])
    batch.columns["record"] = pa.array(records, pa.binary())
    batch.columns["body"] = pa.array([None if one is None else head_of(one) for one in records])
    with open_any(tmp_path / "ring") as ring:
        ring.append_columns(batch, None)
        ring.flush()
        assert held(ring) == dict(enumerate(records))
    assert payloads_of(tmp_path / "ring") == [picture(0)]


# -- once ---------------------------------------------------------------------------------------------------------


def test_a_picture_in_fifty_records_of_a_load_takes_its_space_once(tmp_path: Path) -> None:
    with open_any(tmp_path / "ring") as ring:
        put(ring, [chat(n, picture(0)) for n in range(50)])
        (file,) = blob_files(ring.path)
        assert payloads_of(ring.path) == [picture(0)]
        # Six bits a letter are found by the compression.
        assert file.stat().st_size < 0.8 * len(picture(0))
        assert (file.parent / "text.arrow").stat().st_size < 10_000
        assert len(held(ring)) == 50


def test_a_picture_of_two_loads_is_there_once_when_they_are_joined(tmp_path: Path) -> None:
    with open_any(tmp_path / "ring") as ring:
        for first in (0, 10):
            put(ring, [chat(n, picture(0), picture(first + 1)) for n in range(first, first + 10)])
        before = held(ring)
        assert len(payloads_of(ring.path)) == 4
        ring.compact()
        assert held(ring) == before
        assert sorted(payloads_of(ring.path)) == sorted(picture(seed) for seed in (0, 1, 11))


def test_a_picture_is_the_same_whichever_quotes_are_around_it(tmp_path: Path) -> None:
    inner = chat(1, picture(0)).replace(b'"', b'\\"')
    with open_any(tmp_path / "ring") as ring:
        put(ring, [chat(0, picture(0)), b'{"body": "%s"}' % inner, picture(0), b"(" + picture(0) + b")"])
        assert payloads_of(ring.path) == [picture(0)]


def test_a_store_without_payloads_has_no_file_for_them(tmp_path: Path) -> None:
    with open_any(tmp_path / "ring") as ring:
        put(ring, [b"a line of a log"] * 2000)
        ring.compact()
        assert blob_files(ring.path) == []
        with ring.snapshot() as snapshot:
            (part,) = snapshot.parts
            assert isinstance(part, Segment) and not part.is_cut and len(part.payloads()) == 0


@pytest.fixture
def whole_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store as it was written before payloads were cut out of records."""

    def as_it_is(placed: Placed, payloads: Payloads) -> tuple[Placed, Payloads]:
        return placed, NO_PAYLOADS

    with monkeypatch.context() as patch, open_any(tmp_path / "ring") as ring:
        patch.setattr("treering.storage.segment_writer.cut_out", as_it_is)
        for first in (0, 10):
            put(ring, [chat(n, picture(0)) for n in range(first, first + 10)])
    assert blob_files(tmp_path / "ring") == []
    return tmp_path / "ring"


def test_segments_with_whole_records_are_read_and_cut_when_they_are_folded(whole_store: Path) -> None:
    with open_any(whole_store) as ring:
        before = held(ring)
        assert before == {n: chat(n, picture(0)) for n in range(20)}
        put(ring, [chat(20, picture(0), picture(1))])
        ring.compact()
        assert held(ring) == before | {20: chat(20, picture(0), picture(1))}
        assert ring.check(deep=True).is_clean
    assert sorted(payloads_of(whole_store)) == sorted([picture(0), picture(1)])


# -- gone with their events ---------------------------------------------------------------------------------------


def test_the_payload_of_deleted_events_is_gone_from_every_file(tmp_path: Path) -> None:
    secret, other = b"Zq" + picture(7)[2:], picture(8)
    with open_any(tmp_path / "ring") as ring:
        put(ring, [chat(0, secret), chat(1, other), chat(2, secret, other)])
        put(ring, [chat(3, other)])
        assert is_anywhere(ring.path, secret)
        delete(ring, [0])
        assert is_anywhere(ring.path, secret)
        assert held(ring)[2] == chat(2, secret, other)
        delete(ring, [2])
        assert not is_anywhere(ring.path, secret)
        assert is_anywhere(ring.path, other)
        assert held(ring) == {1: chat(1, other), 3: chat(3, other)}
        ring.compact()
        assert not is_anywhere(ring.path, secret)
        assert payloads_of(ring.path) == [other]


def is_anywhere(path: Path, payload: bytes) -> bool:
    """Whether some letters of a payload are in a file, or its hash is."""
    letters = [payload[at : at + 60].decode() for at in (0, len(payload) // 2, len(payload) - 64)]
    keys = [
        key
        for file in blob_files(path)
        for key in pa.ipc.open_file(file).read_all().column("sha256").to_pylist()
    ]
    return any(files_with(path, one) for one in letters) or sha_of(payload) in keys


def sha_of(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


def test_the_names_of_the_store_cannot_be_given_to_columns() -> None:
    with pytest.raises(ConfigError, match="record~cuts"):
        check_columns({"record~cuts": pa.array([1.0])}, 1, lambda name: None)


def test_payloads_of_a_store_in_a_bucket_are_fetched_by_who_looks_at_them() -> None:
    store = MemoryStore()
    records = [b"no picture" if n % 2 else chat(n, picture(n)) for n in range(6)]
    with open_any(ROOT, files=object_files(store)) as ring:
        put(ring, records)
        ring.compact()
    files = object_files(store)
    with open_any(ROOT, "r", files=files) as ring, ring.snapshot() as snapshot:
        (part,) = snapshot.parts
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("treering.storage.segment_files.BlobFile", lambda _: pytest.fail("nobody asked"))
            assert part.column("record", np.array([1, 5])).to_pylist() == [b"no picture"] * 2
        assert part.column("record").to_pylist() == records


def test_a_body_that_stands_in_what_is_left_of_its_record_takes_no_room(tmp_path: Path) -> None:
    (segment,) = segments_of(tmp_path, 1, lambda _: [chat(n, picture(n % 2)) for n in range(50)])
    text: TextFile = segment._files.text
    assert text.is_cut and "body~start" in text
    assert segment.column("body").to_pylist() == [head_of(chat(n)) for n in range(50)]


def test_a_meta_of_a_segment_names_the_file(tmp_path: Path) -> None:
    (segment,) = segments_of(tmp_path, 1, lambda _: [chat(0, picture(0))])
    meta = SegmentMeta.from_json(segment.meta.to_json())
    assert [file.name for file in meta.files][4] == "blobs.arrow"
