"""The store as a person uses it: what goes in by which way, and how it is left."""

import errno
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import treering as tr
from tests.storage.faults import Fault, FaultyFiles
from treering.indexer.decode import Decoder
from treering.indexer.ingest import MAX_TOLD_REJECTS
from treering.query.progress import Step
from treering.query.store import Store
from treering.storage.errors import InputError, StoreError
from treering.storage.ring import Ring

ROWS: list[dict[str, Any]] = [
    {"ts": "2026-05-01T00:00:00Z", "msg": "disk full on node 7", "level": "error", "n": 1},
    {"ts": "2026-05-01T00:00:01Z", "msg": "all is well", "level": "info", "n": None, "x": 1.5},
    {"ts": "2026-05-01T00:00:02Z", "prompt": "why?", "response": "because", "tags": ["a", "b"]},
]
QUERIES = (
    "n = 1", "x > 1", "level >= warn", '"disk"', "count by level", 'tags = "b"', "n exists", 'response = "because"',
    "sort by ts desc limit 2", "count by n",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tr.open(tmp_path / "ring") as one:
        yield one


def _answers(store: Store, query: str) -> list[dict[str, Any]]:
    rows = store.query(query).to_list()
    own = ("seq", "source", "reader", "source_line", "source_offset", "_id")
    return [{k: v for k, v in row.items() if k not in own and v is not None} for row in rows]


def test_equal_rows_are_new_events_each_time(store: Store) -> None:
    row = {"msg": "beat"}
    for _ in range(3):
        assert store.ingest([row], embed=False).accepted == 1
    assert store.append([row]) == 1 and store.append([row, row]) == 2
    assert len(store.query("")) == 6


def test_rows_and_files_do_not_know_of_each_other(store: Store) -> None:
    data = b'{"msg":"beat"}\n'
    assert store.ingest([{"msg": "beat"}], embed=False).accepted == 1
    assert store.ingest(io.BytesIO(data), embed=False).accepted == 1
    assert store.ingest(io.BytesIO(data), embed=False).accepted == 0
    assert store.ingest([{"msg": "beat"}], embed=False).accepted == 1


def test_a_single_dict_is_one_row(store: Store) -> None:
    assert store.ingest({"msg": "one", "n": 2**70}, embed=False).accepted == 1
    assert store.append({"msg": "two"}) == 1
    assert [row["msg"] for row in store.query("sort by seq").to_list()] == ["one", "two"]
    assert len(store.query(f"n = {2**70}")) == 1


def test_what_is_no_row_is_told_with_its_position(store: Store) -> None:
    for given in ([{"n": 1}, "a.log"], [{"n": 1}, None]):
        with pytest.raises(InputError, match="row 1 is"):
            store.append(given)
    with pytest.raises(InputError, match="as arguments of their own"):
        store.ingest(["a.log", "b.log"])
    assert len(store.query("")) == 2


def test_rows_can_be_asked_for_while_their_stream_goes_on(store: Store) -> None:
    seen = []

    def stream() -> Iterator[dict[str, Any]]:
        for n in range(30):
            if n % 10 == 0:
                seen.append(len(store.query("")))
            yield {"n": n, "text": "x" * 200_000}

    assert store.append(stream()) == 30
    assert seen[0] == 0 and seen[1] > 0 and seen[2] > seen[1]


def test_the_options_of_a_load_hold_for_rows_and_tables(store: Store) -> None:
    rows = [{"when": "2026-05-01 02:00:00", "note": "hello"}]
    told = {"map": {"ts": "when", "body": "note"}, "tz": "Europe/Berlin", "embed": False}
    store.ingest(rows, **told)  # type: ignore[arg-type]
    store.ingest(pa.Table.from_pylist(rows), **told)  # type: ignore[arg-type]
    assert len(store.query('body = "hello" between 2026-05-01T00:00:00Z and 2026-05-01T00:00:01Z')) == 2


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_a_table_answers_as_its_rows_do(tmp_path: Path, kind: str) -> None:
    names = list(dict.fromkeys(name for row in ROWS for name in row))
    full = [{name: row.get(name) for name in names} for row in ROWS]
    table: Any = pa.Table.from_pylist(full)
    table = {"arrow": table, "pandas": pd.DataFrame(full), "polars": pl.DataFrame(full)}[kind]
    with tr.open(tmp_path / "rows") as rows, tr.open(tmp_path / "table") as columns:
        assert rows.append(full) == columns.append(table) == 3
        for query in QUERIES:
            assert _answers(columns, query) == _answers(rows, query), query
        own = ("n", "record")  # pandas holds whole numbers with gaps as floats; a table is its own record
        told = [{(f.name, tuple(f.types)) for f in s.fields() if f.name not in own} for s in (rows, columns)]
        assert told[0] == told[1]
        waiting = [s.ingest([], embed=False).pending for s in (rows, columns)]
        assert waiting[0] == waiting[1] == 4


@pytest.mark.model
def test_texts_of_a_frame_are_found_by_meaning(store: Store, model_files: object) -> None:
    frame = pd.DataFrame(
        {"msg": ["the disk is full", "a user logged in"], "ts": pd.Timestamp("2026-05-01", tz="UTC")}
    )
    steps: list[Step] = []
    summary = store.ingest(frame, progress=steps.append)
    assert (summary.accepted, summary.embedded, summary.pending) == (2, 2, 0)
    (row,) = store.query('~ "no space left on device" top 1').to_list()
    assert row["msg"] == "the disk is full"
    assert [step.stage for step in steps][-2:] == ["fold", "fold"] and "embed" in {s.stage for s in steps}


def test_tables_without_times_are_counted_in_a_warning(store: Store) -> None:
    summary = store.ingest(pd.DataFrame({"ts": ["2026-05-01", "soon", None], "n": [1, 2, 3]}), embed=False)
    assert summary.warnings == ["table: 2 records without a usable time, dated at the load"]
    assert (summary.accepted, summary.sources) == (3, 1)


def test_a_frame_with_a_vector_column_is_found_by_it(store: Store) -> None:
    frame = pd.DataFrame({"msg": ["a", "b"], "vector": [np.array([1.0, 0.0]), np.array([0.0, 1.0])]})
    assert store.append(frame) == 2
    assert store.append([{"msg": "c", "emb": [0.6, 0.8]}], vector="emb") == 1
    found = store.query("~ $v top 3", params={"v": np.array([0.0, 1.0], np.float32)}).to_list()
    assert [row["msg"] for row in found] == ["b", "c", "a"]
    with pytest.raises(InputError, match="'emb', row 1"):
        store.append([{"emb": [1, 0]}, {"emb": [0, 0]}], vector="emb")
    assert len(store.query("")) == 3


def test_the_first_rejects_come_with_the_summary(store: Store) -> None:
    bad = b"".join(b'{"n": %d\n' % n for n in range(MAX_TOLD_REJECTS + 20))
    assert store.ingest(io.BytesIO(b'{"n": 0}\n{"first\n'), embed=False).rejected == 1
    summary = store.ingest(io.BytesIO(b'{"n": 1}\n' + bad), reader="jsonl", embed=False)
    assert summary.rejected == MAX_TOLD_REJECTS + 20
    assert [r.line for r in summary.rejects] == list(range(2, MAX_TOLD_REJECTS + 2))
    assert len(list(store.rejects())) == MAX_TOLD_REJECTS + 21


def test_a_load_does_not_read_the_rejects_of_earlier_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Ring) -> None:
        raise AssertionError("rejects were read")

    monkeypatch.setattr(Ring, "rejects", fail)
    summary = store.ingest(io.BytesIO(b'{"n": 1}\n{"n"\n'), embed=False)
    assert [reject.line for reject in summary.rejects] == [2]


