"""The verbs over a real store."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treering.cli.main import run
from treering.storage.ring import Ring

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

EVENTS: list[dict[str, Any]] = [
    {
        "timestamp": f"2026-03-17T10:{i // 60:02d}:{i % 60:02d}.000000{i:03d}Z",
        "id": i,
        "model": ["llama", "qwen"][i % 2],
        "message": f"request {i} 已完成" if i % 3 else "KV cache is out of blocks",
        "latency": {"total_s": i / 100},
        "score": None if i % 10 == 0 else i / 300,
    }
    for i in range(300)
]


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the events that was made once; each test gets a copy."""
    directory = tmp_path_factory.mktemp("ingested")
    lines = [json.dumps(event, ensure_ascii=False) for event in EVENTS]
    (directory / "app.jsonl").write_text("".join(line + "\n" for line in lines), "utf-8")
    assert (
        run(["-s", str(directory / "ring"), "-q", "ingest", "--no-embed", str(directory / "app.jsonl")]) == 0
    )
    return directory


@pytest.fixture
def logs(ingested: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(ingested / "app.jsonl", tmp_path))


@pytest.fixture
def store(ingested: Path, logs: Path) -> Path:
    return Path(shutil.copytree(ingested / "ring", logs.parent / ".treering"))


def rows(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.decode().split("\n") if line]


# -- ingest ------------------------------------------------------------------------------------------


def test_ingest_json_is_one_object(treering: Run, logs: Path) -> None:
    done = treering("ingest", "--no-embed", "--json", str(logs))
    summary = json.loads(done.stdout)
    assert done.returncode == 0
    assert (summary["accepted"], summary["rejected"]) == (300, 0)
    assert summary["pending"] > 0


def test_ingest_ends_with_one_summary_line(call: Run, logs: Path) -> None:
    said = call("ingest", "--no-embed", str(logs)).stderr.decode()
    assert said.startswith("accepted 300, rejected 0, joined 0, pending ")
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_the_same_bytes_are_taken_in_once_unless_again(call: Run, store: Path, logs: Path) -> None:
    done = call("ingest", "--no-embed", "--json", str(logs))
    assert json.loads(done.stdout)["accepted"] == 0
    assert rows(call("query", "count")) == [{"count": 300}]
    call("ingest", "--no-embed", "--again", str(logs))
    assert rows(call("query", "count")) == [{"count": 600}]


def test_bad_records_are_named_counted_kept_and_exit_with_3(call: Run, logs: Path) -> None:
    with logs.open("a") as file:
        file.write('{"id": 1, "torn": "\n' + '{"timestamp": "2026-03-17T11:00:00Z", "id": 301}\n')
    done = call("ingest", "--no-embed", str(logs))
    said = done.stderr.decode()
    assert done.returncode == 3
    assert f"{logs}:301: " in said
    assert "accepted 301, rejected 1" in said
    kept = rows(call("rejects"))
    assert [(r["source"], r["line"], r["record"]) for r in kept] == [(str(logs), 301, '{"id": 1, "torn": "')]


def test_ingest_reads_stdin(treering: Run, logs: Path) -> None:
    done = treering("ingest", "--no-embed", "-", stdin=logs.read_bytes())
    assert done.returncode == 0
    assert rows(treering("query", "count")) == [{"count": 300}]


@pytest.mark.parametrize(
    "name",
    [
        "logs (1).jsonl",
        "a'b\"c.jsonl",
        "semi;colon & $(echo x).jsonl",
        "percent%20s.jsonl",
        "été/日志.jsonl",
        "[2]new.jsonl",
    ],
)
def test_odd_file_names_load_and_read_back(call: Run, logs: Path, name: str) -> None:
    path = logs.parent / name
    path.parent.mkdir(exist_ok=True)
    logs.rename(path)
    assert call("ingest", "--no-embed", "--", name).returncode == 0
    assert rows(call("query", "count by source"))[0]["source"].endswith(name)


def test_a_name_with_a_leading_dash_needs_the_double_dash(call: Run, logs: Path) -> None:
    logs.rename(logs.parent / "-dash.jsonl")
    assert call("ingest", "--no-embed", "-dash.jsonl").returncode == 2
    assert call("ingest", "--no-embed", "--", "-dash.jsonl").returncode == 0


def test_a_missing_file_is_an_io_error(call: Run) -> None:
    done = call("ingest", "gone.jsonl")
    assert done.returncode == 4
    assert "gone.jsonl" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_own_field_names_are_mapped(call: Run, tmp_path: Path) -> None:
    (tmp_path / "rag.jsonl").write_text(
        '{"time": "2026-03-17T10:00:00Z", "answer": "forty two", "docs": ["a text"]}\n'
    )
    done = call("ingest", "--no-embed", "--map", "response=answer", "--map", "context=docs", "rag.jsonl")
    assert done.returncode == 0, done.stderr
    assert [r["answer"] for r in rows(call("query", 'response has "forty"'))] == ["forty two"]


