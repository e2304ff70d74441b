"""One writer at a time: waiting for it, naming it, and what is left where the file system has no locks."""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.faults import Fault, FaultyFiles
from tests.storage.records import decode, fill, raw_batch, stored_numbers
from treering.storage.advice import NO_LOCKS
from treering.storage.errors import ConfigError, StoreError
from treering.storage.files import OS_FILES, Files, Lock, OsFiles
from treering.storage.locking import LONGEST_PAUSE_S, Holder, NoLock, Patience, hold_shared
from treering.storage.ring import Ring

REPOSITORY = Path(__file__).parents[2]


def writer(path: Path, files: Files = OS_FILES, patience: Patience | None = None) -> Ring:
    return Ring.open(path, decoder=decode, files=files, patience=patience or Patience())


def reader(path: Path, files: Files = OS_FILES) -> Ring:
    return Ring.open(path, "r", decoder=decode, files=files)


@dataclass
class FakeClock:
    """A clock that moves only while somebody sleeps, and does something once it is late enough."""

    at_s: float = math.inf
    act: Callable[[], None] = lambda: None
    now: float = 100.0
    pauses: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        if self.now >= self.at_s:
            self.at_s = math.inf
            self.act()

    def patience(self, wait_s: float) -> Patience:
        return Patience(wait_s, lambda: self.now, self.sleep)


def test_a_second_writer_waits_until_the_first_lets_go(tmp_path: Path) -> None:
    first = writer(tmp_path / "ring")
    first.append(raw_batch(range(3)))
    clock = FakeClock(at_s=107.0, act=first.close)
    with writer(tmp_path / "ring", patience=clock.patience(60.0)) as second:
        assert stored_numbers(second) == [0, 1, 2]
    assert 107.0 <= clock.now <= 107.0 + LONGEST_PAUSE_S
    assert clock.pauses == sorted(clock.pauses)
    assert max(clock.pauses) == LONGEST_PAUSE_S


def test_a_writer_that_waited_in_vain_says_so(tmp_path: Path) -> None:
    clock = FakeClock()
    with (
        writer(tmp_path / "ring"),
        pytest.raises(StoreError, match=rf"process {os.getpid()} writes to it .*, also after 2\.5 s"),
    ):
        writer(tmp_path / "ring", patience=clock.patience(2.5))
    assert sum(clock.pauses) == pytest.approx(2.5)


def test_a_lock_that_is_given_back_in_the_last_moment_is_taken(tmp_path: Path) -> None:
    first = writer(tmp_path / "ring")
    clock = FakeClock(at_s=105.0, act=first.close)
    writer(tmp_path / "ring", patience=clock.patience(5.0)).close()


def test_by_default_nobody_waits(tmp_path: Path) -> None:
    clock = FakeClock()
    with writer(tmp_path / "ring"), pytest.raises(StoreError, match="writes to it"):
        writer(tmp_path / "ring", patience=clock.patience(0.0))
    assert clock.pauses == []


@pytest.mark.parametrize("wait_s", [-1.0, math.nan, -math.inf])
def test_a_time_that_cannot_be_waited_is_refused(wait_s: float) -> None:
    with pytest.raises(ConfigError, match="give 0 or more"):
        Patience(wait_s)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/usr/bin/treering", "ingest", "a.jsonl"], "treering ingest"),
        (
            ["/usr/bin/treering", "-s", "X", "delete", "--yes", 'id = "77"', "--param", "id=77"],
            "treering delete",
        ),
        (["/usr/bin/treering", "-sX", "-q", "embed"], "treering embed"),
        (["/usr/bin/treering", "-qs", "X", "compact"], "treering compact"),
        (["/usr/bin/treering", "--store=X", "--model", "m", "--color", "never", "expire"], "treering expire"),
        (["/usr/bin/treering", "--debug", "--store", "compact", "reembed"], "treering reembed"),
        (["/x/treering/__main__.py", "-s", "X", "demo"], "treering demo"),
        (["/usr/bin/treering", "-s", "X"], "treering"),
        (["/x/load.py", "nightly", "secret"], "load.py nightly"),
        (["/x/load.py", "--password=secret"], "load.py"),
        (["/x/load.py", "id = 'secret'"], "load.py"),
        (["-c"], "-c"),
        ([], ""),
    ],
)
def test_a_holder_is_known_by_its_verb_and_never_by_values(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", arguments)
    assert Holder.me().command == said


def test_the_holder_is_named_with_host_time_and_command(tmp_path: Path) -> None:
    program = "import sys\nfrom treering.storage.ring import Ring\nfrom tests.storage.records import decode\n"
    program += "ring = Ring.open(sys.argv[2], decoder=decode)\nprint('open', flush=True)\nsys.stdin.read()\n"
    (tmp_path / "load.py").write_text(program)
    command = [sys.executable, str(tmp_path / "load.py"), "nightly", str(tmp_path / "ring")]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(StoreError) as caught:
            writer(tmp_path / "ring")
        process.stdin.close()
    said = str(caught.value)
    assert f"process {process.pid} writes to it (load.py nightly, on {platform.node()}, since 2" in said
    assert "--wait SECONDS" in said and "open it to read" in said
    told = json.loads((tmp_path / "ring" / "LOCK").read_text())
    assert told["pid"] == process.pid
    writer(tmp_path / "ring").close()  # the text of a writer that ended keeps nobody away


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"4711\n", "process 4711 writes to it;"),
        (b"", "another process writes to it;"),
        (b"\xff\x00garbage", "another process writes to it;"),
        (b'{"pid": "x", "host": 7, "since": null}', "another process writes to it;"),
        (
            b'{"pid": 5, "host": "h", "since": "t", "command": "c"}\n',
            "process 5 writes to it (c, on h, since t);",
        ),
        (b'["pid"]', "another process writes to it;"),
        (b"true", "another process writes to it;"),
        (b"[" * 5000, "another process writes to it;"),
    ],
)
def test_whatever_stands_in_the_lock_file_only_the_lock_counts(
    tmp_path: Path, text: bytes, said: str
) -> None:
    path = tmp_path / "ring"
    with writer(path):
        (path / "LOCK").write_bytes(text)
        with pytest.raises(StoreError) as caught:
            writer(path)
    assert said.replace(";", "") in str(caught.value)
    (path / "LOCK").write_bytes(text)
    writer(path).close()


