from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from treering.cli.app import App
from treering.cli.main import VERBS, cli, guarded
from treering.storage.errors import ConfigError, QueryError, StoreError
from treering.storage.locking import VALUED_OPTIONS

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

HEAVY = (
    "numpy",
    "pyarrow",
    "duckdb",
    "rich",
    "torch",
    "numba",
    "transformers",
    "sentence_transformers",
    "lark",
)


def test_help_names_every_verb_and_the_exit_codes(treering: Run) -> None:
    done = treering("--help")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert [verb for verb in VERBS if f"\n  {verb} " not in text] == []
    assert "Exit codes: 0 done" in text
    assert "...\n" not in text.partition("Commands:")[2]  # what each does is said in whole


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["query", "--help"], ["config", "show"]])
def test_a_first_look_imports_nothing_heavy(
    args: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    code = (
        f"import sys; from treering.cli.main import run; run({args!r}); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=True,
    )
    loaded = set(done.stderr.decode().split())
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    with cli.make_context("treering", [], resilient_parsing=True) as ctx:
        command = cli.get_command(ctx, verb)
    assert isinstance(command, click.Command)
    assert command.help
    assert all("treering" in example for example in command.examples)  # type: ignore[attr-defined]
    assert command.examples  # type: ignore[attr-defined]


def test_an_unknown_verb_is_refused_with_the_nearest(treering: Run) -> None:
    done = treering("injest", "x")
    assert done.returncode == 2
    assert b"did you mean 'ingest'" in done.stderr


def test_an_unknown_option_is_a_usage_error(treering: Run) -> None:
    assert treering("query", "--nope", "*").returncode == 2


def test_version_is_the_packages(treering: Run) -> None:
    import treering as package

    assert treering("--version").stdout.decode().strip() == f"treering {package.__version__}"


def _raising(error: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (
            QueryError("expected a value", text="a > >", position=4),
            2,
            "error: 1:5: expected a value\n  a > >\n      ^",
        ),
        (ConfigError("limit is -1"), 2, "error: limit is -1"),
        (StoreError("the lock is held"), 4, "error: the lock is held"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "gone"),
            4,
            "error: No such file or directory (gone)",
        ),
        (ZeroDivisionError("division by zero"), 4, "error: unexpected ZeroDivisionError: division by zero"),
        (MemoryError(), 4, "error: memory ran out: end other programs, or raise"),
        (
            ImportError("libtorch_cpu.so: failed to map segment from shared object"),
            4,
            "error: memory ran out: end other programs, or raise",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.UsageError("what?"), 2, "Error: what?"),
    ],
)
def test_an_error_is_one_message_and_its_exit_code(
    error: BaseException,
    code: int,
    says: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treering.cli.main._silence_stdout", lambda: None)
    assert guarded(_raising(error), App()) == code
    said = capfd.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_the_text_in_a_lock_knows_every_option_that_takes_a_value_before_the_verb() -> None:
    valued = [param.opts for param in cli.params if isinstance(param, click.Option) and not param.is_flag]
    assert sorted(name for names in valued for name in names) == sorted(VALUED_OPTIONS)


def test_debug_shows_the_traceback(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.cli.main._silence_stdout", lambda: None)
    app = App()
    app.debug = True
    guarded(_raising(StoreError("no")), app)
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_quiet(environment: dict[str, str], tmp_path: Path, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "treering", "config", "show"],
        env=environment | {"PYTHONUNBUFFERED": unbuffered},
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "args", [["config", "show"], ["--help"], ["config", "show", "-o", "/dev/full", "--format", "csv"]]
)
def test_a_full_device_is_said_and_fails(
    environment: dict[str, str], tmp_path: Path, args: list[str]
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "treering", *args],
            env=environment,
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 4
    assert done.stderr.decode().count("\n") == 1
    assert b"No space left" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_gives_a_script_for_treering(treering: Run, shell: str) -> None:
    done = treering("completion", shell)
    assert done.returncode == 0
    assert b"_TREERING_COMPLETE" in done.stdout


def test_completion_completes_verbs(treering: Run) -> None:
    done = treering(
        env={"_TREERING_COMPLETE": "bash_complete", "COMP_WORDS": "treering ex", "COMP_CWORD": "1"}
    )
    assert done.stdout.decode().split() == ["plain,explain", "plain,export", "plain,expire"]
