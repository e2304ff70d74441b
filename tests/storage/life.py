"""A process that takes random steps on a store and kills itself in the middle of one.

`life.py STORE BACKUP SEED KILL_AT MODEL [STEPS]`: MODEL is the JSON of the model that the store is at. Each step is
told before (`{"begin": step}`) and after it (`{"done": ...}`). At the KILL_AT-th call that changes the disk the
process sends itself SIGKILL: before the call, in the middle of a write, or right after it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.storage.faults import CHANGES
from tests.storage.model import Model, do, draw
from tests.storage.records import MODEL, decode
from treering.storage.files import OS_FILES, Data, Handle
from treering.storage.ring import Ring


class DeadlyFiles:
    """The real files, but one call is the last."""

    def __init__(self, kill_at: int, dice: random.Random) -> None:
        self._left = kill_at
        self._dice = dice

    def __getattr__(self, name: str) -> Any:
        call = getattr(OS_FILES, name)
        if name not in CHANGES:
            return call

        def counted(*args: Any, **options: Any) -> Any:
            self.pass_one()
            given = call(*args, **options)
            if name in ("create", "append"):
                return DeadlyHandle(given, self)
            return given

        return counted

    def pass_one(self) -> bool:
        """Count a call; the last one dies here, or says that it should die half-way."""
        self._left -= 1
        if self._left > 0:
            return False
        if self._left == 0 and self._dice.random() < 0.5:
            die()
        return True


class DeadlyHandle:
    """A real handle, but one call is the last."""

    def __init__(self, handle: Handle, files: DeadlyFiles) -> None:
        self._handle = handle
        self._files = files

    def write(self, data: Data) -> None:
        if self._files.pass_one():
            whole = pa.py_buffer(data).to_pybytes()
            self._handle.write(whole[: len(whole) // 2])
            die()
        self._handle.write(data)

    def truncate(self, n_bytes: int) -> None:
        if self._files.pass_one():
            die()
        self._handle.truncate(n_bytes)

    def sync(self) -> None:
        is_last = self._files.pass_one()
        self._handle.sync()
        if is_last:
            die()

    def close(self) -> None:
        self._handle.close()


def die() -> None:
    """End at once, as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(store: Path, backup: Path, seed: int, kill_at: int, model: Model, n_steps: int) -> None:
    """Take steps until the end, or so many."""
    dice = random.Random(seed)
    files: Any = DeadlyFiles(kill_at, dice)
    tell({"begin": {"kind": "open"}})
    ring = Ring.open(store, decoder=decode, files=files, flush_bytes=50_000)
    ring.set_model(MODEL)
    tell({"done": "open"})
    for _ in range(n_steps):
        step = draw(dice, model)
        tell({"begin": step})
        do(ring, step, backup)
        model = model.after(step)
        tell({"done": step["kind"]})
    ring.close()


def tell(what: Any) -> None:
    """Print a line and see that it is out before anything else is done."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        Model.from_json(sys.argv[5]),
        int(sys.argv[6]) if len(sys.argv) > 6 else sys.maxsize,
    )