def test_ordering_is_told_as_a_stage(store: Store) -> None:
    steps: list[Step] = []
    store.embed(progress=steps.append)
    assert [(s.stage, s.done, s.total) for s in steps] == [("fold", 0, None), ("fold", 0, 0)]


# -- closing ----------------------------------------------------------------------------------------------------------


def _faulty(path: Path) -> tuple[Store, FaultyFiles]:
    files = FaultyFiles(path.parent)
    return Store(Ring.open(path, decoder=Decoder(), files=files)), files


def test_closing_twice_is_once(tmp_path: Path) -> None:
    store = tr.open(tmp_path / "ring")
    store.append([{"n": 1}])
    store.close()
    store.close()
    with store:
        pass
    with tr.open(tmp_path / "ring") as again:
        assert len(again.query("")) == 1


def test_the_lock_is_released_when_the_last_flush_fails(tmp_path: Path) -> None:
    store, files = _faulty(tmp_path / "ring")
    store.append([{"n": 1}])
    files.fault = Fault(0, errno.ENOSPC, among=("mkdir",))
    with pytest.raises(StoreError, match="made to fail"):
        store.close()
    store.close()
    with tr.open(tmp_path / "ring") as again:
        assert len(again.query("")) == 1


def test_a_stopped_store_is_closed_without_another_try(tmp_path: Path) -> None:
    store, files = _faulty(tmp_path / "ring")
    store.append([{"n": 1}])
    files.fault = Fault(0, errno.EIO, among=("sync",))
    with pytest.raises(StoreError, match="made to fail"):
        store.append([{"n": 2}])
    files.calls.clear()
    store.close()
    assert not {"create", "mkdir", "sync"} & set(files.calls)
    with tr.open(tmp_path / "ring") as again:
        assert [row["n"] for row in again.query("limit 1 sort by seq").to_list()] == [1]


def test_the_first_failure_is_the_one_that_is_raised(tmp_path: Path) -> None:
    store, files = _faulty(tmp_path / "ring")
    with pytest.raises(KeyError, match="mine") as caught, store:
        store.append([{"n": 1}])
        files.fault = Fault(0, errno.ENOSPC, among=("mkdir",))
        raise KeyError("mine")
    assert any("made to fail" in note for note in caught.value.__notes__)
    tr.open(tmp_path / "ring").close()


def test_a_failing_close_is_told_where_nothing_else_failed(tmp_path: Path) -> None:
    store, files = _faulty(tmp_path / "ring")
    with pytest.raises(StoreError, match="made to fail"), store:
        store.append([{"n": 1}])
        files.fault = Fault(0, errno.ENOSPC, among=("mkdir",))
    tr.open(tmp_path / "ring").close()
