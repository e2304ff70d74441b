"""Deletion files: what was written is read, and what is damaged is named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.metas import meta
from treering.storage.deletion import Derived, Gone, read_deletion, write_deletion
from treering.storage.errors import DamageError
from treering.storage.files import OS_FILES

DERIVED = (Derived("source", "index", ("a", "b")),)
numbers = st.sets(st.integers(0, 99))


def gone(rows: set[int], vectors: set[int]) -> Gone:
    return Gone(np.array(sorted(rows), np.int32), np.array(sorted(vectors), np.int32), DERIVED)


@given(rows=numbers, vectors=numbers)
def test_a_deletion_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: set[int], vectors: set[int]
) -> None:
    directory = tmp_path_factory.mktemp("segment")
    deletion = write_deletion(OS_FILES, directory / "del-0000.arrow", gone(rows, vectors))
    assert (deletion.n_rows, deletion.n_vectors) == (len(rows), len(vectors))
    found = read_deletion(OS_FILES, directory, replace(meta(1), n_rows=100, deleted=deletion))
    assert (set(found.rows.tolist()), set(found.vectors.tolist())) == (rows, vectors)
    assert found.derived == DERIVED


@given(numbers, numbers, numbers, numbers)
def test_what_is_gone_by_either_is_gone(a: set[int], b: set[int], c: set[int], d: set[int]) -> None:
    both = gone(a, b) | gone(c, d)
    assert both.rows.tolist() == sorted(a | c)
    assert both.vectors.tolist() == sorted(b | d)
    assert both.derived == DERIVED
    assert both.rows.dtype == both.vectors.dtype == np.int32


def test_any_flipped_bit_or_missing_byte_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "del-0000.arrow"
    deletion = write_deletion(OS_FILES, path, gone({1, 5}, {2}))
    segment = replace(meta(1), n_rows=100, deleted=deletion)
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(DamageError, match=r"del-0000\.arrow"):
            read_deletion(OS_FILES, tmp_path, segment)
    path.write_bytes(data[:-1])
    with pytest.raises(DamageError, match=r"del-0000\.arrow"):
        read_deletion(OS_FILES, tmp_path, segment)
    path.unlink()
    with pytest.raises(DamageError, match=r"del-0000\.arrow"):
        read_deletion(OS_FILES, tmp_path, segment)


def test_rows_that_the_segment_has_not_are_damage(tmp_path: Path) -> None:
    deletion = write_deletion(OS_FILES, tmp_path / "del-0000.arrow", gone({1, 5}, {2}))
    with pytest.raises(DamageError, match="below 5"):
        read_deletion(OS_FILES, tmp_path, replace(meta(1), n_rows=5, deleted=deletion))
    with pytest.raises(DamageError, match="the manifest says 3"):
        read_deletion(OS_FILES, tmp_path, replace(meta(1), n_rows=100, deleted=replace(deletion, n_rows=3)))
