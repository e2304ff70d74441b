"""Processes that read while another appends, flushes, folds, compacts, deletes, expires and backs up.

`TREERING_STEPS=2000` lets them live longer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.storage.model import Model
from tests.storage.records import decode
from treering.storage.ring import Ring

REPOSITORY = Path(__file__).parents[2]
N_STEPS = int(os.environ.get("TREERING_STEPS", "60"))
NEVER = 10**12


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"tests.storage.{module}", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=REPOSITORY)


def test_readers_see_states_that_existed_and_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    arguments = [str(path), str(tmp_path / "backup"), "5", str(NEVER), Model().to_json(), str(N_STEPS)]
    Ring.open(path, decoder=decode).close()
    onlookers = [start("onlooker", str(path)) for _ in range(2)]
    try:
        writer = start("life", *arguments)
        told, errors = writer.communicate()
    finally:
        looks = [(*onlooker.communicate("stop\n"), onlooker.returncode) for onlooker in onlookers]
    assert writer.returncode == 0, errors
    states = states_of(told)
    for seen, errors, code in looks:
        assert code == 0, errors
        places = [states[json.loads(line)] for line in seen.splitlines()]
        assert places == sorted(places)
        assert places[-1] == len(states) - 1


def states_of(told: str) -> dict[str, int]:
    """Give the place of each state in the writer's life, by its digest; events never come back."""
    model = Model()
    states = {model.digest: 0}
    for line in told.splitlines():
        step = json.loads(line).get("begin")
        if step is not None:
            model = model.after(step)
            states.setdefault(model.digest, len(states))
    return states
