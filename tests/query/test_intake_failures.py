"""A load that fails says what it had taken by then: that is in the store, and is not to be loaded again."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pyarrow as pa
import pytest

import treering as tr
from tests.storage.faults import Fault, FaultyFiles
from treering.indexer.decode import Decoder
from treering.query.intake import IngestSummary
from treering.query.store import Store
from treering.storage.ring import Ring

FULL = Fault(0, errno.ENOSPC, is_torn=True, among=("write",))


def store_on(files: FaultyFiles, path: Path) -> Store:
    return Store(Ring.open(path, decoder=Decoder(), files=files))


def numbers(store: Store) -> list[int]:
    return sorted(row["n"] for row in store.query("fields n"))


def rows(n: int, *, broken_at: int = -1) -> str:
    lines = [json.dumps({"n": i, "ts": 1_777_593_600 + i, "text": "x" * 200}) for i in range(n)]
    return "".join(('{"n": ' if i == broken_at else line) + "\n" for i, line in enumerate(lines))


def fails_at_append(files: FaultyFiles, number: int) -> None:
    """Let the disk be full from the append of this number on, counted from 0: each writes once before it syncs."""
    files.fault, files.n_calls = Fault(number, errno.ENOSPC, is_torn=True, among=("write",)), 0


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_load_that_is_cut_short_tells_the_events_that_are_in(tmp_path: Path, number: int) -> None:
    log, files = tmp_path / "a.jsonl", FaultyFiles(tmp_path)
    log.write_text(rows(20_000, broken_at=3))
    store = store_on(files, tmp_path / "ring")
    fails_at_append(files, number)
    with pytest.raises(tr.StoreError, match=r"append failed: made to fail: ENOSPC") as caught:
        store.ingest(str(log), embed=False)
    files.fault = None
    done = caught.value.done
    assert isinstance(done, IngestSummary)
    assert done.accepted == len(store.query("fields n"))
    assert done.rejected == len(list(store.rejects())) == (number > 0)
    assert (done.accepted > 0) == (number > 0)
    again = store.ingest(str(log), embed=False)
    assert done.accepted + again.accepted == 19_999
    assert numbers(store) == [n for n in range(20_000) if n != 3]
    store.close()


def test_a_load_whose_flush_fails_tells_the_events_that_are_in(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    store = store_on(files, tmp_path / "ring")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treering.query.intake.locate", lambda model: None)
        fails_at_append(files, 1)
        with pytest.raises(tr.StoreError, match="events up to number 4 are acknowledged and kept") as caught:
            store.ingest([{"n": n, "ts": 1_777_593_600} for n in range(5)])
    files.fault = None
    assert isinstance(caught.value.done, IngestSummary) and caught.value.done.accepted == 5
    assert numbers(store) == list(range(5))
    store.close()


def test_rows_and_tables_that_are_cut_short_tell_the_number_of_events_that_are_in(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    store = store_on(files, tmp_path / "ring")
    events = [{"n": n, "ts": 1_777_593_600 + n, "text": "x" * 200} for n in range(20_000)]
    table = pa.Table.from_pylist([{"n": n, "ts": 1_777_593_600 + n} for n in range(150_000)])
    seen = 0
    for data in (events, table):
        for number in (0, 1, 2):
            fails_at_append(files, number)
            with pytest.raises(tr.StoreError, match="append failed") as caught:
                store.append(data)
            files.fault = None
            assert isinstance(caught.value.done, int)
            seen += caught.value.done
            assert (caught.value.done > 0) == (number > 0)
            assert len(store.query("fields n")) == seen
    store.close()


def test_an_error_of_another_call_has_nothing_to_tell(tmp_path: Path) -> None:
    with tr.open(tmp_path / "ring") as store, pytest.raises(tr.QueryError) as caught:
        store.query("n = ")
    assert caught.value.done is None
