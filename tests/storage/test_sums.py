from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.storage.damage import Origin
from treering.storage.errors import DamageError
from treering.storage.files import crc32c
from treering.storage.stored_file import StoredFile
from treering.storage.sums import BLOCK_BYTES, Checks, Summer, block_sums, pack_sums, unpack_sums

SIZES = st.one_of(st.integers(0, 40), st.sampled_from([BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 5]))


def some_bytes(n_bytes: int) -> pa.Buffer:
    return pa.py_buffer(np.random.default_rng(n_bytes).bytes(n_bytes))


def checks_of(original: pa.Buffer, found: pa.Buffer, *, has_sums: bool = True) -> Checks:
    stored = StoredFile("x", original.size, crc32c(original))
    sums = block_sums(original) if has_sums else None
    return Checks(Origin(Path("x")), found, stored, sums)


@given(st.lists(SIZES, max_size=8))
def test_sums_do_not_depend_on_how_the_bytes_came(sizes: list[int]) -> None:
    whole = some_bytes(sum(sizes))
    summer, start = Summer(), 0
    for size in sizes:
        summer.add(whole.slice(start, size))
        start += size
    blocks = [whole.to_pybytes()[start : start + BLOCK_BYTES] for start in range(0, whole.size, BLOCK_BYTES)]
    assert summer.finish().tolist() == [crc32c(block) for block in blocks]
    assert unpack_sums(pack_sums(block_sums(whole))).tolist() == block_sums(whole).tolist()


@given(st.integers(1, 5 * BLOCK_BYTES), st.data())
def test_exactly_the_looks_at_a_bad_block_fail(n_bytes: int, data: st.DataObject) -> None:
    original = some_bytes(n_bytes)
    bad = data.draw(st.integers(0, n_bytes - 1))
    damaged = bytearray(original.to_pybytes())
    damaged[bad] ^= 1
    checks = checks_of(original, pa.py_buffer(bytes(damaged)))
    for _ in range(4):
        start = data.draw(st.integers(0, n_bytes))
        end = data.draw(st.integers(start, n_bytes))
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        if start < end and first <= bad // BLOCK_BYTES <= last:
            with pytest.raises(DamageError, match=rf"bytes \[{bad // BLOCK_BYTES * BLOCK_BYTES}, "):
                checks.check(start, end)
        else:
            checks.check(start, end)


@given(st.integers(1, 2 * BLOCK_BYTES + 9), st.integers(1, 12), st.integers(0, 99), st.data())
def test_rows_are_looked_at_wherever_they_lie(
    width: int, n_rows: int, start: int, data: st.DataObject
) -> None:
    original = some_bytes(start + width * n_rows)
    bad = data.draw(st.integers(0, original.size - 1))
    damaged = bytearray(original.to_pybytes())
    damaged[bad] ^= 1
    checks = checks_of(original, pa.py_buffer(bytes(damaged)))
    rows = np.array(data.draw(st.lists(st.integers(0, n_rows - 1), max_size=4)), np.int64)
    places = [start + width * row for row in rows.tolist()]
    block = bad // BLOCK_BYTES
    if any(place // BLOCK_BYTES <= block <= (place + width - 1) // BLOCK_BYTES for place in places):
        with pytest.raises(DamageError):
            checks.check_rows(start, width, rows)
    else:
        checks.check_rows(start, width, rows)


def test_without_sums_any_look_reads_the_whole_file_once() -> None:
    original = some_bytes(3 * BLOCK_BYTES)
    damaged = bytearray(original.to_pybytes())
    damaged[-1] ^= 1
    with pytest.raises(DamageError, match=r"its crc32c is [0-9a-f]{8}, the manifest says"):
        checks_of(original, pa.py_buffer(bytes(damaged)), has_sums=False).check(0, 1)
    mutable = bytearray(original.to_pybytes())
    checks = checks_of(original, pa.py_buffer(mutable), has_sums=False)
    checks.check(0, 1)
    mutable[-1] ^= 1
    checks.check(0, original.size)
