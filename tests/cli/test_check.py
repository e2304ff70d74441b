"""`check` as people meet it: what it says of a whole store, of a damaged one, and what it does about that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import treering
from tests.cli.conftest import Done

Call = Callable[..., Done]


@pytest.fixture(autouse=True)
def ring(tmp_path: Path, call: Call) -> Path:
    """A store of 1,200 events in one segment, with every derived file."""
    rows = [
        {
            "ts": f"2026-05-01T00:{i // 60:02}:{i % 60:02}Z",
            "msg": f"line {i}",
            "trace_id": f"{i:032x}",
            "n": i,
        }
        for i in range(1200)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("ingest", "--no-embed", "-q", "a.jsonl").returncode == 0
    return tmp_path / ".treering"


def harmed(ring: Path, kind: str) -> Path:
    """Flip a bit in the middle of a file of the segment."""
    path = min(ring.glob(f"seg/*/{kind}.arrow"))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    return path.relative_to(ring)


def numbers(call: Call) -> list[int]:
    return [json.loads(line)["n"] for line in call("query", "fields n").stdout.splitlines()]


def test_of_a_whole_store_it_says_so_and_the_audit_head(call: Call) -> None:
    for args in ((), ("--deep",)):
        done = call("check", *args)
        lines = done.stdout.decode().splitlines()
        assert done.returncode == 0 and done.stderr == b""
        assert lines[0].startswith("1,200 events in 1 segment, ") and lines[0].endswith("all is right")
        assert lines[1] == "audit head (no record yet)"
    call("delete", "--yes", "--no-embed", "n = 7")
    audit = json.loads(call("audit").stdout)
    assert call("check").stdout.decode().splitlines()[-1] == f"audit head {audit['hash']}"


def test_damage_is_named_with_what_it_costs_and_what_to_do(call: Call, ring: Path) -> None:
    name = harmed(ring, "hot")
    assert call("check").returncode == 0
    done = call("check", "--deep")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 4
    assert lines[0].startswith(f"damaged  {name}: its crc32c is ")
    assert lines[0].endswith(
        "1,200 events from 2026-05-01T00:00:00.000000000Z to 2026-05-01T00:19:59.000000000Z out of reach"
    )
    assert "--salvage" in lines[1]
    assert lines[2].endswith("1 damaged, 1,200 events out of reach")
    report = json.loads(call("check", "--deep", "--json").stdout)
    (found,) = report["findings"]
    assert (report["clean"], report["events_out_of_reach"]) == (False, 1200)
    assert (found["severity"], found["file"], found["events"]) == ("damaged", str(name), 1200)


def test_a_repair_mends_what_follows_from_other_files(call: Call, ring: Path) -> None:
    name = harmed(ring, "post")
    assert call("check", "--deep").returncode == 4
    done = call("check", "--repair")
    assert done.returncode == 0
    assert done.stdout.decode().splitlines()[0] == f"mended  {name.parent}: made anew as post-0001.arrow"
    assert call("check", "--deep").returncode == 0
    assert [json.loads(line)["action"] for line in call("audit").stdout.splitlines()] == ["repair"]
    assert numbers(call) == list(range(1200))
    # A second one has nothing to do, and leaves no record.
    assert call("check", "--repair").returncode == 0
    assert len(call("audit").stdout.splitlines()) == 1


def test_a_repair_leaves_what_is_out_of_reach_and_says_so(call: Call, ring: Path) -> None:
    harmed(ring, "text")
    assert call("check", "--repair", "--deep").returncode == 4
    (root,) = ring.glob("_manifest/*.json")
    root.write_bytes(b"")
    done = call("check", "--repair")
    assert done.returncode == 4 and b"--salvage" in done.stderr


def test_a_salvage_keeps_what_can_be_read_and_says_what_is_lost(call: Call, ring: Path) -> None:
    name = harmed(ring, "text")
    done = call("check", "--salvage", "--yes")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert any(line.startswith("lost  seg/") and "column record of 1,200 events" in line for line in lines)
    aside = next(line for line in lines if line.startswith("put aside")).rpartition(" ")[2]
    assert (Path(aside) / name).exists()
    assert numbers(call) == list(range(1200))
    report = json.loads(call("check", "--json").stdout)
    assert report["clean"] and [one["severity"] for one in report["findings"]] == ["note"]


def test_a_store_that_does_not_open_is_salvaged(call: Call, ring: Path) -> None:
    (root,) = ring.glob("_manifest/*.json")
    root.write_bytes(root.read_bytes()[:-9])
    assert call("query", "count").returncode == 4
    done = call("check", "--salvage", "--yes", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["losses"] == []
    assert numbers(call) == list(range(1200))
    # What was loaded is still known.
    assert b"accepted 0" in call("ingest", "--no-embed", "a.jsonl").stderr


def test_a_healthy_store_and_no_store_are_not_salvaged(call: Call, tmp_path: Path) -> None:
    done = call("check", "--salvage", "--yes")
    assert done.returncode == 4 and b"nothing of it is out of reach" in done.stderr
    for args in ((), ("--repair",), ("--salvage", "--yes")):
        done = call("-s", "elsewhere", "check", *args)
        assert done.returncode == 4 and b"no treering store there" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_in_a_pipe_a_salvage_wants_to_be_sure(treering: Call, ring: Path) -> None:
    harmed(ring, "hot")
    done = treering("check", "--salvage", stdin=b"y\n")
    assert done.returncode == 2 and b"say --yes" in done.stderr
    assert treering("check", "--repair", "--salvage").returncode == 2


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 130)])
def test_on_a_terminal_it_shows_the_damage_and_asks(
    answered: Call, ring: Path, answer: bytes, code: int
) -> None:
    name = harmed(ring, "vec")
    done = answered("check", "--salvage", answer=answer)
    assert f"damaged  {name}".encode() in done.stderr and b"put aside what is damaged?" in done.stderr
    assert done.returncode == code
    assert (ring / "salvaged").exists() == (code == 0)


def test_the_same_from_python(ring: Path) -> None:
    steps: list[Any] = []
    report = treering.check(ring, deep=True, progress=steps.append)
    assert report.is_clean and report.events == 1200
    assert steps[-1].stage == "check" and steps[-1].done == steps[-1].total
    with treering.open(ring, "r") as store:
        assert store.check(deep=True).is_clean
        with pytest.raises(treering.StoreError, match="open to read"):
            store.check(repair=True)
    harmed(ring, "patt")
    with treering.open(ring) as store:
        assert not store.check(deep=True).is_clean
        assert store.check(repair=True).repairs
        assert store.check(deep=True).is_clean
    with pytest.raises(treering.ConfigError, match="choose one"):
        treering.check(ring, repair=True, salvage=True)


def test_what_is_put_aside_no_erasure_reaches_and_says_so(call: Call, ring: Path) -> None:
    harmed(ring, "vec")
    call("check", "--salvage", "--yes")
    done = call("delete", "--yes", "--no-embed", "n = 3")
    assert b"not erased from every file" in done.stderr and b"salvaged/" in done.stderr
