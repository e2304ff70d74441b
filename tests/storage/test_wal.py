from __future__ import annotations

import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.records import decode, position, raw_batch, reject, text_keys, vectors_of
from treering.storage.batch import RawBatch, Source, TextParts
from treering.storage.entry import Entry
from treering.storage.errors import DamageError, StoreError
from treering.storage.files import OS_FILES
from treering.storage.ledger import Position
from treering.storage.rejects import Reject
from treering.storage.upgrade import FORMAT
from treering.storage.wal import Mark, WalWriter, make_frame, read_frames, wal_path


def write_log(directory: Path, files: list[list[Entry]], first: int = 1) -> list[list[int]]:
    """Write entries and give the byte where each frame begins, a list a file."""
    writer = WalWriter.create(OS_FILES, directory, first)
    starts: list[list[int]] = []
    for index, entries in enumerate(files):
        if index:
            writer.rotate()
        starts.append([])
        for entry in entries:
            starts[-1].append(writer.mark.offset)
            writer.append(make_frame(entry))
    writer.close()
    return starts


def read_log(directory: Path, first: int = 1) -> list[tuple[int, Entry]]:
    return read_frames(OS_FILES, directory, Mark(first), floor=first)[0]


def batch(n: int, first_seq: int = 0) -> Entry:
    return Entry(first_seq, raw=raw_batch(range(first_seq, first_seq + n)), positions=(position(n),))


def assert_same_raw(got: RawBatch | None, want: RawBatch) -> None:
    assert got is not None
    assert got.sources == want.sources
    assert got.records == want.records
    for name in ("ts_ns", "ts_origin", "source", "offset", "line", "ends"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))


texts = st.text(st.characters(), max_size=20)
int64s = st.integers(-(2**63), 2**63 - 1)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | int64s | st.text(max_size=5), lambda s: st.lists(s, max_size=3)
)


@st.composite
def raw_batches(draw: st.DrawFn) -> RawBatch:
    records = draw(st.lists(st.binary(max_size=30), max_size=8))
    n = len(records)
    sources = draw(
        st.lists(
            st.builds(Source, texts, texts, st.dictionaries(st.text(max_size=4), json_values, max_size=2)),
            min_size=1,
            max_size=3,
        )
    )
    column = st.lists(int64s, min_size=n, max_size=n)
    return RawBatch(
        sources=tuple(sources),
        ts_ns=np.array(draw(column), np.int64),
        ts_origin=np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), np.uint8),
        source=np.array(draw(st.lists(st.integers(0, len(sources) - 1), min_size=n, max_size=n)), np.uint16),
        offset=np.array(draw(column), np.int64),
        line=np.array(draw(column), np.int64),
        ends=np.cumsum([len(r) for r in records], dtype=np.int64),
        records=b"".join(records),
    )


@examples(60)
@given(
    raw=raw_batches(),
    positions=st.lists(st.builds(Position, texts, texts, int64s, int64s, texts), max_size=2),
    rejects=st.lists(st.builds(Reject, texts, int64s, int64s, texts, st.binary(max_size=9)), max_size=3),
    first_seq=st.integers(0, 2**63),
)
def test_records_positions_and_rejects_come_back_as_they_went(
    raw: RawBatch, positions: list[Position], rejects: list[Reject], first_seq: int
) -> None:
    entry = Entry(
        first_seq, raw=raw if raw.n_rows else None, positions=tuple(positions), rejects=tuple(rejects)
    )
    with tempfile.TemporaryDirectory() as directory:
        write_log(Path(directory), [[entry]])
        [(number, got)] = read_log(Path(directory))
    assert (number, got.first_seq, got.n_rows) == (1, first_seq, raw.n_rows)
    assert got.positions == entry.positions
    assert got.rejects == entry.rejects
    if raw.n_rows:
        assert_same_raw(got.raw, raw)
    else:
        assert got.raw is None


