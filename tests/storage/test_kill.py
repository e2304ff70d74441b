"""A process is killed (SIGKILL) in the middle of anything it does to a store; the store is as a model has it.

`TREERING_KILLS=1000` makes it a thousand kills, `TREERING_SEED` others than the usual ones.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.storage.model import Model, Step, seen
from tests.storage.records import decode
from treering.storage.ring import Ring

REPOSITORY = Path(__file__).parents[2]
N_KILLS = int(os.environ.get("TREERING_KILLS", "40"))
SEED = int(os.environ.get("TREERING_SEED", "11"))

KINDS = {"open", "append", "flush", "fill", "compact", "delete", "expire", "backup"}
"""What must be in the middle of at least one kill of a long run."""


def live_until_killed(path: Path, backup: Path, seed: int, kill_at: int, model: Model) -> list[Step | None]:
    """Let a process live; give the steps it began, with None at the end if the last was done."""
    command = [
        sys.executable,
        "-m",
        "tests.storage.life",
        *map(str, (path, backup, seed, kill_at)),
        model.to_json(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    steps: list[Step | None] = []
    for line in done.stdout.splitlines():
        told = json.loads(line)
        if "begin" in told:
            steps.append(told["begin"])
    if steps and "done" in json.loads(done.stdout.splitlines()[-1]):
        steps.append(None)
    return steps


def test_a_store_is_right_after_a_kill_at_any_point_of_anything(tmp_path: Path) -> None:
    path, backup, dice = tmp_path / "ring", tmp_path / "backup", random.Random(SEED)
    model, states, killed_in = Model(), [Model()], Counter[str]()
    for number in range(N_KILLS):
        steps = live_until_killed(path, backup, SEED * 1000 + number, int(10 ** dice.uniform(0, 3.2)), model)
        *whole, last = steps
        for step in whole:
            assert step is not None
            model = model.after(step)
            states.append(model)
        after = model if last is None else model.after(last)
        killed_in[last["kind"] if last else "nothing"] += 1
        model = what_is_left(path, model, after)
        states.append(model)
        check_backup(backup, states)
    if N_KILLS >= 200:
        assert set(killed_in) >= KINDS, killed_in


def what_is_left(path: Path, before: Model, after: Model) -> Model:
    """Give the state of a store, which is that before the last step or that after it; read before it is mended."""
    if not any((path / "_manifest").glob("*.json")):
        assert before == Model()
        return before
    with Ring.open(path, "r", decoder=decode) as reader:
        found = seen(reader)
    assert found in (before, after)
    with Ring.open(path, decoder=decode) as ring:
        assert seen(ring) == found
    return found


def check_backup(path: Path, states: list[Model]) -> None:
    """Check that a backup holds a state that its store was in, if there is one yet."""
    if not any((path / "_manifest").glob("*.json")):
        return
    with Ring.open(path, "r", decoder=decode) as reader:
        assert seen(reader) in states
