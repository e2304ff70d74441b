"""Vectors and signals that come after their events: step by step, once, and of one model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.opened import nothing, open_ring
from tests.storage.records import MODEL, decode, fill, raw_batch, stored_numbers, text_keys, vectors_of
from treering.storage.errors import ConfigError, ModelError


def test_vectors_that_are_known_are_not_asked_for_again(path: Path) -> None:
    with open_ring(path) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(3)))
        ring.flush()
        fill(ring)
        ring.append(raw_batch(range(3, 8)))
        ring.flush()
        [segment] = ring.unfinished()
        assert segment.pending == 4
        with ring.snapshot() as snapshot:
            assert snapshot.pending == 4
        found, vectors = ring.lookup(text_keys(["text 0", "text 5", "text 2"]))
        assert found.tolist() == [True, False, True]
        np.testing.assert_array_equal(vectors.exact(), vectors_of(text_keys(["text 0", "text 2"])).exact())
    with open_ring(path, "r") as reader:
        assert reader.lookup(text_keys(["text 0", "text 5", "text 2"]))[0].tolist() == [True, False, True]


def test_late_vectors_and_signals_come_step_by_step(path: Path) -> None:
    with open_ring(path) as ring:
        ring.append(raw_batch(range(7)))
        ring.flush()
        [segment] = ring.unfinished()
        assert (segment.pending, segment.signals_pending) == (7, True)
        keys = segment.vectors().key
        ring.add_late(segment.id, vectors=vectors_of(keys[:3]))
        ring.add_late(segment.id, vectors=vectors_of(keys[2:5]))
        [segment] = ring.unfinished()
        assert segment.pending == 2
        ring.add_late(segment.id, signals={"a": pa.array(np.arange(7.0))}, vectors=vectors_of(keys[5:]))
        [segment] = ring.unfinished()
        assert (segment.pending, segment.signals_pending) == (0, True)
        ring.add_late(segment.id, signals_done=True)
        assert ring.unfinished() == []
        assert ring.fold() == 1
        with ring.snapshot() as snapshot:
            [part] = snapshot.parts
            assert sorted(part.column("a").to_pylist()) == [float(n) for n in range(7)]
            assert len(part.slices) == 2
            np.testing.assert_array_equal(part.vectors().exact(np.arange(7)), vectors_of(keys).exact())


def test_late_files_must_fit_their_segment(path: Path) -> None:
    with open_ring(path) as ring:
        ring.set_model(MODEL)
        ring.append(raw_batch(range(7)))
        ring.flush()
        [segment] = ring.unfinished()
        with pytest.raises(ConfigError, match="column a: 3 values, expected 7"):
            ring.add_late(segment.id, signals={"a": pa.array([1.0] * 3)})
        with pytest.raises(ConfigError, match="segment nine: the store has none such"):
            ring.add_late("nine")
        vectors = vectors_of(segment.vectors().key)
        wide = replace(vectors, values=np.zeros((7, 16), np.int16))
        with pytest.raises(ModelError, match="its vectors have 8 dimensions, these 16"):
            ring.add_late(segment.id, vectors=wide)


def test_a_table_with_vectors_is_complete_at_once(path: Path) -> None:
    table = decode(raw_batch(range(20)), 0)
    del table.columns["seq"]
    keys = text_keys([f"text {i}" for i in range(7)])
    with open_ring(path) as ring:
        ring.append(raw_batch([100]))
        assert ring.append_columns(table, vectors_of(keys)) == 1
        for change in (nothing, ring.flush):
            change()
            assert stored_numbers(ring) == [100, *range(20)]
            with ring.snapshot() as snapshot:
                assert snapshot.pending == 0
                assert len(snapshot.parts) == 1
    with open_ring(path) as ring:
        assert stored_numbers(ring) == [100, *range(20)]
        assert ring.lookup(keys)[0].all()
        with pytest.raises(ModelError, match="its vectors have 8 dimensions, these 3"):
            ring.append_columns(table, replace(vectors_of(keys), values=np.zeros((7, 3), np.int16)))
        with pytest.raises(ModelError, match="its vectors have 8 dimensions, these 384"):
            ring.set_model(replace(MODEL, dim=384))


def test_a_store_has_one_model(path: Path) -> None:
    with open_ring(path) as ring:
        assert ring.model is None
        ring.set_model(MODEL)
        ring.set_model(replace(MODEL, dtype="bfloat16"))
        with pytest.raises(ModelError, match="its vectors are of m, not of other"):
            ring.set_model(replace(MODEL, model_id="other"))
    with open_ring(path, "r") as reader:
        assert reader.model == MODEL
        with reader.snapshot() as snapshot:
            assert snapshot.model == MODEL
