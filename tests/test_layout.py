"""The house: every room is packaged, nobody imports a room under a second name, walls between rooms hold."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("storage", "indexer", "query", "cli")


def python_files() -> list[Path]:
    folders = (*ROOMS, "tests", "benchmarks", "treering")
    return [
        f
        for name in folders
        for f in (ROOT / name).rglob("*.py")
        if not (name == "treering" and f.parent != ROOT / name)
    ]


def test_every_package_folder_is_listed_for_the_wheel() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(config["tool"]["setuptools"]["packages"])
    found = {"treering"}
    for room in ROOMS:
        for init in (ROOT / room).rglob("__init__.py"):
            found.add(".".join(("treering", *init.parent.relative_to(ROOT).parts)))
    assert listed == found


def test_rooms_are_imported_as_parts_of_treering_only() -> None:
    """`import storage` works by accident in a checkout and makes a second copy of every class."""
    wrong = []
    for file in python_files():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            wrong += [f"{file}: {name}" for name in names if name.partition(".")[0] in ROOMS]
    assert not wrong


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, treering, treering.cli.main; print(' '.join(sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = {
        "torch",
        "transformers",
        "sentence_transformers",
        "duckdb",
        "numba",
        "numpy",
        "pyarrow",
        "rich",
        "pandas",
        "polars",
    }
    assert not loaded & heavy
