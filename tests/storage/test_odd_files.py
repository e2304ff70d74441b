"""What lies in the place of a file is named, not waited for, and salvaged; what says nothing of it is no damage."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.effort import some
from tests.storage.account import check_account, salvaged
from tests.storage.checking import look
from tests.storage.faults import Fault, FaultyFiles
from tests.storage.odd_files import PLACES, FailingFiles
from tests.storage.whole_store import (
    DERIVED,
    FILES,
    LIVE,
    Row,
    decode,
    file_of,
    flip,
    lose,
    open_store,
    stored_rows,
)
from treering.storage.check import check_store
from treering.storage.errors import StoreError
from treering.storage.findings import Severity
from treering.storage.layout import Layout
from treering.storage.repair import repair
from treering.storage.writer import Writer

PATIENCE_S = 300.0
"""So long all trials with one sort of thing may take: far more than they do, so that only one that hangs is ended."""

NONE_OF_THE_FILE = (
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EINTR,
    errno.ENOSPC,
    errno.EROFS,
    errno.ESTALE,
)
"""Errors that say nothing of the bytes of a file."""


@pytest.mark.parametrize("place", PLACES)
def test_whatever_lies_in_the_place_of_a_file_is_named_and_salvaged(
    base: Path, tmp_path: Path, place: str
) -> None:
    found = _trials(base, tmp_path, place)
    assert found.keys() == FILES.keys()
    for kind, one in found.items():
        (_told_of_derived if kind in DERIVED else _told_of_damaged)(one)
        assert one["is_there_still"], one
        assert all("\n" not in (one[act] or "") for act in ("read", "write", "mend", "salvage")), one


def _told_of_derived(one: dict[str, Any]) -> None:
    assert one["quick"] == one["deep"] == [["derived", one["name"]]], one
    assert one["read"] is one["write"] is one["mend"] is None, one
    assert one["mended"] == [], one
    assert "nothing of it is out of reach" in one["salvage"], one


def _told_of_damaged(one: dict[str, Any]) -> None:
    assert one["quick"] == one["deep"] == one["mended"] == [["damaged", one["name"]]], one
    assert one["salvage"] is None, one


def _trials(base: Path, directory: Path, place: str) -> dict[str, dict[str, Any]]:
    """Give, by kind of file, what became of a store with something else in its place."""
    command = [sys.executable, "-m", "tests.storage.odd_files", str(base), place, str(directory)]
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        command, cwd=root, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        try:
            out, wrong = child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            out, _ = child.communicate()
            pytest.fail(f"it hangs behind {out.decode().splitlines()[-1:]}")
    assert child.returncode == 0, wrong.decode()
    found = [json.loads(line) for line in out.splitlines()]
    return {one["kind"]: one for one in found}


def _paths(store: Path) -> dict[Path, bytes | None]:
    found = {path: path.read_bytes() if path.is_file() else None for path in store.rglob("*")}
    return {path: data for path, data in found.items() if path.name != "LOCK"}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_may_not_be_read_is_no_damage(store: Path, before: dict[int, Row], kind: str) -> None:
    _refuses_all(store, before, kind, errno.EACCES)


@pytest.mark.parametrize("number", NONE_OF_THE_FILE)
@pytest.mark.parametrize("kind", ["root", "log", "hot", "post"])
def test_what_says_nothing_of_a_file_is_no_damage(
    store: Path, before: dict[int, Row], kind: str, number: int
) -> None:
    _refuses_all(store, before, kind, number)


def _refuses_all(store: Path, before: dict[int, Row], kind: str, number: int) -> None:
    # Something is damaged for certain, so that there is a reason to salvage.
    lose(file_of(store, "rejects" if kind != "rejects" else "vec"))
    files, layout, held = FailingFiles(file_of(store, kind), number), Layout(store), _paths(store)
    for is_deep in (False, True):
        with pytest.raises(StoreError) as refused:
            check_store(files, layout, deep=is_deep)
        _is_one_line_about(refused.value, number)
    with pytest.raises(StoreError) as refused:
        salvaged(store, files)
    _is_one_line_about(refused.value, number)
    assert _paths(store) == held
    try:
        with open_store(store, "r", files=files) as ring, ring.snapshot() as snapshot:
            seen = {int(seq) for part in snapshot.parts for seq in part.seq}
    except StoreError as error:
        _is_one_line_about(error, number)
    else:
        assert seen == before.keys()


def _is_one_line_about(error: StoreError, number: int) -> None:
    assert os.strerror(number) in str(error)
    assert "\n" not in str(error) and "salvage`" not in str(error)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_the_disk_does_not_give_is_damaged(
    store: Path, before: dict[int, Row], kind: str
) -> None:
    path = file_of(store, kind)
    files, layout, name = FailingFiles(path, errno.EIO), Layout(store), str(path.relative_to(store))
    severity = Severity.DERIVED if kind in DERIVED else Severity.DAMAGED
    for is_deep in (False, True):
        report = check_store(files, layout, deep=is_deep)
        wrong = [*report.of(Severity.DAMAGED), *report.of(Severity.DERIVED)]
        assert {(one.severity, one.file) for one in wrong} == {(severity, name)}
    if kind in DERIVED:
        writer = Writer.open(files, layout, decode)
        try:
            repair(writer, report)
        finally:
            writer.close()
        assert look(store, deep=True).is_clean
        assert stored_rows(store).keys() == LIVE
        return
    check_account(store, salvaged(store, files), before)


POINTS = range(0, 900, 45)
"""Calls of a salvage, counted from 0."""


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_a_salvage_that_cannot_go_on_changes_nothing(base: Path, tmp_path: Path, number: int) -> None:
    n_refused = 0
    for at in some(POINTS, 2):
        store = Path(shutil.copytree(base, tmp_path / f"at-{at}"))
        for kind in ("root", "hot", "log", "list of rejects"):
            flip(file_of(store, kind), 0.6)
        held = _paths(store)
        files = FaultyFiles(store, Fault(at=at, error=number))
        try:
            salvaged(store, files)
        except StoreError as error:
            n_refused += 1
            assert "\n" not in str(error)
            # From the commit on it is done, and what failed behind it is the look at the end.
            if "salvage" not in [one.action for one in _acts(store)]:
                assert _paths(store) == held
        shutil.rmtree(store)
    assert n_refused > 3


def _acts(store: Path) -> Any:
    try:
        with open_store(store, "r") as ring:
            return ring.audit()[0]
    except StoreError:
        return []
