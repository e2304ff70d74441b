"""Real limits of the kernel for tests: a process with mounts of its own, with fewer rights, or with limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
Done = subprocess.CompletedProcess[str]


@cache
def has_namespaces() -> bool:
    """Whether this user may make mounts in a namespace of its own."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    probe = "d=$(mktemp -d) && mount -t tmpfs -o size=64k tmpfs $d && umount $d && rmdir $d"
    return (
        subprocess.run(["unshare", "-rm", "sh", "-c", probe], capture_output=True, check=False).returncode
        == 0
    )


def run(program: str, *arguments: str | Path, mounts: str | None = None, cwd: Path | None = None) -> Done:
    """Run a Python program; `mounts`: shell commands that make mounts which only it sees, `$1` its first argument."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    if mounts is not None:
        if not has_namespaces():
            pytest.skip("needs mounts in a namespace of its own (unshare -rm)")
        shell = f'set -e; {mounts}; exec "$0" -c "$PROGRAM" "$@"'
        command = ["unshare", "-rm", "sh", "-c", shell, sys.executable, *map(str, arguments)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TREERING_")}
    environment |= {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "PROGRAM": program}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd or REPOSITORY,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
