"""What queries answer once a store was moved to another model, and while it is moved."""

from __future__ import annotations

import tarfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tests.indexer.letters import INFO, Letters
from tests.indexer.moves import RECORDS, Loader, Others, content
from treering.indexer.decode import Decoder
from treering.indexer.fill import fill
from treering.indexer.reembed import reembed
from treering.query.store import Store
from treering.storage.ring import Ring

FORMAT_1 = Path(__file__).parents[1] / "storage" / "data" / "format-1.tar.xz"
QUERIES = (
    "level >= error",
    '"link"',
    "response_coherence > 0 top 5 by response_coherence",
    "hallucination > 0 top 5 by hallucination",
    "~ $v top 4",
    "~ $v and level exists top 4",
)


def answers(ring: Ring) -> list[list[dict[str, Any]]]:
    """What a store says to all of them."""
    vector = Others().encode_vectors(["it is on the desk"])[0]
    return [
        [
            {name: value for name, value in row.items() if name != "source"}
            for row in Store(ring).query(query, params={"v": vector} if "$v" in query else None).to_list()
        ]
        for query in QUERIES
    ]


def open_ring(path: Path) -> Ring:
    return Ring.open(path, "w", decoder=Decoder())


def test_a_moved_store_answers_like_one_of_that_model_from_the_start(tmp_path: Path) -> None:
    with open_ring(tmp_path / "moved") as moved, open_ring(tmp_path / "fresh") as fresh:
        for ring in (moved, fresh):
            load = Loader(ring, tmp_path)
            load(RECORDS)
            load(RECORDS[2:])
        fill(moved, Letters())
        reembed(moved, Others())
        fill(fresh, Others())
        found = answers(moved)
        assert found == answers(fresh) and all(found[:2]) and len(found[4]) == 4


def test_appends_and_queries_of_other_threads_go_on(tmp_path: Path) -> None:
    with open_ring(tmp_path / "moved") as ring:
        load = Loader(ring, tmp_path)
        load(RECORDS)
        fill(ring, Letters())
        is_moved, failed, models = threading.Event(), list[BaseException](), set[str]()

        def work() -> None:
            try:
                while load.n_calls < 24 and not is_moved.is_set():
                    load(RECORDS[load.n_calls % 5 :], flushes=load.n_calls % 3 == 0)
                    with ring.snapshot() as snapshot:
                        assert snapshot.model is not None
                        models.add(snapshot.model.model_id)
                        dims = {part.vectors().dim for part in snapshot.parts if part.vectors().have.any()}
                        assert dims <= {snapshot.model.dim}
                    Store(ring).query('"link"')
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        report = reembed(ring, Others())
        is_moved.set()
        thread.join()
        assert failed == [] and report.finished and INFO.model_id in models
        ring.flush()
        fill(ring, Others())
        with open_ring(tmp_path / "fresh") as fresh:
            again = Loader(fresh, tmp_path)
            again(RECORDS)
            for at in range(1, load.n_calls):
                again(RECORDS[at % 5 :])
            fill(fresh, Others())
            assert content(ring) == content(fresh)


def test_a_store_of_format_1_can_be_moved(tmp_path: Path) -> None:
    with tarfile.open(FORMAT_1) as tar:
        tar.extractall(tmp_path, filter="data")
    (root,) = (path.parent for path in tmp_path.rglob("_manifest"))
    with open_ring(root) as ring:
        rows = content(ring)
        report = reembed(ring, Letters(), drops_given=True)
        assert report.finished and report.was_moved and ring.model == INFO and ring.unfinished() == []
        moved = content(ring)
        assert moved.keys() == rows.keys() and rows
        for seq, row in moved.items():
            assert (row["record"], row["ts"]) == (rows[seq]["record"], rows[seq]["ts"])
        with ring.snapshot() as snapshot:
            for part in snapshot.parts:
                table = part.vectors()
                lengths = np.linalg.norm(table.codes[:, : INFO.dim] * table.scale[:, None], axis=1)
                np.testing.assert_allclose(lengths, 1, atol=0.02)