def test_an_interrupt_leaves_a_valid_store(
    call: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Ring.append

    def interrupted(ring: Ring, *args: Any, **options: Any) -> int:
        append(ring, *args, **options)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the signal was swallowed")

    (tmp_path / "more.jsonl").write_text('{"timestamp": "2026-03-17T12:00:00Z", "id": 400}\n')
    with monkeypatch.context() as patch:
        patch.setattr(Ring, "append", interrupted)
        done = call("ingest", "--no-embed", "more.jsonl")
    assert (done.returncode, done.stderr) == (130, b"interrupted\n")
    assert rows(call("query", "count")) == [{"count": 301}]
    assert json.loads(call("ingest", "--no-embed", "--json", "more.jsonl").stdout)["accepted"] == 0


# -- query ------------------------------------------------------------------------------------------


def test_a_pipe_gets_json_lines_with_original_fields_and_nanoseconds(call: Run, store: Path) -> None:
    found = rows(call("query", "id = 7"))
    assert len(found) == 1
    assert found[0]["ts"] == "2026-03-17T10:00:07.000000007Z"
    assert {k: found[0][k] for k in ("id", "model", "message", "score")} == {
        k: EVENTS[7][k] for k in ("id", "model", "message", "score")
    }
    assert "已" in call("query", "id = 7").stdout.decode()


def test_times_are_shown_in_the_wanted_zone(call: Run, store: Path) -> None:
    assert (
        rows(call("query", "id = 7", "--tz", "Asia/Shanghai"))[0]["ts"]
        == "2026-03-17T18:00:07.000000007+08:00"
    )


def test_an_unknown_zone_is_refused(call: Run, store: Path) -> None:
    done = call("query", "id = 7", "--tz", "Mars/Olympus")
    assert done.returncode == 2
    assert b"Mars/Olympus" in done.stderr


def test_every_format_holds_every_row(call: Run, store: Path, tmp_path: Path) -> None:
    query = 'model = "qwen" fields id, message'
    expected = [{"id": e["id"], "message": e["message"]} for e in EVENTS if e["model"] == "qwen"]

    def out(format: str) -> bytes:
        done = call("query", query, "--format", format)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert [json.loads(line) for line in out("jsonl").decode().split("\n")[:-1]] == expected
    assert json.loads(out("json")) == expected
    assert [{**r, "id": int(r["id"])} for r in csv.DictReader(io.StringIO(out("csv").decode()))] == expected
    assert [line.split("\t")[0] for line in out("tsv").decode().split("\n")[1:-1]] == [
        str(e["id"]) for e in expected
    ]
    assert out("md").count(b"\n") == 152
    assert pq.read_table(io.BytesIO(out("parquet"))).select(["id", "message"]).to_pylist() == expected
    assert pa.ipc.open_file(out("arrow")).read_all().select(["id", "message"]).to_pylist() == expected
    assert len([line for line in out("table").decode().split("\n") if "完成" in line or "KV" in line]) == 150


def test_the_ending_picks_the_format(call: Run, store: Path, tmp_path: Path) -> None:
    for name in ("out.parquet", "out.csv", "out.jsonl.gz"):
        done = call("query", "*", "-o", name)
        assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 300
    assert (tmp_path / "out.csv").read_bytes().count(b"\n") == 301
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).count(b"\n") == 300


def test_a_display_limit_is_said_and_statistics_count_all(call: Run, store: Path) -> None:
    done = call("query", "*", "--limit", "5")
    assert len(rows(done)) == 5
    assert "showing 5 of 300" in done.stderr.decode()
    assert rows(call("query", "count", "--limit", "5")) == [{"count": 300}]


def test_no_rows_is_no_failure_unless_wanted(call: Run, store: Path) -> None:
    assert call("query", "id = 999").returncode == 0
    assert call("query", "id = 999", "--fail-empty").returncode == 1
    assert call("query", "id = 7", "--fail-empty").returncode == 0


def test_a_query_error_has_a_caret_and_exits_with_2(call: Run, store: Path) -> None:
    done = call("query", "id > > 3")
    said = done.stderr.decode().split("\n")
    assert done.returncode == 2
    assert said[0].startswith("error: 1:")
    assert said[1:3] == ["  id > > 3", "       ^"]


@pytest.mark.parametrize(
    "args", [["query", "*"], ["fields"], ["stats"], ["sql", "SELECT 1"], ["explain", "*"], ["rejects"]]
)
def test_reading_a_store_that_is_not_there_fails_with_4_and_makes_none(
    call: Run, tmp_path: Path, args: list[str]
) -> None:
    done = call("-s", "nowhere", *args)
    assert done.returncode == 4
    assert b"nowhere" in done.stderr
    assert not (tmp_path / "nowhere").exists()


