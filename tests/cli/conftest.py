"""The command line as people meet it: in a process of its own, or in this one where only its words count."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Done = subprocess.CompletedProcess[bytes]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment without anybody's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TREERING_", "XDG_"))}
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        kept.pop(name, None)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return kept | {"PYTHONPATH": str(ROOT), "HOME": str(home), "OMP_NUM_THREADS": "1", "TERM": "xterm"}


@pytest.fixture
def treering(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Done]:
    """Run `treering ARGS...` in tmp_path and give the finished process."""

    def run(*args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Done:
        return subprocess.run(
            [sys.executable, "-m", "treering", *args],
            cwd=tmp_path,
            env=environment | (env or {}),
            input=stdin,
            capture_output=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def call(
    tmp_path: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Callable[..., Done]:
    """Run `treering ARGS...` in this process and in tmp_path: like `treering`, but imports only once."""
    from treering.cli import main

    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "_silence_stdout", lambda: None)  # it would silence this process for good

    def run(*args: str) -> Done:
        capfdbinary.readouterr()
        code = main.run(args)
        said = capfdbinary.readouterr()
        return Done(args, code, said.out, said.err)

    return run


@pytest.fixture
def answered(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Done]:
    """Run `treering ARGS...` in tmp_path with a person at its terminal, who types `answer` and reads all else."""

    def run(*args: str, answer: bytes) -> Done:
        master, slave = pty.openpty()
        try:
            os.write(master, answer)
            return subprocess.run(
                [sys.executable, "-m", "treering", *args],
                cwd=tmp_path,
                env=environment,
                stdin=slave,
                capture_output=True,
                timeout=120,
                check=False,
            )
        finally:
            os.close(master)
            os.close(slave)

    return run
