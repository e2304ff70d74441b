from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.random_batches import (
    batches,
    lookup_of,
    plain_rows,
)
from tests.storage.same_parts import (
    KNOWN,
    SCALE,
    assert_same_part,
    plain_batch,
    relaxed,
    rows_of,
    written,
)
from treering.storage.batch import ColumnBatch, Keys, TextParts, Vectors
from treering.storage.memory import build, merge, select
from treering.storage.part import NO_SHARD, Part


@relaxed
@given(batches(), batches(first_seq=100), KNOWN)
def test_merge_keeps_each_row_once_in_shard_and_time_order(
    first: list[ColumnBatch], second: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    parts = [build(b, lookup_of(known), dim=32, part_id="p", qls_scale=SCALE) for b in (first, second)]
    merged = merge(parts, "m", qls_scale=SCALE)
    assert rows_of(merged) == plain_rows([*first, *second])
    assert [s.lo for s in merged.slices] == [0, *(s.hi for s in merged.slices)][: len(merged.slices)]
    for piece in merged.slices:
        times = list(zip(merged.ts[piece.lo : piece.hi], merged.seq[piece.lo : piece.hi], strict=True))
        assert times == sorted(times)
    vectors = merged.vectors()
    for piece in merged.slices:
        for vec in merged.vec_of_row()[piece.lo : piece.hi]:
            lost = vec < 0 or not vectors.have[vec] or vectors.head[vec] == 255
            assert lost if piece.shard == NO_SHARD else piece.shard // 16 == vectors.head[vec]
    with tempfile.TemporaryDirectory() as directory:
        segment = written(merged, Path(directory) / "s", generation=1)
        assert_same_part(segment, merged)
        again = merge([segment], "m", qls_scale=SCALE)
        assert_same_part(again, merged)


@relaxed
@given(batches(), KNOWN)
def test_parts_and_postings_name_the_same_uses(
    given_: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    young = build(given_, lookup_of(known), dim=32, part_id="x")
    for part in (young, merge([young], "y")):
        texts, table, postings = part.parts(), part.vectors(), part.postings()
        keys = [tuple(key) for key in table.key.tolist()]
        assert keys == sorted(set(keys))
        seqs = [part.seq[row] for row in texts.row]
        found = set(
            zip(seqs, texts.field, texts.chunk, map(tuple, texts.key.tolist()), texts.primary, strict=True)
        )
        assert found == set(uses_of(given_))
        assert len(found) == len(texts)
        place = [
            (int(row), int(f), int(c)) for row, f, c in zip(texts.row, texts.field, texts.chunk, strict=True)
        ]
        assert place == sorted(place)
        for vec, key in enumerate(keys):
            span = slice(postings.offsets[vec], postings.offsets[vec + 1])
            uses = [
                (part.ts[r], part.seq[r], f)
                for r, f in zip(postings.row[span], postings.field[span], strict=True)
            ]
            mine = [
                (part.ts[texts.row[i]], part.seq[texts.row[i]], texts.field[i]) for i in matching(texts, key)
            ]
            assert uses == sorted(mine)
        for i in np.flatnonzero(texts.primary):
            assert tuple(table.key[part.vec_of_row()[texts.row[i]]].item()) == tuple(texts.key[i].item())
        assert np.count_nonzero(part.vec_of_row() >= 0) == np.count_nonzero(texts.primary)
        assert part.pending == np.count_nonzero(~table.have)


def uses_of(given_: Sequence[ColumnBatch]) -> list[tuple[Any, ...]]:
    return [
        (one.columns["seq"][t.row[i]].as_py(), t.field[i], t.chunk[i], tuple(t.key[i].item()), t.primary[i])
        for one in given_
        for t in [one.parts]
        for i in range(len(t))
    ]


def matching(texts: TextParts, key: tuple[int, ...]) -> list[int]:
    return [i for i in range(len(texts)) if tuple(texts.key[i].item()) == key]


@relaxed
@given(batches(), KNOWN)
def test_templates_name_their_rows_in_time_order(
    given_: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    part = merge([build(given_, lookup_of(known), dim=32, part_id="x")], "m")
    expected = {
        int(one.columns["seq"][row].as_py()): tuple(one.template[row].item())
        for one in given_
        for row in range(one.n_rows)
    }
    keys = [tuple(key) for key in part.template_keys().tolist()]
    assert keys == sorted({key for key in expected.values() if key != (0, 0)})
    for row, template in enumerate(part.template_of_row().tolist()):
        assert expected[int(part.seq[row])] == (keys[template] if template >= 0 else (0, 0))
    offsets, rows = part.template_rows()
    for template in range(len(keys)):
        mine = rows[offsets[template] : offsets[template + 1]]
        times = [(int(part.ts[r]), int(part.seq[r])) for r in mine]
        same = np.flatnonzero(part.template_of_row() == template)
        assert times == sorted((int(part.ts[r]), int(part.seq[r])) for r in same)
    with tempfile.TemporaryDirectory() as directory:
        stored = written(part, Path(directory) / "s").template_rows()
        np.testing.assert_array_equal(stored[0], offsets)
        np.testing.assert_array_equal(stored[1], rows)


@relaxed
@given(batches(), batches(first_seq=100), KNOWN)
def test_exemplars_are_the_first_events_with_a_text_and_the_lowest_is_kept(
    early: list[ColumnBatch], late: list[ColumnBatch], known: set[tuple[int, int]]
) -> None:
    def first_seqs(given_: list[ColumnBatch]) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for one in given_:
            for key, row in zip(one.parts.key.tolist(), one.parts.row.tolist(), strict=True):
                seq = one.columns["seq"][row].as_py()
                found[key] = min(seq, found.get(key, seq))
        return found

    def embedded(keys: Keys) -> tuple[Any, Vectors]:
        found, vectors = lookup_of(known)(keys)
        return found, replace(vectors, exemplar=np.full(len(vectors), 7))

    def exemplars(part: Part) -> dict[tuple[int, int], int]:
        table = part.vectors()
        return dict(zip(table.key.tolist(), table.exemplar.tolist(), strict=True))

    first, second = (build(b, lookup_of(known), dim=32, part_id="x") for b in (early, late))
    for part, given_ in ((first, early), (second, late)):
        assert exemplars(part) == {k: -1 if k in known else n for k, n in first_seqs(given_).items()}
    expected = {k: -1 if k in known else n for k, n in first_seqs([*early, *late]).items()}
    with tempfile.TemporaryDirectory() as directory:
        stored = [written(part, Path(directory) / str(i)) for i, part in enumerate((first, second))]
        assert exemplars(merge(stored[::-1], "m")) == expected
    seen = exemplars(build(late, embedded, dim=32, part_id="y"))
    assert seen == {k: 7 if k in known else n for k, n in first_seqs(late).items()}


@relaxed
@given(batches(), KNOWN, st.data())
def test_selected_rows_are_those_rows(
    given_: list[ColumnBatch], known: set[tuple[int, int]], data: st.DataObject
) -> None:
    part = build(given_, lookup_of(known), dim=32, part_id="x")
    rows = np.array([r for r in range(part.n_rows) if data.draw(st.booleans())], np.intp)
    chosen = select(part, rows, "y")
    everything = plain_rows(given_)
    assert rows_of(chosen) == {int(seq): everything[int(seq)] for seq in part.seq[rows]}
    seqs = {int(seq) for seq in part.seq[rows]}
    texts = chosen.parts()
    found = {(chosen.seq[r], f, c) for r, f, c in zip(texts.row, texts.field, texts.chunk, strict=True)}
    assert found == {use[:3] for use in uses_of(given_) if use[0] in seqs}


def test_batches_with_two_types_for_one_column_are_refused() -> None:
    first, second = plain_batch(1, {"x": pa.array([1])}), plain_batch(1, {"x": pa.array(["a"])}, 1)
    with pytest.raises(OSError, match="column x: a batch has type string, another int64"):
        build([first, second], None, dim=None, part_id="x")
