"""The rarest original fields: never laid out over all rows, and read like any other."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.storage.random_batches import batches, plain_rows
from tests.storage.same_parts import assert_same_part, plain_batch, rows_of, written
from treering.storage import residual as residual_module
from treering.storage.batch import ColumnBatch
from treering.storage.columns import is_original
from treering.storage.memory import MemoryPart, build, merge, select
from treering.storage.residual import MAX_ORIGINAL, RESIDUAL, cells_of, pack_cells, unpack_cells

relaxed = examples(25)


def set_aside(batch: ColumnBatch, names: set[str]) -> ColumnBatch:
    """Give a batch as a decoder gives it that puts these fields into the residual."""
    kept = {name: array for name, array in batch.columns.items() if name not in names}
    rare = cells_of({name: batch.columns[name] for name in sorted(names)})
    return ColumnBatch(
        batch.n_rows, {**kept, RESIDUAL: pack_cells(rare, batch.n_rows)}, batch.parts, batch.template
    )


def originals(part: MemoryPart) -> list[str]:
    return [name for name in (*part.placed.hot, *part.placed.cold) if is_original(name)]


@relaxed
@given(batches(), batches(first_seq=50), st.integers(0, 3), st.data())
def test_parts_with_a_residual_give_every_value_back(
    early: list[ColumnBatch], late: list[ColumnBatch], most: int, data: st.DataObject
) -> None:
    expected = plain_rows([*early, *late])
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        patch.setattr(residual_module, "MAX_ORIGINAL", most)
        parts = []
        for i, given_ in enumerate((early, late)):
            moved = [
                set_aside(one, {n for n in one.columns if is_original(n) and data.draw(st.booleans())})
                for one in given_
            ]
            part = build(moved, None, dim=None, part_id=f"p{i}")
            assert rows_of(part) == plain_rows(given_)
            assert len(originals(part)) <= most
            assert RESIDUAL not in part.fields
            parts.append(written(part, Path(directory) / str(i)))
            assert_same_part(parts[-1], part)
        merged = merge(parts, "m")
        assert rows_of(merged) == expected
        assert len(originals(merged)) <= most
        assert rows_of(written(merged, Path(directory) / "m", generation=1)) == expected
        rows = np.array([r for r in range(merged.n_rows) if data.draw(st.booleans())], np.intp)
        chosen = set(merged.seq[rows].tolist())
        assert rows_of(select(merged, rows, "s")) == {s: r for s, r in expected.items() if s in chosen}


def test_a_field_that_is_rare_in_each_batch_is_a_column_once_it_is_common() -> None:
    row = pa.array([1, None, None])
    wide = [
        set_aside(
            plain_batch(3, {"often#i": row, **{f"{i}.{k}#i": row for k in range(400)}}, first_seq=3 * i),
            {"often#i", *(f"{i}.{k}#i" for k in range(400))},
        )
        for i in range(3)
    ]
    part = build(wide, None, dim=None, part_id="x")
    assert "often#i" in originals(part) and len(originals(part)) == MAX_ORIGINAL
    assert len(part.placed.overflow) == 1201 - MAX_ORIGINAL
    assert part.column("often#i").to_pylist() == [1, 1, 1, *[None] * 6]
    assert {name: stats.n for name, stats in part.fields.items() if is_original(name)} == {
        "often#i": 3,
        **{f"{i}.{k}#i": 1 for i in range(3) for k in range(400)},
    }


def test_thousands_of_fields_take_room_for_their_values_only(tmp_path: Path) -> None:
    n = 3000
    cells: dict[str, tuple[list[int], list[Any]]] = {f"key{i}#i": ([i], [i]) for i in range(n)}
    part = build([plain_batch(n, {RESIDUAL: pack_cells(cells, n)})], None, dim=None, part_id="x")
    segment = written(part, tmp_path / "s")
    merged = merge([segment], "m")
    for seen in (part, merged):
        dense = {id(array): array.nbytes for array in (*seen.placed.hot.values(), *seen.placed.cold.values())}
        assert sum(dense.values()) < (MAX_ORIGINAL + 20) * n * 9
        assert seen.placed.residual is not None and seen.placed.residual.nbytes < 100 * n
    assert segment.column(f"key{n - 1}#i").to_pylist() == [*[None] * (n - 1), n - 1]
    assert segment.fields[f"key{n - 1}#i"] == part.fields[f"key{n - 1}#i"]
    assert segment.fields["key7#i"].minimum == 7


def test_names_with_a_mark_that_is_no_type_are_never_set_aside() -> None:
    columns = {f"a#b{i}": pa.array([0.5]) for i in range(MAX_ORIGINAL + 1)}
    part = build([plain_batch(1, columns)], None, dim=None, part_id="x")
    assert not part.placed.overflow
    assert part.column("a#b0").to_pylist() == [0.5]


def test_no_row_without_values_is_stored_as_an_object() -> None:
    packed = pack_cells({"a#i": ([1], [5])}, 3)
    assert packed.to_pylist() == [None, b'{"a#i":5}', None]
    assert unpack_cells(packed.slice(1)) == {"a#i": ([0], [5])}
