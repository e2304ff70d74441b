"""A process that appends is killed (SIGKILL) at any moment; what it acknowledged is there, once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.storage.records import decode, position, reject, stored_numbers
from treering.storage.ring import Ring

REPOSITORY = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("records.py")


def append_until_killed(path: Path, n_lines: int) -> int:
    """Let a process append, kill it after that many acknowledgements or some more, and give the last."""
    command = [sys.executable, str(SCRIPT), str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)}
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(n_lines)]
        process.kill()
        # Half a line at the end is no acknowledgement.
        told += [line for line in process.stdout if line.endswith("\n")]
    assert process.returncode == -signal.SIGKILL
    return int(told[-1])


def test_eight_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    path, dice = tmp_path / "ring", random.Random(8)
    for _ in range(8):
        acknowledged = append_until_killed(path, dice.randint(1, 40))
        with Ring.open(path, "r", decoder=decode) as reader:
            seen = stored_numbers(reader)
        with Ring.open(path, decoder=decode) as ring:
            numbers = stored_numbers(ring)
            assert numbers == list(range(len(numbers))) == seen
            assert acknowledged <= len(numbers)
            assert ring.position("source") == position(len(numbers))
            assert list(ring.rejects()) == [reject(n) for n in starts(len(numbers))]


def starts(total: int) -> list[int]:
    """First numbers of the appends that make `total` records, as the script makes them."""
    found, n = [], 0
    while n < total:
        found.append(n)
        n += 1 + n % 5
    return found