def test_a_table_comes_back_with_its_texts_templates_and_vectors(tmp_path: Path) -> None:
    columns = decode(raw_batch(range(20)), 7)
    columns.columns["level"] = pa.array([None, 1] * 10, pa.uint8())
    columns.columns["scores#[f]"] = pa.array([[1.5, None], None] * 10, pa.list_(pa.float64()))
    parts = columns.parts
    columns.parts = TextParts(
        parts.row, parts.field + np.uint8(2), parts.chunk + np.int16(-3), parts.key, parts.primary
    )
    vectors = vectors_of(text_keys(["text 1", "text 2"]))
    write_log(
        tmp_path,
        [[Entry(7, columns=columns, vectors=vectors), Entry(27, columns=decode(raw_batch([3]), 27))]],
    )
    [(_, got), (_, bare)] = read_log(tmp_path)
    assert got.columns is not None and got.vectors is not None
    assert got.columns.n_rows == 20
    assert {name: a.to_pylist() for name, a in got.columns.columns.items()} == {
        name: a.to_pylist() for name, a in columns.columns.items()
    }
    for name in ("row", "field", "chunk", "key", "primary"):
        np.testing.assert_array_equal(getattr(got.columns.parts, name), getattr(columns.parts, name))
    np.testing.assert_array_equal(got.columns.template, columns.template)
    for name in ("key", "values", "step", "heads", "n_tokens", "head", "second", "qls"):
        np.testing.assert_array_equal(getattr(got.vectors, name), getattr(vectors, name))
        assert getattr(got.vectors, name).dtype == getattr(vectors, name).dtype
    assert bare.vectors is None


