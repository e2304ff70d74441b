"""The examples in the help, run as they stand there over a store of the demo's traffic."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Done
from treering.cli.main import EXAMPLES, VERBS, cli, run
from treering.indexer.demo_traffic import generate

ELSEWHERE = ("kubectl", "treering demo", "--model", "s3://")
"""Examples that need a cluster, that are a test of their own, and that would ask a model hub or a bucket."""

CODES = {
    "treering audit --head 5e0c1f...": 4,  # of another store
    "treering check --salvage --yes": 4,  # nothing is out of reach
}
"""Exit codes of examples that rightly refuse."""


def examples() -> Iterator[str]:
    """Every example of the help that can be run here."""
    with cli.make_context("treering", [], resilient_parsing=True) as ctx:
        commands = [cli.get_command(ctx, verb) for verb in VERBS]
    groups = [command for command in commands if isinstance(command, click.Group)]
    commands += [sub for group in groups for sub in group.commands.values()]
    found = [*EXAMPLES, *(one for command in commands for one in getattr(command, "examples", ()))]
    return (one for one in dict.fromkeys(found) if not any(word in one for word in ELSEWHERE))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, model_files: object) -> Path:
    """A folder with a store, a backup of it, and the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    request_log, rest, server_log = sorted(generate(7, 60, n_server_lines=100).write(folder / "logs"))
    shutil.copy(request_log, folder / "app.jsonl.gz")
    shutil.copy(server_log, folder / "vllm.log")
    whole = [line for line in rest.read_bytes().splitlines(keepends=True) if line.endswith(b"}\n")]
    for name in ("app.jsonl", "rag.jsonl", "big.jsonl"):
        (folder / name).write_bytes(b"".join(whole[:5]))
    store = str(folder / ".treering")
    assert run(["-q", "-s", store, "ingest", "--year", "2026", *map(str, (request_log, server_log))]) == 0
    assert run(["-q", "-s", store, "backup", str(folder / "copy")]) == 0
    return folder


@pytest.fixture
def shell(tmp_path: Path, environment: dict[str, str]) -> Callable[[str], Done]:
    """Run a line of shell in tmp_path."""
    program = Path(sys.executable).with_name("treering")

    def run(line: str) -> Done:
        if not program.exists():
            pytest.skip("treering is not installed beside this Python")
        if "jq" in line and shutil.which("jq") is None:
            pytest.skip("there is no jq")
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=tmp_path,
            env=environment | {"PATH": f"{program.parent}{os.pathsep}{environment['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.mark.model
@pytest.mark.parametrize("example", list(examples()))
def test_an_example_does_what_it_says(
    example: str, made: Path, tmp_path: Path, shell: Callable[[str], Done], call: Callable[..., Done]
) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (tmp_path / "home" / ".config" / "fish" / "completions").mkdir(parents=True)
    line = example.replace("/mnt/copy", "./copy")
    needs_shell = any(sign in line for sign in ("|", "&&", "$(", " > "))
    done = shell(line) if needs_shell else call(*shlex.split(line)[1:])
    assert done.returncode == CODES.get(example, 0), done.stderr.decode()
    assert b"Traceback" not in done.stderr
