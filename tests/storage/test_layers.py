"""The modules of storage import one way, by the table of layers in docs/architecture.md, and never in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\w+) \| [^|]+ \| ((?:`\w+`(?:, )?)+) \|$", re.MULTILINE)


def modules() -> dict[str, set[str]]:
    """What each module imports when it runs, also inside of functions."""
    files = {file.stem: file for file in (ROOT / "storage").glob("*.py") if file.stem != "__init__"}
    return {
        name: set(imports_of(ast.parse(file.read_text(encoding="utf-8")))) for name, file in files.items()
    }


def imports_of(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.level == 1 and child.module:
            yield child.module
        yield from imports_of(child)


def layers() -> list[tuple[str, list[str]]]:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    return [(name, re.findall(r"\w+", told)) for name, told in ROW.findall(text)]


def test_every_module_stands_in_one_layer() -> None:
    told = [module for _, names in layers() for module in names]
    assert len(told) == len(set(told))
    assert set(told) == modules().keys()


def test_a_module_imports_from_its_own_layer_and_those_above_it_in_the_table() -> None:
    place_of = {module: place for place, (_, names) in enumerate(layers()) for module in names}
    wrong = [
        f"{module} imports {other}, which stands below it"
        for module, imported in modules().items()
        for other in imported
        if place_of[other] > place_of[module]
    ]
    assert not wrong


def test_no_import_goes_round_in_a_circle() -> None:
    order = list(TopologicalSorter(modules()).static_order())
    assert len(order) == len(modules())
