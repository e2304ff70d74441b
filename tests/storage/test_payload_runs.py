"""Runs of base64 letters are found wherever they stand, as a search byte by byte finds them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.any_records import RECORDS
from treering.storage.payload_runs import MIN_PAYLOAD_BYTES, find_runs

LETTERS = re.compile(rb"[A-Za-z0-9+/_\\-]+")


def found_in(records: list[bytes]) -> list[tuple[int, int]]:
    ends = np.cumsum([len(one) for one in records], dtype=np.int64)
    begin, end = find_runs(np.frombuffer(b"".join(records), np.uint8), ends)
    return list(zip(begin.tolist(), end.tolist(), strict=True))


def searched(records: list[bytes]) -> list[tuple[int, int]]:
    runs, start = [], 0
    for record in records:
        for match in LETTERS.finditer(record):
            run = match.group().rstrip(b"\\")
            if run == match.group():
                behind = record[match.end() : match.end() + 2]
                run += b"=" * (len(behind) - len(behind.lstrip(b"=")))
            if len(run) >= MIN_PAYLOAD_BYTES:
                runs.append((start + match.start(), start + match.start() + len(run)))
        start += len(record)
    return runs


@settings(deadline=None, max_examples=200)
@given(st.lists(RECORDS, min_size=1, max_size=5).filter(any))
def test_every_long_run_is_found_and_nothing_else(records: list[bytes]) -> None:
    assert found_in(records) == searched(records)


@pytest.mark.parametrize("before", [0, 1, 511, 512, 513, 70_000])
@pytest.mark.parametrize("length", [1023, 1024, 1025, 40_000])
def test_a_run_is_found_wherever_it_begins(before: int, length: int) -> None:
    record = b" " * before + b"x" * length
    expected = [(before, before + length)] if length >= MIN_PAYLOAD_BYTES else []
    assert found_in([record]) == expected
    assert found_in([record + b'"']) == expected


def test_a_run_ends_with_its_record() -> None:
    assert found_in([b"x" * 600, b"x" * 600]) == []
    assert found_in([b"x" * 1500, b"x" * 1500]) == [(0, 1500), (1500, 3000)]
    assert found_in([b"x" * 1500, b"== y"]) == [(0, 1500)]


def test_what_is_cut_is_the_same_whatever_quotes_stand_behind_it() -> None:
    run = b"x" * 2000
    assert found_in([run + b'"']) == found_in([run + b'\\"']) == found_in([run + b'\\\\\\"']) == [(0, 2000)]
    assert found_in([run + b'=="']) == found_in([run + b'==\\"']) == [(0, 2002)]