def test_the_bytes_are_those_of_the_format_page(tmp_path: Path) -> None:
    """A second reader, written from docs/format/wal.md alone."""
    raw = raw_batch(range(3))
    write_log(
        tmp_path, [[Entry(5, raw=raw, positions=(position(3),), rejects=(reject(1), reject(2)))]], first=7
    )
    data = (tmp_path / "000007.wal").read_bytes()
    magic, version, checksum, number = struct.unpack("<8sIIQ", data[:24])
    assert (magic, version, number) == (b"TREE-WAL", FORMAT, 7)
    assert checksum == google_crc32c.value(data[:12] + data[16:24])
    length, checksum, first_seq, n_rows, kind = struct.unpack("<IIQIB3x", data[24:48])
    assert (length, first_seq, n_rows, kind) == (len(data) - 24, 5, 3, 1)
    assert checksum == google_crc32c.value(data[24:28] + data[32:])
    payload = data[48:]
    (n_head,) = struct.unpack("<I", payload[:4])
    head = json.loads(payload[4 : 4 + n_head])
    buffers, at = [], -(-(4 + n_head) // 8) * 8
    for n_bytes in head["buffers"]:
        buffers.append(payload[at : at + n_bytes])
        at += -(-n_bytes // 8) * 8
    assert at == len(payload)
    assert head["sources"] == [["a.jsonl", "test", {"map": {}}]]
    assert head["positions"][0]["offset"] == 3
    assert head["rejects"] == [["a.jsonl", 1, 10, "no JSON"], ["a.jsonl", 2, 20, "no JSON"]]
    assert struct.unpack("<2q", buffers[0]) == (9, 18)
    assert buffers[1] == b"{broken 1{broken 2"
    assert struct.unpack("<3q", buffers[2]) == (0, 10**9, 2 * 10**9)
    assert struct.unpack("<3q", buffers[5]) == tuple(raw.ends)
    assert struct.unpack("<3H", buffers[6]) == (0, 0, 0)
    assert buffers[7] == bytes(3)
    assert buffers[8] == raw.records


def test_every_cut_of_the_last_file_leaves_the_frames_before_it(tmp_path: Path) -> None:
    [starts] = write_log(tmp_path, [[batch(3), batch(2, 3), batch(1, 5)]])
    path = wal_path(tmp_path, 1)
    data = path.read_bytes()
    ends = [*starts[1:], len(data)]
    for cut in range(starts[0], len(data)):
        path.write_bytes(data[:cut])
        entries, mark = read_frames(OS_FILES, tmp_path, Mark(1), floor=1)
        n_whole = sum(end <= cut for end in ends)
        assert [e.first_seq for _, e in entries] == [0, 3, 5][:n_whole]
        assert mark == Mark(1, [starts[0], *ends][n_whole])


@pytest.mark.parametrize("junk", [b"\0" * 4096, b"\xff" * 100, b"x", bytes(range(256)) * 9])
def test_junk_behind_the_last_frame_is_a_torn_tail(tmp_path: Path, junk: bytes) -> None:
    write_log(tmp_path, [[batch(3), batch(2, 3)]])
    with wal_path(tmp_path, 1).open("ab") as file:
        file.write(junk)
    assert [e.first_seq for _, e in read_log(tmp_path)] == [0, 3]


def test_a_flipped_bit_in_a_frame_that_is_not_the_last_is_damage(tmp_path: Path) -> None:
    """Also in its length, where cutting it off as a torn tail would drop what was acknowledged after it."""
    [starts] = write_log(tmp_path, [[batch(3), batch(2, 3), batch(1, 5)]])
    path = wal_path(tmp_path, 1)
    data = path.read_bytes()
    for place in [*range(starts[1], starts[1] + 24), starts[1] + 60, starts[2] - 9]:
        for bit in (0, 7):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
            with pytest.raises(DamageError, match=rf"000001\.wal at byte {starts[1]}:"):
                read_log(tmp_path)


def test_a_flipped_bit_in_the_last_frame_of_an_older_file_is_damage(tmp_path: Path) -> None:
    starts = write_log(tmp_path, [[batch(3), batch(2, 3)], [batch(1, 5)]])
    path = wal_path(tmp_path, 1)
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(DamageError, match=rf"000001\.wal at byte {starts[0][1]}:"):
        read_log(tmp_path)
    path.write_bytes(data[:-8])
    with pytest.raises(DamageError, match=rf"000001\.wal at byte {starts[0][1]}:"):
        read_log(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_log(tmp_path, [[batch(3)], [batch(1, 3)], [batch(1, 4)]], first=4)
    wal_path(tmp_path, 5).unlink()
    with pytest.raises(DamageError, match=r"000005\.wal: missing"):
        read_log(tmp_path, 4)
    wal_path(tmp_path, 4).unlink()
    with pytest.raises(DamageError, match=r"000004\.wal: missing"):
        read_log(tmp_path, 4)


def test_a_torn_header_is_a_new_file_only_behind_the_floor(tmp_path: Path) -> None:
    write_log(tmp_path, [[batch(3)], []])
    last = wal_path(tmp_path, 2)
    for torn in (b"", b"TREE-W", bytes(24)):
        last.write_bytes(torn)
        entries, mark = read_frames(OS_FILES, tmp_path, Mark(1), floor=1)
        assert ([e.first_seq for _, e in entries], mark) == ([0], Mark(2, 0))
        with pytest.raises(DamageError, match=r"000002\.wal"):
            read_frames(OS_FILES, tmp_path, Mark(2), floor=2)


def test_headers_of_other_versions_and_other_files_are_refused(tmp_path: Path) -> None:
    write_log(tmp_path, [[batch(3)]], first=2)
    wal_path(tmp_path, 2).rename(wal_path(tmp_path, 1))
    with pytest.raises(DamageError, match="says it is file 2, expected 1"):
        read_log(tmp_path)
    data = wal_path(tmp_path, 1).read_bytes()
    fields = struct.pack("<8sIQ", b"TREE-WAL", 9, 1)
    header = struct.pack("<8sIIQ", b"TREE-WAL", 9, google_crc32c.value(fields), 1)
    wal_path(tmp_path, 1).write_bytes(header + data[24:])
    with pytest.raises(StoreError, match="store format 9, this treering reads 1"):
        read_log(tmp_path)
    wal_path(tmp_path, 1).write_bytes(data[:9] + b"\xff" + data[10:])
    with pytest.raises(DamageError, match="header checksum"):
        read_log(tmp_path)


def test_reopening_cuts_the_torn_tail_and_goes_on(tmp_path: Path) -> None:
    write_log(tmp_path, [[batch(3), batch(2, 3)]])
    path = wal_path(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-5])
    entries, mark = read_frames(OS_FILES, tmp_path, Mark(1), floor=1)
    writer = WalWriter.reopen(OS_FILES, tmp_path, mark)
    writer.append(make_frame(batch(4, 3)))
    writer.close()
    assert [(e.first_seq, e.n_rows) for _, e in entries] == [(0, 3)]
    assert [(e.first_seq, e.n_rows) for _, e in read_log(tmp_path)] == [(0, 3), (3, 4)]


def test_reading_goes_on_from_a_mark(tmp_path: Path) -> None:
    writer = WalWriter.create(OS_FILES, tmp_path, 1)
    mark, seen = Mark(1), []
    for seq in range(6):
        writer.append(make_frame(batch(1, seq)))
        if seq % 3 == 2:
            writer.rotate()
        entries, mark = read_frames(OS_FILES, tmp_path, mark, floor=1)
        seen += [(number, e.first_seq) for number, e in entries]
    writer.close()
    assert seen == [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4), (2, 5)]


def test_an_append_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.storage.wal.MAX_FRAME_BYTES", 200)
    with pytest.raises(StoreError, match="too large, at most 200"):
        make_frame(batch(10))


def test_numbers_of_files_do_not_end_at_six_digits(tmp_path: Path) -> None:
    write_log(tmp_path, [[batch(1)], [batch(1, 1)]], first=999_999)
    assert [number for number, _ in read_log(tmp_path, 999_999)] == [999_999, 1_000_000]