def test_parameters_are_typed(call: Run, store: Path) -> None:
    assert rows(call("query", "id = $n", "--param", "n=7"))[0]["id"] == 7
    assert len(rows(call("query", "model = $m", "--param", "m=qwen"))) == 150
    assert len(rows(call("query", "model = $m", "--param", "m=x' OR 1=1 --"))) == 0


def test_a_parameter_of_any_number_of_digits_is_a_number(call: Run, store: Path) -> None:
    assert rows(call("query", "id < $n limit 2", "--param", f"n={'9' * 900}"))[1]["id"] == 1
    done = call("query", "id < $n", "--param", f"n={'9' * 5000}")
    assert done.returncode == 2 and b"$n is a number of more than 1000 digits" in done.stderr


def test_a_lock_names_the_verb_and_no_value(treering: Run, store: Path) -> None:
    done = treering(
        "-s", str(store), "--color", "never", "delete", "--yes", "id = $id", "--param", "id=12345"
    )
    assert done.returncode == 0
    told = json.loads((store / "LOCK").read_text())
    assert told["command"] == "treering delete"


def test_the_json_form_means_the_same(call: Run, store: Path) -> None:
    form = json.dumps({"filter": {"id": {">=": 290}}, "sort": [{"id": "desc"}], "limit": 3})
    assert [r["id"] for r in rows(call("query", "--json-query", form))] == [299, 298, 297]
    done = call("query", "--json-query", "{not json")
    assert (done.returncode, b"not JSON" in done.stderr) == (2, True)


def test_now_pins_the_clock(call: Run, store: Path) -> None:
    assert len(rows(call("query", "last 10s", "--now", "2026-03-17T10:01:00Z"))) == 10


def test_files_are_asked_without_a_store(call: Run, logs: Path) -> None:
    assert rows(call("query", '"out of blocks" count', str(logs))) == [{"count": 100}]
    assert len(rows(call("query", "last 10s", str(logs)))) == 10
    assert not (logs.parent / ".treering").exists()


def test_a_file_with_events_of_a_broken_clock_answers_and_says_so(call: Run, logs: Path) -> None:
    with logs.open("a") as file:
        file.write('{"timestamp": "2099-01-01T00:00:00Z", "id": 300}\n')
    done = call("query", "last 10s", str(logs), "--now", "2026-03-17T10:05:00Z")
    assert [row["id"] for row in rows(done)] == list(range(290, 300))
    assert b"hint: 1 event is dated more than 1h after 2026-03-17T10:05:00Z" in done.stderr


def test_explain_tells_the_plan(call: Run, store: Path) -> None:
    assert call("explain", "id > 3").stdout.startswith(b"exact\n")
    assert b"rows: 300 stored" in call("query", "id > 3", "--explain").stderr


def test_explain_json_needs_no_store_and_runs_again(call: Run, store: Path) -> None:
    form = call("-s", "nowhere", "explain", "--json", "id >= 290 sort by id desc limit 3").stdout.decode()
    assert [r["id"] for r in rows(call("query", "--json-query", form))] == [299, 298, 297]


def test_sql_reads_the_view(call: Run, store: Path) -> None:
    found = rows(call("sql", "SELECT model, count(*) AS n FROM events GROUP BY 1 ORDER BY 1"))
    assert found == [{"model": "llama", "n": 150}, {"model": "qwen", "n": 150}]
    assert call("sql", "SELEC 1").returncode == 2


def test_export_writes_all_rows(call: Run, store: Path, tmp_path: Path) -> None:
    done = call("export", "id < 10", "-o", "out.parquet")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 10
    assert call("export", "id < 10", "-o", "-", "--format", "csv").stdout.count(b"\n") == 11


def test_fields_and_stats_describe_the_store(call: Run, store: Path) -> None:
    fields = {field["name"]: field for field in rows(call("fields"))}
    assert fields["score"]["n"] == 270
    assert fields["score"]["fill"] == pytest.approx(0.9)
    stats = json.loads(call("stats").stdout)
    assert stats["rows"] == 300


def test_colour_codes_never_reach_a_pipe(treering: Run, store: Path) -> None:
    for format in ("jsonl", "table", "md"):
        assert b"\x1b" not in treering("query", "id < 3", "--format", format).stdout


def test_head_closes_the_pipe_quietly(environment: dict[str, str], store: Path) -> None:
    wide = ", ".join(f"message as m{i}" for i in range(30))  # more than a pipe holds
    command = [
        sys.executable,
        "-m",
        "treering",
        "query",
        f"fields id, {wide}",
    ]
    with subprocess.Popen(
        command, env=environment, cwd=store.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert (process.returncode, said) == (0, b"")


@pytest.mark.model
def test_the_demo_finds_its_incidents(treering: Run, tmp_path: Path) -> None:
    done = treering("demo", "--keep", "kept")
    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    assert "WRONG" not in text
    assert (tmp_path / "kept" / "logs" / "vllm").is_dir()
    assert rows(treering("-s", "kept/store", "query", "top-k attention-collapse | count")) == [{"count": 10}]
