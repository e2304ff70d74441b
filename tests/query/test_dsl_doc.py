"""Every example of the language's manual does what the manual says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from treering.query.ast import Query
from treering.query.json_form import from_json, to_json
from treering.query.parse import parse
from treering.query.text_form import to_text
from treering.storage.errors import QueryError

MANUAL = (Path(__file__).parents[2] / "docs" / "dsl.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", MANUAL, re.S | re.M)
    assert found
    return found


@pytest.mark.parametrize("text", [line for block in blocks("query") for line in block.splitlines()])
def test_example_queries_are_read_and_spelt_back_in_text_and_json(text: str) -> None:
    query = parse(text)
    assert query != Query()
    assert parse(to_text(query)) == query == from_json(to_json(query))


@pytest.mark.parametrize("block", blocks("error"))
def test_example_errors_are_told_as_printed(block: str) -> None:
    text, told = block.splitlines()
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert " " * (caught.value.position or 0) + "^ " + caught.value.message == told


@pytest.mark.parametrize("block", blocks("json"))
def test_example_json_is_read(block: str) -> None:
    query = from_json(json.loads(block))
    assert query != Query() and parse(to_text(query)) == query


@pytest.mark.parametrize("block", blocks("python"))
def test_example_python_runs(block: str) -> None:
    exec(compile(block, "dsl.md", "exec"), {})


def test_inline_equivalences_hold() -> None:
    assert parse('a = 1 or b = 2 "x"') == parse('(a = 1 or b = 2) and "x"')
    assert parse("top-k f") == parse("top 10 by f")
    assert parse("where level = error | count") == parse("level = error count")
