from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from treering.cli.exits import Exit
from treering.cli.main import VERBS, cli
from treering.cli.settings import FORMATS, KEYS
from treering.query.ast import Query
from treering.query.parse import parse

ROOT = Path(__file__).parents[2]
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")


def commands() -> Iterator[tuple[str, click.Command]]:
    with cli.make_context("treering", [], resilient_parsing=True) as ctx:
        for verb in VERBS:
            command = cli.get_command(ctx, verb)
            assert command is not None
            yield verb, command
            if isinstance(command, click.Group):
                yield from ((f"{verb} {name}", sub) for name, sub in command.commands.items())


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_verb_and_option_is_in_the_manual(name: str, command: click.Command) -> None:
    assert f"`{name}" in CLI_PAGE or f"### {name}" in CLI_PAGE or f"treering {name}" in CLI_PAGE
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [o.opts[-1] for o in options if not any(spelling in CLI_PAGE for spelling in o.opts)] == []
    assert [o.opts[-1] for o in options if not o.help] == []


def test_the_manual_names_every_setting_format_and_exit_code() -> None:
    assert [key.name for key in KEYS.values() if f"`{key.variable}`" not in CLI_PAGE] == []
    assert [format for format in FORMATS if f"`{format}`" not in CLI_PAGE] == []
    assert [code for code in Exit if f"| {code.value} |" not in CLI_PAGE] == []


def test_the_manual_names_no_option_that_does_not_exist() -> None:
    known = {spelling for _, command in commands() for p in command.params for spelling in p.opts}
    written = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", CLI_PAGE))
    assert written - known == set()


def examples() -> list[str]:
    """Every query that stands in the help, the manual and the README."""
    pages = [CLI_PAGE, (ROOT / "README.md").read_text("utf-8")]
    pages += [example for _, command in commands() for example in getattr(command, "examples", ())]
    return [
        dsl for page in pages for dsl in re.findall(r"(?:query|explain|export)(?: --json)? '([^']+)'", page)
    ]


@pytest.mark.parametrize("dsl", [dsl for dsl in examples() if dsl != "..."])
def test_every_query_in_help_and_manual_is_understood(dsl: str) -> None:
    assert isinstance(parse(dsl), Query)


@pytest.mark.parametrize("page", ["README.md", "docs/cli.md", "docs/python.md", "CONTRIBUTING.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [t for t in targets if not (ROOT / page).parent.joinpath(t).exists()] == []
