from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from treering.cli.app import App
from treering.cli.output import Target, put
from treering.query.answer import of_rows
from treering.storage.errors import ConfigError, StoreError

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
ANSWER = of_rows([{"n": i} for i in range(500)], ("n",))


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize(
    "name", ["out.jsonl", "out.NDJSON", "out.jsonl.gz", "out.csv", "out.json", "out.tsv", "out.md"]
)
def test_a_file_has_all_rows_in_the_format_of_its_ending(tmp_path: Path, name: str) -> None:
    put(App(), ANSWER, Target(name))
    content = (tmp_path / name).read_bytes()
    text = gzip.decompress(content).decode() if name.endswith("gz") else content.decode()
    assert text.count("499") == 1
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_an_unknown_ending_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"out\.xls.*\.parquet.*--format"):
        put(App(), ANSWER, Target("out.xls"))


def test_a_table_is_not_for_files() -> None:
    with pytest.raises(ConfigError, match="a table is for a screen"):
        put(App(), ANSWER, Target("out.txt", "table"))


def test_a_failed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old")
    broken = of_rows([{"n": 1}, {"n": {1: {2: 3}}}], ("n",))
    object.__setattr__(broken, "rows", lambda: iter([{"n": 1}, None]))
    with pytest.raises(AttributeError):
        put(App(), broken, Target("out.csv"))
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    for name in ("nope/out.jsonl", "nope/out.csv.gz"):
        with pytest.raises(
            StoreError, match=rf"^{name}: cannot be written: there is no directory nope; make it first$"
        ):
            put(App(), ANSWER, Target(name))
    full = of_rows([{"n": "x" * 100_000}], ("n",))
    with pytest.raises(
        StoreError, match=r"^/dev/full: cannot be written: No space left on device; free some space"
    ):
        put(App(), full, Target("/dev/full", "jsonl"))
    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_cuts_is_said_and_one_that_does_not_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    app = App()
    app.flags["limit"] = "3"
    put(app, ANSWER, Target())
    said = capfd.readouterr()
    assert [json.loads(line)["n"] for line in said.out.split()] == [0, 1, 2]
    assert said.err == "showing 3 of 500; use --limit N or --limit all\n"
    app.flags["limit"] = "500"
    put(app, ANSWER, Target())
    said = capfd.readouterr()
    assert (len(said.out.split()), said.err) == (500, "")


def test_a_pipe_gets_every_row_as_jsonl(capfd: pytest.CaptureFixture[str]) -> None:
    put(App(), ANSWER, Target())
    assert len(capfd.readouterr().out.split("\n")) == 501


def test_a_terminal_gets_a_hundred_rows_and_is_told(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treering.cli.output.is_terminal", lambda stream: True)
    put(App(), ANSWER, Target())
    said = capfd.readouterr()
    assert "showing 100 of 500" in said.err
    assert said.out.split()[-1] == "99"


def test_binary_formats_are_refused_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.cli.output.is_terminal", lambda stream: True)
    with pytest.raises(ConfigError, match="parquet is binary"):
        put(App(), ANSWER, Target(format="parquet"))


@pytest.mark.parametrize(
    ("env", "flags", "colored"),
    [
        ({}, {}, True),
        ({"NO_COLOR": "1"}, {}, False),
        ({"TERM": "dumb"}, {}, False),
        ({"NO_COLOR": "1"}, {"color": "always"}, True),
        ({}, {"color": "never"}, False),
    ],
)
def test_colour_follows_flag_then_environment_then_terminal(
    env: dict[str, str],
    flags: dict[str, str],
    colored: bool,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("treering.cli.output.is_terminal", lambda stream: True)
    monkeypatch.setattr("treering.cli.app.is_terminal", lambda stream: True)
    app = App()
    app.flags.update(flags)
    put(app, of_rows([{"ts": "2026", "level": "error"}], ("ts", "level")), Target())
    assert ("\x1b[" in capfd.readouterr().out) is colored
