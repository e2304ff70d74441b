"""Answers into files: whole or not at all, and one line that names what is wrong with the target."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import treering as tr
from treering.query.duck import calculator, fetch_arrow
from treering.query.new_file import new_file
from treering.query.store import Store
from treering.storage.errors import ConfigError, QueryError, ShortageError, StoreError

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tr.open(tmp_path / "ring") as one:
        one.ingest([{"ts": 1_777_593_600 + n, "n": n, "text": f"row {n}"} for n in range(50)], embed=False)
        yield one


def test_a_path_and_a_binary_file_take_every_row(store: Store, tmp_path: Path) -> None:
    assert store.export("n < 5", tmp_path / "a.parquet") == 5
    assert pq.read_table(tmp_path / "a.parquet")["n"].to_pylist() == [0, 1, 2, 3, 4]
    held = io.BytesIO()
    assert store.export("n < 5 fields n", held, format="jsonl") == 5
    assert held.getvalue().splitlines() == [b'{"n":%d}' % n for n in range(5)]


def test_a_path_that_cannot_be_written_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "held.jsonl").mkdir()
    (tmp_path / "file").write_text("x")
    for target, what in (
        (tmp_path / "nope" / "x.jsonl", f"there is no directory {tmp_path / 'nope'}; make it first"),
        (tmp_path / "held.jsonl", "Is a directory"),
        (tmp_path / "file" / "x.jsonl", "Not a directory"),
        (tmp_path / ("x" * 300 + ".jsonl"), "File name too long; give a shorter path"),
    ):
        with pytest.raises(StoreError) as caught:
            store.export("*", target)
        assert str(caught.value) == f"{target}: cannot be written: {what}"


@pytest.mark.parametrize("target", [None, 5, ["x.jsonl"]])
def test_what_is_no_target_is_named(store: Store, target: Any) -> None:
    with pytest.raises(ConfigError, match=r"^target is .*, expected a path or a file open for bytes$"):
        store.export("*", target, format="jsonl")


def test_a_file_open_for_text_is_refused_with_the_fix(store: Store, tmp_path: Path) -> None:
    with (tmp_path / "x.jsonl").open("w") as file, pytest.raises(ConfigError, match="open it with mode 'wb'"):
        store.export("*", file, format="jsonl")


def test_arguments_of_a_wrong_type_are_named(store: Store) -> None:
    number: Any = 5
    with pytest.raises(ConfigError, match=r"^older_than is 5, expected a duration such as '30d'$"):
        store.expire(older_than=number)
    nothing: Any = None
    with pytest.raises(QueryError, match="SQL is text, not NoneType"):
        store.sql(nothing)
    wrong: Any
    for wrong in (5, ["n"], {1: 2}):
        with pytest.raises(QueryError, match=r"^params is .*, expected a dict such as"):
            store.query("n = $n", params=wrong)


def test_what_stood_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), new_file(place) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("out", b"old")]
    with new_file(place) as file:
        file.write(b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("out", b"new")]


def test_errors_of_other_files_and_a_reader_that_left_pass(tmp_path: Path) -> None:
    for error in (PermissionError(13, "Permission denied", "/elsewhere"), BrokenPipeError(32, "Broken pipe")):
        with pytest.raises(type(error)) as caught, new_file(tmp_path / "out"):
            raise error
        assert caught.value is error


LIMITED = """
import resource, sys
import treering as tr

store = tr.open(sys.argv[1], mode="r")
for ending in ("jsonl", "csv", "parquet", "arrow"):
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    try:
        store.export("*", f"out.{ending}")
    except tr.StoreError as error:
        print(error)
"""


def test_a_limit_on_file_sizes_is_told_with_the_file(store: Store, tmp_path: Path) -> None:
    store.flush()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "ring")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    advice = "cannot be written: File too large; raise the limit on file sizes (`ulimit -f`) and do it again"
    assert done.stdout.splitlines() == [
        f"out.{ending}: {advice}" for ending in ("jsonl", "csv", "parquet", "arrow")
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["ring"]


def test_statistics_beyond_the_memory_say_so_in_one_line() -> None:
    import duckdb

    connection = duckdb.connect(":memory:", config={"memory_limit": "1MB"})
    try:
        with pytest.raises(ShortageError, match=r"^memory ran out while DuckDB computed") as caught:
            fetch_arrow(
                connection, "SELECT i, count(*) FROM range(5_000_000) t(i) GROUP BY i ORDER BY hash(i)"
            )
    finally:
        connection.close()
    assert "\n" not in str(caught.value)
    assert fetch_arrow(calculator(), "SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_sql_beyond_the_memory_is_no_error_of_the_query(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    monkeypatch.setattr(
        "treering.query.sql.connect", lambda: duckdb.connect(":memory:", config={"memory_limit": "1MB"})
    )
    with pytest.raises(ShortageError):
        store.sql("SELECT i, count(*) FROM range(5_000_000) t(i) GROUP BY i ORDER BY hash(i)")
    with pytest.raises(QueryError, match="SQL: "):
        store.sql("SELECT nothing FROM events")
