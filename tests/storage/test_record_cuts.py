"""What is cut out of records and put back is the same to the byte."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.any_records import PAYLOADS, RECORDS
from treering.storage import record_cuts
from treering.storage.columns import Placed, place_columns
from treering.storage.payloads import CUTS, NO_PAYLOADS, RECORD, Payloads, hold, join_payloads
from treering.storage.record_cuts import Cuts, cut_out, stitch

RUN = re.compile(rb"[A-Za-z0-9+/_-]{1024,}")


def cut(records: list[bytes | None], kind: Any = None) -> tuple[Placed, Payloads]:
    placed = place_columns({RECORD: pa.array(records, kind or pa.binary())}, len(records))
    return cut_out(placed, NO_PAYLOADS)


def whole(placed: Placed, payloads: Payloads) -> list[bytes | None]:
    residue = placed.cold[RECORD]
    found = residue if placed.cuts is None else stitch(residue, placed.cuts, payloads)
    records: list[bytes | None] = found.to_pylist()
    return records


def is_cut(placed: Placed) -> list[bool]:
    n_rows = len(placed.cold[RECORD])
    return [False] * n_rows if placed.cuts is None else placed.cuts.is_valid().to_pylist()


@settings(deadline=None, max_examples=150)
@given(st.lists(st.none() | RECORDS, min_size=1, max_size=6), st.data())
def test_records_come_back_as_they_were(records: list[bytes | None], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    placed, payloads = cut(records, kind)
    assert whole(placed, payloads) == records
    assert len(set(payloads.hashes.tolist())) == len(payloads)
    has_run = [one is not None and RUN.search(one) is not None for one in records]
    assert all(cut_ or not run for cut_, run in zip(is_cut(placed), has_run, strict=True))
    rows = data.draw(st.lists(st.integers(0, len(records) - 1), max_size=8))
    if placed.cuts is not None:
        index = pa.array(rows, pa.int64())
        some = stitch(placed.cold[RECORD].take(index), placed.cuts.take(index), payloads)
        assert some.to_pylist() == [records[row] for row in rows]
        sliced = stitch(placed.cold[RECORD].slice(1), placed.cuts.slice(1), payloads)
        assert sliced.to_pylist() == records[1:]


@settings(deadline=None, max_examples=50)
@given(st.lists(RECORDS, min_size=1, max_size=5), st.lists(st.none() | RECORDS, min_size=1, max_size=5))
def test_what_was_cut_before_stays_beside_what_is_cut_now(
    old: list[bytes | None], new: list[bytes | None]
) -> None:
    placed, payloads = cut(old)
    cuts = pa.nulls(len(old), pa.list_(pa.int64())) if placed.cuts is None else placed.cuts
    columns = {
        RECORD: pa.concat_arrays([placed.cold[RECORD], pa.array(new, pa.binary())]),
        CUTS: pa.concat_arrays([cuts, pa.nulls(len(new), cuts.type)]),
    }
    both, held = cut_out(place_columns(columns, len(old) + len(new)), payloads)
    assert whole(both, held) == old + new


def test_a_missing_record_stays_missing_whatever_lies_under_it() -> None:
    letters = PAYLOADS[4]
    buffers = [
        pa.py_buffer(b"\x02"),
        pa.array([0, 3998, 4000], pa.int32()).buffers()[1],
        pa.py_buffer(letters),
    ]
    record = pa.Array.from_buffers(pa.binary(), 2, buffers)
    placed = place_columns({RECORD: record}, 2)
    assert cut_out(placed, NO_PAYLOADS)[0] is placed


def test_short_records_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_cuts, "find_runs", lambda *_: pytest.fail("no record is long enough"))
    placed, payloads = cut([b"x" * 1023, None, b""])
    assert placed.cuts is None and len(payloads) == 0


def test_long_records_get_longer_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_cuts, "MAX_OFFSET", 5000)
    records: list[bytes | None] = [PAYLOADS[4] + b"!", b"?" + PAYLOADS[4]]
    placed, payloads = cut(records)
    assert placed.cold[RECORD].type == pa.binary()
    found = stitch(placed.cold[RECORD], placed.cuts, payloads)
    assert found.type == pa.large_binary() and found.to_pylist() == records


def test_joined_payloads_are_read_in_any_order_and_once_each() -> None:
    buffers = [pa.py_buffer(one) for one in PAYLOADS]
    first, _ = hold(buffers[:3])
    second, _ = hold(buffers[2:])
    joined, moved = join_payloads([first, second], [np.array([0, 2]), np.arange(3)])
    assert len(joined) == len({*_bytes(first, [0, 2]), *_bytes(second, [0, 1, 2])})
    assert moved[0][1] == -1
    for source, to in zip((first, second), moved, strict=True):
        for number in np.flatnonzero(to >= 0).tolist():
            assert _bytes(joined, [int(to[number])]) == _bytes(source, [number])
    order = [3, 0, 2, 0, 1]
    assert _bytes(joined, order) == [_bytes(joined, [number])[0] for number in order]
    assert joined.n_bytes.tolist() == [len(one) for one in _bytes(joined, list(range(len(joined))))]
    assert (joined.hashes[1:] > joined.hashes[:-1]).all()


def _bytes(payloads: Payloads, numbers: list[int]) -> list[bytes]:
    return [one.to_pybytes() for one in payloads.read(np.array(numbers, np.int64))]


def test_cuts_are_the_column_that_they_were_read_from() -> None:
    column = pa.array([None, [0, 3, 0, 1], [7, 0], None], pa.list_(pa.int64()))
    cuts = Cuts.of(column)
    assert (cuts.row.tolist(), cuts.at.tolist(), cuts.number.tolist()) == ([1, 1, 2], [0, 0, 7], [3, 1, 0])
    assert cuts.column(4).equals(column)
