"""`treering reembed`: a store moved to another model and back, and what is said on the way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from tests.indexer.test_other_model import folder as tiny  # noqa: F401
from treering.indexer.model import DEFAULT_NAME
from treering.query.progress import Step
from treering.storage.errors import ModelError

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
NEAREST = '~ "the disk is full" top 2'


def write_log(path: Path) -> str:
    texts = ["no space left on device", "user logged in", "the link to the gpu was lost", "a request came"]
    lines = [
        json.dumps({"timestamp": f"2026-03-17T10:00:{at:02d}Z", "message": text})
        for at, text in enumerate(texts)
    ]
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


def facts(call: Run) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(call("stats", "--json").stdout)
    return said


def test_it_says_which_option_is_missing(call: Run, tmp_path: Path) -> None:
    done = call("reembed")
    assert done.returncode == 2 and b"--model NAME" in done.stderr
    assert not (tmp_path / ".treering").exists()


def test_given_vectors_are_not_lost_unasked(call: Run, tmp_path: Path) -> None:
    with tr.open(tmp_path / ".treering") as store:
        store.append([{"message": "a", "vector": [1.0, 0.0]}], vector="vector")
    done = call("reembed", "--model", "no/such/model")
    assert done.returncode == 4 and b"--yes" in done.stderr
    assert b"no move" in call("reembed", "--abort").stderr


@pytest.mark.model
def test_a_store_is_moved_and_answers_with_the_model_that_it_has(
    call: Run,
    tmp_path: Path,
    tiny: Path,  # noqa: F811
) -> None:
    assert call("ingest", write_log(tmp_path / "a.jsonl")).returncode == 0
    answer = call("query", NEAREST, "--format", "jsonl").stdout
    old = facts(call)
    assert b"no space left" in answer.splitlines()[0]

    stopped = call("reembed", "--model", str(tiny), "--budget", "0", "--json")
    assert stopped.returncode == 0 and b"run it again" in stopped.stderr
    assert not json.loads(stopped.stdout)["finished"]
    assert (
        facts(call)["model"] == old["model"] and call("query", NEAREST, "--format", "jsonl").stdout == answer
    )

    with tr.open(tmp_path / ".treering", "r", model=str(tiny)) as reader:
        with pytest.raises(ModelError, match=DEFAULT_NAME):
            reader.query(NEAREST)
        moved = json.loads(call("reembed", "--model", str(tiny), "--json").stdout)
        assert moved["finished"] and moved["was_moved"] and moved["texts"] == 4
        assert len(list(reader.query(NEAREST))) == 2  # the reader saw that the model is another now
        now = facts(call)
        assert (now["model"], now["rows"], now["reembed"]) == (moved["new"], 4, None)
        assert now["written"]["reembed"] > 0

        refused = call("query", NEAREST)
        assert refused.returncode == 4 and b"treering reembed" in refused.stderr
        assert call("query", NEAREST, "--model", str(tiny)).returncode == 0

        again = call("reembed", "--model", str(tiny))
        assert b"nothing to move" in again.stderr
        assert call("reembed", "--model", DEFAULT_NAME).returncode == 0
        with pytest.raises(ModelError, match=DEFAULT_NAME):
            reader.query(NEAREST)
    assert call("query", NEAREST, "--format", "jsonl").stdout == answer
    assert [json.loads(line)["action"] for line in call("audit", "--json").stdout.splitlines()] == [
        "reembed",
        "reembed",
    ]


@pytest.mark.model
def test_how_far_it_is_can_be_seen_and_it_can_be_dropped(
    call: Run,
    tmp_path: Path,
    tiny: Path,  # noqa: F811
) -> None:
    call("ingest", write_log(tmp_path / "a.jsonl"))

    def stop(step: Step) -> None:
        if step.stage == "copy":
            raise KeyboardInterrupt

    with tr.open(tmp_path / ".treering") as store, pytest.raises(KeyboardInterrupt):
        store.reembed(str(tiny), progress=stop)
    state = facts(call)["reembed"]
    assert state["model"].startswith("tiny@")
    assert (state["events"], state["events_in_all"], state["texts_waiting"]) == (4, 4, 4)
    assert json.loads(call("reembed", "--abort", "--json").stdout) == {"dropped": True}
    assert facts(call)["reembed"] is None and not (tmp_path / ".treering" / "reembed").exists()
