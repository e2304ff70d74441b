"""`delete`, `expire` and `audit` as people meet them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done
from tests.storage.words import files_with

Call = Callable[..., Done]


@pytest.fixture(autouse=True)
def ring(tmp_path: Path, call: Call) -> Path:
    """A store of six events of two users, and a rejected record."""
    rows = [
        {"ts": f"2026-05-01T00:00:0{i}Z", "msg": f"line {i}", "user": ("zqalice", "bob")[i % 2], "n": i}
        for i in range(6)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"zqalice\n'
    (tmp_path / "a.jsonl").write_text(text)
    assert call("ingest", "--no-embed", "a.jsonl").returncode == 3
    return tmp_path / ".treering"


def count(call: Call) -> int:
    return int(json.loads(call("query", "count").stdout)["count"])


def test_a_deletion_says_what_went_and_is_done(call: Call, ring: Path) -> None:
    done = call("delete", "--yes", "--no-embed", "user = $u or body has $u", "--param", "u=zqalice")
    assert done.returncode == 0 and done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert lines[0] == "3 events and 1 rejected record in 1 segment gone"
    assert lines[-1].startswith("receipt ") and lines[-1].endswith("erased from every file")
    assert count(call) == 3 and call("rejects").stdout == b""
    assert files_with(ring, "zqalice") == set()


def test_the_receipt_is_one_json_object(call: Call) -> None:
    done = call("delete", "--yes", "--json", "-q", "--no-embed", "n > 3")
    receipt = json.loads(done.stdout)
    assert (receipt["events"], receipt["erased"], receipt["is_dry_run"]) == (2, True, False)
    assert done.stderr == b""
    (record,) = map(json.loads, call("audit").stdout.splitlines())
    assert record["details"]["id"] == receipt["id"] and record["hash"] == receipt["audit_hash"]


def test_a_dry_run_shows_three_and_changes_nothing(call: Call) -> None:
    done = call("delete", "--dry-run", "n > 1")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "4 events in 1 segment would go"
    assert lines[1] == "from 2026-05-01T00:00:02.000000000Z to 2026-05-01T00:00:05.000000000Z"
    assert [json.loads(line)["n"] for line in lines[2:]] == [2, 3, 4]
    assert json.loads(call("delete", "--dry-run", "--json", "n > 1").stdout)["events"] == 4
    assert count(call) == 6


@pytest.mark.parametrize("verb", ["delete", "expire"])
def test_in_a_pipe_a_condition_wants_to_be_sure(treering: Call, verb: str) -> None:
    done = treering(verb, "n > 1", stdin=b"y\n")
    assert done.returncode == 2 and b"say --yes" in done.stderr
    assert count(treering) == 6


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", 2), (b"n\n", 6), (b"\n", 6)])
def test_on_a_terminal_it_shows_what_would_go_and_asks(
    answered: Call, call: Call, answer: bytes, left: int
) -> None:
    done = answered("delete", "--no-embed", "n > 1", answer=answer)
    said = done.stderr.replace(b" ", b"")
    assert b"4events" in said and b'"n":2' in said and b"Erasethemforgood?" in said
    assert done.returncode == (0 if left == 2 else 130)
    assert count(call) == left


def test_what_is_no_condition_is_refused_with_a_caret(call: Call) -> None:
    done = call("delete", "--yes", "n > 1 limit 2")
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1] == "        ^"
    assert call("delete", "--yes", "").returncode == 2
    assert count(call) == 6


def test_an_expiry_by_rule_asks_nobody(call: Call) -> None:
    done = call("expire", "--older-than", "1h", "--now", "2026-05-01T01:00:04Z", "--no-embed")
    assert done.returncode == 0 and done.stderr.startswith(b"4 events")
    assert count(call) == 2
    assert call("expire", "--max-bytes", "0").returncode == 0
    assert count(call) == 0
    assert call("expire").returncode == 2
    assert call("expire", "--older-than", "1h", "--max-bytes", "1GB").returncode == 2
    assert call("expire", "--max-bytes", "lots").returncode == 2


def test_the_audit_is_checked_against_a_head_that_was_kept(call: Call, ring: Path) -> None:
    call("delete", "--yes", "--no-embed", "n = 1")
    checked = call("audit", "--verify")
    head = checked.stderr.decode().split()[-1]
    assert checked.returncode == 0 and len(head) == 64
    call("delete", "--yes", "--no-embed", "n = 2")
    assert call("audit", "--head", head).returncode == 0
    failed = call("audit", "--head", "0" * 64)
    assert failed.returncode == 4 and b"no record has the hash" in failed.stderr


def test_nothing_is_made_where_there_is_no_store(call: Call, tmp_path: Path) -> None:
    for verb in (
        *(("delete", "--yes", "n = 1"), ("expire", "--older-than", "1d")),
        *(("compact",), ("embed",), ("reembed", "--abort"), ("reembed", "--model", "some-model")),
    ):
        done = call("-s", "elsewhere", *verb)
        assert done.returncode == 4 and b"no treering store there" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.model
def test_vectors_of_what_went_are_made_again(call: Call, tmp_path: Path, model_files: object) -> None:
    assert call("embed").returncode == 0
    done = call("delete", "--yes", "n = 0")
    assert b"made again of what is left: 1 vector\n" in done.stderr
    assert json.loads(call("stats").stdout)["pending"] == 0
