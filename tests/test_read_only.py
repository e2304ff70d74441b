"""Reading changes nothing on disk and needs no right to: on a read-only mount, in a copy, through any path."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from tests.kernel import run
from tests.storage.records import decode, position, raw_batch, reject, stored_numbers
from treering.storage.files import Handle, Lock, OsFiles
from treering.storage.ring import Ring

ROWS = 40


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with segments, an open log and rejects."""
    path = tmp_path_factory.mktemp("made") / "ring"
    log = path.parent / "app.jsonl"
    lines = [
        json.dumps({"ts": 1_777_593_600_000 + n, "id": n, "message": f"request {n}"}) for n in range(ROWS)
    ]
    log.write_text("\n".join([*lines[:30], "{broken", *lines[30:]]), encoding="utf-8")
    with tr.open(path) as store:
        store.ingest(log, embed=False)
        store.flush()
    return path


def state_of(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every name below a directory with its times and bytes."""
    return {
        str(p.relative_to(path)): (
            p.stat().st_mtime_ns,
            p.stat().st_mode,
            p.read_bytes() if p.is_file() else b"",
        )
        for p in [path, *path.rglob("*")]
    }


def ask_everything(path: str | Path) -> list[Any]:
    with tr.open(path, "r") as store:
        ids = sorted(row["id"] for row in store.query("fields id"))
        return [
            ids,
            len(store.fields()),
            store.stats()["rows"],
            store.sql("select count(*) as n from events").to_pylist(),
            [reject.record for reject in store.rejects()],
            store.query("count by id").to_list(),
            store.explain("id >= 10").exact,
        ]


PROGRAM = """
import sys, json, os
from tests.test_read_only import ask_everything
print(json.dumps(ask_everything(sys.argv[1]), default=str))
"""


def said(answer: list[Any]) -> Any:
    return json.loads(json.dumps(answer, default=str))


def test_reading_changes_no_byte_and_no_time(made: Path) -> None:
    before = state_of(made)
    answer = ask_everything(made)
    assert answer[0] == list(range(ROWS))
    assert state_of(made) == before


def test_a_copied_directory_is_read_without_its_lock_file(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "copy")
    (tmp_path / "copy" / "LOCK").unlink()
    before = state_of(tmp_path / "copy")
    assert ask_everything(tmp_path / "copy") == ask_everything(made)
    assert state_of(tmp_path / "copy") == before


def test_links_and_relative_paths_lead_to_the_store(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(made)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "there").symlink_to(Path("..") / "link")
    monkeypatch.chdir(tmp_path)
    for path in ("link", "./link", "deep/there", "deep/../link", tmp_path / "deep" / "there"):
        assert ask_everything(path) == ask_everything(made)


def test_a_relative_path_means_the_same_after_a_change_of_directory(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made.parent)
    with tr.open(made.name, "r") as store:
        monkeypatch.chdir(tmp_path)
        assert len(store.query("fields id")) == ROWS
        assert len(list(store.rejects())) == 1


def test_a_name_with_spaces_and_other_letters_is_a_path(made: Path, tmp_path: Path) -> None:
    place = tmp_path / "Jahres ring's \u5e74\u8f2a"
    shutil.copytree(made, place)
    assert ask_everything(place) == ask_everything(made)


def test_a_read_only_mount_is_read(made: Path) -> None:
    mounts = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; ! touch "$1/probe" 2>/dev/null'
    done = run(PROGRAM, made, mounts=mounts)
    assert json.loads(done.stdout) == said(ask_everything(made))


def test_writing_to_a_read_only_mount_says_what_to_do(made: Path) -> None:
    program = """
import sys, treering as tr
try:
    tr.open(sys.argv[1])
except tr.StoreError as error:
    print(error)
"""
    done = run(program, made, mounts='mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"')
    assert "Read-only file system" in done.stdout
    assert "open the store to read" in done.stdout
    assert done.stdout.count("\n") == 1


def test_a_read_only_file_system_takes_a_backup_elsewhere(made: Path, tmp_path: Path) -> None:
    program = """
import sys, treering as tr
with tr.open(sys.argv[1], "r") as store:
    print(store.backup(sys.argv[2]).events)
"""
    mounts = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"'
    assert run(program, made, tmp_path / "copy", mounts=mounts).stdout == f"{ROWS}\n"
    assert ask_everything(tmp_path / "copy") == ask_everything(made)


@pytest.fixture
def foreign(made: Path) -> Iterator[Path]:
    """A store that this user, or user 65534 if this is root, may read but not change, where that user gets to."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "ring"
        shutil.copytree(made, path)
        Path(place).chmod(0o755)
        for one in [path, *path.rglob("*")]:
            if os.geteuid() == 0:
                os.chown(one, 65534, 65534)
            one.chmod(0o500 if one.is_dir() else 0o400)
        yield path
        for one in [path, *path.rglob("*")]:
            one.chmod(0o700)


AS_NOBODY = """
import os, sys, json, warnings
import treering as tr, treering.query.store, treering.query.execute, treering.query.sql, duckdb
from tests.test_read_only import ask_everything
ask_everything(sys.argv[2])  # loads what it needs, which the other user may not
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""


def test_a_store_is_read_by_who_may_not_write_it(made: Path, foreign: Path) -> None:
    before = state_of(foreign)
    program = AS_NOBODY + "print(json.dumps(ask_everything(sys.argv[1]), default=str))"
    assert json.loads(run(program, foreign, made).stdout) == said(ask_everything(made))
    assert state_of(foreign) == before


def test_who_may_not_write_a_store_is_told_so(made: Path, foreign: Path) -> None:
    program = AS_NOBODY + "\ntry:\n    tr.open(sys.argv[1])\nexcept tr.StoreError as error:\n    print(error)"
    said = run(program, foreign, made).stdout
    assert "Permission denied" in said and "give yours the rights" in said
    assert said.count("\n") == 1


def test_who_may_not_read_a_store_is_told_so(made: Path, foreign: Path) -> None:
    (foreign / "_manifest").chmod(0o000)
    program = (
        AS_NOBODY + '\ntry:\n    tr.open(sys.argv[1], "r")\nexcept tr.StoreError as error:\n    print(error)'
    )
    said = run(program, foreign, made).stdout
    assert "Permission denied" in said and "_manifest" in said
    assert said.count("\n") == 1


# -- the seam ---------------------------------------------------------------------------------------------------------


class ReadOnlyFiles(OsFiles):
    """Files on which every change fails, and so does a lock that is more than shared."""

    def create(self, path: Path) -> Handle:
        raise AssertionError(f"create {path}")

    def append(self, path: Path) -> Handle:
        raise AssertionError(f"append {path}")

    def mkdir(self, path: Path) -> None:
        raise AssertionError(f"mkdir {path}")

    def fsync_dir(self, path: Path) -> None:
        raise AssertionError(f"fsync_dir {path}")

    def link(self, source: Path, target: Path) -> None:
        raise AssertionError(f"link {target}")

    def rename(self, source: Path, target: Path) -> None:
        raise AssertionError(f"rename {target}")

    def unlink(self, path: Path) -> None:
        raise AssertionError(f"unlink {path}")

    def rmtree(self, path: Path) -> None:
        raise AssertionError(f"rmtree {path}")

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        assert not exclusive, f"lock {path}"
        return super().lock(path, exclusive=False)


def test_a_reader_makes_no_changing_call(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    with Ring.open(path, decoder=decode) as ring:
        ring.append(raw_batch(range(5)), positions=[position(5)], rejects=[reject(1)])
        ring.flush()
        ring.append(raw_batch(range(5, 9)), rejects=[reject(2)])
        with Ring.open(path, "r", decoder=decode, files=ReadOnlyFiles()) as looking:
            assert stored_numbers(looking) == list(range(9))
            assert list(looking.rejects()) == [reject(1), reject(2)]
            assert looking.position("source") == position(5)
            assert len(looking.unfinished()) == 1
            ring.flush()
            assert stored_numbers(looking) == list(range(9))


def test_every_changing_call_of_the_seam_is_watched() -> None:
    reading = {"listdir", "size", "read", "map", "lock"}
    calls = {name for name in vars(OsFiles) if not name.startswith("_")}
    assert calls - reading == set(vars(ReadOnlyFiles)) - {"lock"} - {
        n for n in vars(ReadOnlyFiles) if n[0] == "_"
    }
