"""A store in a bucket as a person uses it: the same answers as a store on disk, from Python and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from tests.storage.small_s3 import SmallS3, small_s3
from treering.storage.errors import ConfigError, DamageError
from treering.storage.objects import ObjectFiles

ROWS: list[dict[str, Any]] = [
    {
        "ts": f"2026-05-{1 + n // 8:02d}T{n % 8:02d}:00:00Z",
        "msg": f"request {n} failed" if n % 3 else "all is well",
        "level": ("info", "error", "warn")[n % 3],
        "n": n,
        "service": f"svc-{n % 4}",
        "tags": ["a", "b"][: n % 3],
    }
    for n in range(64)
]
QUERIES = (
    "n = 1",
    "n > 40",
    "level >= warn",
    '"failed"',
    "count by level",
    'tags = "b"',
    'service = "svc-2" sort by ts desc limit 5',
    "between 2026-05-03 and 2026-05-05 count by service",
    "where n > 60 or level = info",
)
ONE_MORNING = "between 2026-05-01T00:00:00Z and 2026-05-01T03:00:00Z"
OWN = ("_id", "source", "reader")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SmallS3]:
    with small_s3() as one:
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "TREERING_CACHE_LIMIT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TREERING_S3_ENDPOINT", one.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("TREERING_CACHE", str(tmp_path / "cache"))
        yield one


def _fill(store: tr.Store) -> None:
    for start in range(0, len(ROWS), 16):
        store.ingest(ROWS[start : start + 16], embed=False)
        store.flush()


def _answers(store: tr.Store, query: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in OWN} for row in store.query(query).to_list()]


def test_a_bucket_and_a_disk_give_the_same_answers(server: SmallS3, tmp_path: Path) -> None:
    with tr.open("s3://bucket/store") as there, tr.open(tmp_path / "ring") as here:
        for store in (there, here):
            _fill(store)
        with tr.open("s3://bucket/store", "r") as reader:
            for query in QUERIES:
                expected = _answers(here, query)
                assert _answers(there, query) == _answers(reader, query) == expected, query
                assert expected
            table = "select count(*) c, sum(n) s from events where level = 'error'"
            assert reader.sql(table).to_pylist() == here.sql(table).to_pylist()
            assert [f.name for f in reader.fields()] == [f.name for f in here.fields()]
    assert not (tmp_path / "s3:").exists()


def test_given_vectors_are_searched_alike(server: SmallS3, tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).standard_normal((200, 16)).astype(np.float32)
    table = pa.table(
        {"n": pa.array(range(200)), "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 16)}
    )
    found = []
    for place in ("s3://bucket/store", str(tmp_path / "ring")):
        with tr.open(place) as store:
            store.append(table)
        with tr.open(place, "r") as store:
            rows = store.query("~ $v limit 10", params={"v": vectors[7]}).to_list()
            found.append([(row["n"], row["_score"]) for row in rows])
    assert found[0] == found[1]
    assert found[0][0][0] == 7


def test_a_query_asks_only_for_the_segments_it_needs(
    server: SmallS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with tr.open("s3://bucket/store") as store:
        _fill(store)
    server.requests.clear()
    monkeypatch.setenv("TREERING_CACHE", str(tmp_path / "cold"))
    with tr.open("s3://bucket/store", "r") as store:
        assert not [path for _, path in server.requests if "/seg/" in path]
        # Manifests and log are listed; root, lists of segments and of positions, and the log's header are read.
        assert len(server.requests) <= 8
        server.requests.clear()
        # A look lists manifests and log anew, and reads what is needed of one segment in seven.
        assert [row["n"] for row in store.query(ONE_MORNING).to_list()] == [0, 1, 2]
        asked = [(method, path.split("/")[4]) for method, path in server.requests if "/seg/" in path]
        assert len(set(asked)) == 1 and len(asked) <= 4
        assert len(server.requests) <= 8
        assert sum(part.is_stored for part in store._ring.snapshot().parts) >= 4
    server.requests.clear()
    with tr.open("s3://bucket/store", "r") as store:
        assert len(store.query(ONE_MORNING)) == 3
    assert not [path for _, path in server.requests if "/seg/" in path], "all is kept"


def test_deleted_events_are_gone_at_once_and_their_files_after_the_grace_period(server: SmallS3) -> None:
    with tr.open("s3://bucket/store") as store:
        _fill(store)
        old = {key for key in server.objects if "/seg/" in key}
        store.delete("level = error")
        with tr.open("s3://bucket/store", "r") as reader:
            assert {row["level"] for row in reader.query("").to_list()} == {"info", "warn"}
        # A reader that cannot be seen may still need them.
        assert old <= set(server.objects)
        files = store._ring._files
        assert isinstance(files, ObjectFiles)
        files._grace *= 0
        store.expire(older_than="1h", now="2026-06-01T00:00:00Z")
        assert not old & set(server.objects)
        assert store.query("").to_list() == []


def test_stats_tell_the_bytes_in_the_bucket(server: SmallS3) -> None:
    with tr.open("s3://bucket/store") as store:
        _fill(store)
        told = store.stats()
    assert told["path"] == "s3://bucket/store"
    assert told["bytes"]["hot"] == sum(len(v) for k, v in server.objects.items() if k.endswith("hot.arrow"))


def test_a_query_whose_version_expires_goes_on_with_the_newest_and_says_so(server: SmallS3) -> None:
    with tr.open("s3://bucket/store") as writer:
        _fill(writer)
        reader = tr.open("s3://bucket/store", "r")
        snapshot, real = reader._ring.snapshot(), reader._ring.snapshot
        files = writer._ring._files
        assert isinstance(files, ObjectFiles)
        files._grace *= 0
        writer.delete("level = error")
        given = iter([snapshot])
        reader._ring.snapshot = lambda: next(given, None) or real()  # type: ignore[method-assign]
        result = reader.query("count by level")
        assert {row["level"]: row["count"] for row in result.to_list()}.keys() == {"info", "warn"}
        assert [hint for hint in result.meta["hints"] if "has expired" in hint]
        reader.close()


def test_a_segment_file_that_is_lost_is_damage(server: SmallS3) -> None:
    with tr.open("s3://bucket/store") as store:
        _fill(store)
    for key in [key for key in server.objects if key.endswith("hot.arrow")]:
        del server.objects[key]
    with tr.open("s3://bucket/store", "r") as store, pytest.raises(DamageError, match=r"hot.arrow: gone"):
        store.query("n > 0").to_list()


def test_the_address_may_come_from_the_environment(server: SmallS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREERING_STORE", "s3://bucket/store")
    with tr.open() as store:
        assert str(store.path) == "s3://bucket/store"
    with pytest.raises(ConfigError, match="expected s3://BUCKET/PREFIX"):
        tr.open("s3://")
