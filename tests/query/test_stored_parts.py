"""Queries over parts as storage makes them: the memtable, segments on disk, and segments folded by shard."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.naive.execute import Naive
from tests.query.parts import DIM, Event, PlainPart, PlainSnapshot, unit
from tests.query.strategies import queries, stores
from treering.query import bound as b
from treering.query.execute import execute
from treering.query.rows import Rows
from treering.storage.batch import KEY, ColumnBatch, Keys, TextParts, Vectors
from treering.storage.files import OS_FILES
from treering.storage.memory import MemoryPart, build, merge
from treering.storage.part import Part
from treering.storage.segment import Segment, write


def as_batch(part: PlainPart) -> ColumnBatch:
    """The events of a plain part, decoded, in arrival order."""
    events = sorted(part.events, key=lambda e: e.seq)
    order = np.argsort(part.seq).astype(np.intp)
    columns = {name: part._columns[name].take(pa.array(order)) for name in part._columns}
    n = len(events)
    texts = [
        (row, field, place, (1, v + 1) if v is not None else (2, event.seq * 8 + place), place == 0)
        for row, event in enumerate(events)
        for place, (field, v) in enumerate(event.texts)
    ]
    texts.sort(key=lambda t: t[:3])
    return ColumnBatch(
        n,
        {
            "ts": pa.array([e.ts for e in events], pa.int64()),
            "seq": pa.array([e.seq for e in events], pa.int64()),
            "ts_origin": pa.array(np.zeros(n, np.uint8)),
            "source": pa.array(["s"] * n).dictionary_encode(),
            "reader": pa.array(["jsonl"] * n).dictionary_encode(),
            "source_offset": pa.array(np.zeros(n, np.int64)),
            "source_line": pa.array(np.zeros(n, np.int64)),
            **columns,
        },
        TextParts(
            np.array([t[0] for t in texts], np.int32),
            np.array([t[1] for t in texts], np.uint8),
            np.array([t[2] for t in texts], np.int16),
            np.array([t[3] for t in texts], KEY),
            np.array([t[4] for t in texts], np.bool_),
        ),
        np.zeros(n, KEY),
    )


def built(part: PlainPart, vectors: npt.NDArray[np.float32]) -> MemoryPart:
    def lookup(keys: Keys) -> tuple[npt.NDArray[np.bool_], Vectors]:
        found = keys["hi"] == 1
        ids = keys["lo"][found].astype(np.intp) - 1
        u = len(ids)
        return found, Vectors.of(
            keys[found],
            vectors[ids],
            heads=np.zeros((u, 12), np.uint8),
            n_tokens=np.full(u, 9, np.uint16),
            head=(ids % 3).astype(np.uint8),
            qls=np.zeros((u, 136), np.int8),
        )

    return build([as_batch(part)], lookup, dim=DIM, part_id=part.id)


def on_disk(part: MemoryPart, directory: Path, *, generation: int) -> Segment:
    meta = write(OS_FILES, directory, part, level=44, cell=0, generation=generation)
    return Segment.open(OS_FILES, directory, meta)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.data())
def test_answers_over_stored_parts_equal_reading_event_by_event(data: st.DataObject) -> None:
    snapshot, events, vectors = data.draw(stores())
    query = data.draw(queries(vectors))
    expected = [e.seq for e in Naive(events, vectors).rows(query)]
    memory = [built(part, vectors) for part in snapshot.parts if part.n_rows]
    with tempfile.TemporaryDirectory() as name:
        young = [on_disk(p, Path(name) / f"y{i}", generation=0) for i, p in enumerate(memory)]
        stores_: list[Sequence[Part]] = [memory, young]
        if memory:
            stores_.append([on_disk(merge(memory, "m"), Path(name) / "m", generation=1)])
        for parts in stores_:
            assert found(parts, query) == expected


def found(parts: Sequence[Part], query: b.BoundQuery) -> list[int]:
    result = execute(PlainSnapshot(list(parts)), query)
    assert isinstance(result.source, Rows)
    result.to_list()
    result.to_arrow()
    return [int(s) for s in result.source.seq]


def test_folded_segment_with_many_leaves_answers_alike() -> None:
    rng = np.random.default_rng(0)
    vectors = unit(rng.standard_normal((50, DIM)))
    events = [
        Event(int(t) << 20, i, {"score": float(s), "n#i": i % 7}, [(0, i % 50)])
        for i, (t, s) in enumerate(zip(rng.integers(0, 60_000, 40_000), rng.random(40_000), strict=True))
    ]
    plain = PlainPart(events, vectors, leaf_rows=100_000)
    folded = merge([built(plain, vectors)], "m")
    assert len(folded.slices) == 3
    naive = Naive(events, vectors)
    score = b.Column("score", ("score",), "number")
    for query in (
        b.BoundQuery(order=(b.BSort(score, True),), limit=10, drop_missing=True),
        b.BoundQuery(where=b.BCompare(score, ">", 0.9999), start_ns=5 << 30, end_ns=50 << 30),
        b.BoundQuery(order=(b.BSort(b.Column("ts", ("ts",), "ts"), True),), limit=10),
        b.BoundQuery(limit=7, offset=3),
    ):
        result = execute(PlainSnapshot([folded]), query)
        assert isinstance(result.source, Rows)
        assert [int(s) for s in result.source.seq] == [e.seq for e in naive.rows(query)]


def test_meaning_over_events_whose_vectors_are_all_to_come_is_empty_and_says_so(tmp_path: Path) -> None:
    import treering as tr

    with tr.open(tmp_path / "ring") as store:
        store.ingest([{"ts": "2026-05-01T00:00:00Z", "msg": "disk full"}], embed=False)
        for _ in ("in memory", "in a segment"):
            vector = np.ones(384, np.float32)
            found = store.query("~ $v top 3", params={"v": vector})
            assert (len(found), found.meta["complete"], found.meta["pending"]) == (0, False, 1)
            assert store.query("not ~ $v > 0.2 | count", params={"v": vector}).to_list() == [{"count": 0}]
            store.flush()