@given(st.binary(max_size=200))
def test_any_text_can_be_read(data: bytes) -> None:
    assert "writes to it" in str(Holder.read(data))


@given(
    st.builds(
        Holder, st.integers(0, 2**31), *[st.text(max_size=20)] * 3
    )  # hosts and commands may be anything
)
def test_a_signature_comes_back(holder: Holder) -> None:
    assert Holder.read(holder.line()) == holder


def test_an_interrupt_while_signing_gives_the_lock_back(tmp_path: Path) -> None:
    writer(tmp_path / "ring").close()
    files = FaultyFiles(tmp_path, Fault(0, is_interrupt=True, among=("append",)))
    with pytest.raises(KeyboardInterrupt):
        writer(tmp_path / "ring", files)
    writer(tmp_path / "ring").close()


# -- file systems without locks ---------------------------------------------------------------------------------------


class WithoutLocks(OsFiles):
    """A file system that has no flock; before the next shared lock it does something."""

    def __init__(self, number: int, act: Callable[[], None] = lambda: None) -> None:
        self.number = number
        self.act = act

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        act, self.act = self.act, lambda: None
        act()
        raise OSError(self.number, os.strerror(self.number), str(path))


@pytest.mark.parametrize("number", sorted(NO_LOCKS))
def test_without_locks_readers_read_and_writers_refuse(tmp_path: Path, number: int) -> None:
    path = tmp_path / "ring"
    with writer(path) as ring:
        ring.append(raw_batch(range(3)))
        ring.flush()
        ring.append(raw_batch(range(3, 5)))
    with reader(path, WithoutLocks(number)) as ring:
        assert stored_numbers(ring) == list(range(5))
    with pytest.raises(StoreError, match=r"has no locks .* put it on one with flock, or open it to read"):
        writer(path, WithoutLocks(number))


def test_without_locks_a_reader_whose_files_vanish_follows_to_the_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    with writer(path) as ring:
        for end in (3, 6, 9, 12):
            ring.append(raw_batch(range(end - 3, end)))
            ring.flush()
        files = WithoutLocks(errno.ENOTSUP)
        with reader(path, files) as looking:
            files.act = lambda: fill(ring)  # the version that was found is gone before it is read
            assert stored_numbers(looking) == list(range(12))
            with looking.snapshot() as snapshot:
                ring.append(raw_batch(range(12, 14)))
                ring.flush()
                fill(ring)
                assert sum(part.n_rows for part in snapshot.parts) == 12
                assert sorted(n for part in snapshot.parts for n in part.column("n#i").to_pylist()) == list(
                    range(12)
                )
            assert stored_numbers(looking) == list(range(14))


def test_other_errors_of_a_lock_are_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    writer(path).close()
    with pytest.raises(StoreError, match=r"Input/output error"):
        reader(path, WithoutLocks(errno.EIO))


def test_a_shared_lock_on_what_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hold_shared(WithoutLocks(errno.ENOLCK), tmp_path / "gone")
    (tmp_path / "there").touch()
    lock = hold_shared(WithoutLocks(errno.ENOLCK), tmp_path / "there")
    assert isinstance(lock, NoLock)
    lock.release()


# -- what a view keeps of a state that it could not read --------------------------------------------------------------


def test_a_log_that_cannot_be_read_is_never_half_taken(tmp_path: Path) -> None:
    """The second look must fail like the first: a view that took half of the log would go on behind the rest."""
    path = tmp_path / "ring"
    with writer(path) as ring, writer(tmp_path / "other") as other:
        ring.append(raw_batch(range(2)))
        other.append(raw_batch(range(5)))
        looking = reader(path)
        ring.append(raw_batch(range(2, 4)))
        stray = (tmp_path / "other" / "wal" / "000001.wal").read_bytes()[24:]
        with (path / "wal" / "000001.wal").open("ab") as log:
            log.write(stray)
        for _ in range(2):
            with pytest.raises(StoreError, match="goes on at seq 0, expected 4"):
                looking.snapshot()
        os.truncate(path / "wal" / "000001.wal", (path / "wal" / "000001.wal").stat().st_size - len(stray))
        assert stored_numbers(looking) == list(range(4))
