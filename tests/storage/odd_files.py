"""Something else in the place of a file, and what a store makes of it: run as a program of its own, since it may hang.

python -m tests.storage.odd_files STORE PLACE DIRECTORY    a JSON object for each kind of file, as soon as it is known
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.storage.account import check_account, salvaged
from tests.storage.checking import look, mended
from tests.storage.whole_store import FILES, Row, file_of, open_store, records, stored_rows
from treering.storage.errors import StoreError
from treering.storage.files import Handle, Lock, OsFiles
from treering.storage.findings import CheckReport, Severity


def put_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "letter.txt").write_text("dear")


def put_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def put_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


PLACES: dict[str, Callable[[Path], None]] = {
    "a directory": put_directory,
    "a link to nothing": put_dangling_link,
    "a link to itself": put_circle,
    "a named pipe": put_pipe,
}
"""What may lie in the place of a file."""


class FailingFiles(OsFiles):
    """Files of which one cannot be read, for a reason that the system gives as a number."""

    def __init__(self, path: Path, number: int) -> None:
        self._path = path
        self._number = number

    def append(self, path: Path) -> Handle:
        self._expect_readable(path)
        return super().append(path)

    def read(self, path: Path, start: int = 0, n_bytes: int = -1) -> bytes:
        self._expect_readable(path)
        return super().read(path, start, n_bytes)

    def map(self, path: Path) -> pa.Buffer:
        self._expect_readable(path)
        return super().map(path)

    def lock(self, path: Path, *, exclusive: bool) -> Lock | None:
        # A bad sector does not keep a file from being opened and locked.
        if self._number != errno.EIO:
            self._expect_readable(path)
        return super().lock(path, exclusive=exclusive)

    def _expect_readable(self, path: Path) -> None:
        if path == self._path:
            raise OSError(self._number, os.strerror(self._number), str(path))


def kind_of(path: Path) -> str | None:
    """Say what lies at a path."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    tests = {stat.S_ISREG: "file", stat.S_ISDIR: "directory", stat.S_ISLNK: "link", stat.S_ISFIFO: "pipe"}
    return next(name for is_it, name in tests.items() if is_it(mode))


def told(report: CheckReport) -> list[tuple[str, str]]:
    """Give severity and file of all that is wrong."""
    wrong = [*report.of(Severity.DAMAGED), *report.of(Severity.DERIVED)]
    return sorted({(str(one.severity), one.file) for one in wrong})


def refused(act: Callable[[], Any]) -> str | None:
    """Give the error of a call, None where it went well."""
    try:
        act()
    except StoreError as error:
        return str(error)
    return None


def trial(base: Path, place: str, kind: str, directory: Path, before: dict[int, Row]) -> dict[str, Any]:
    """Do all that can be done to a store in which something else lies in the place of a file."""
    store = Path(shutil.copytree(base, directory / "ring", symlinks=True))
    path = file_of(store, kind)
    PLACES[place](path)
    odd = kind_of(path)
    result: dict[str, Any] = {
        "kind": kind,
        "name": str(path.relative_to(store)),
        "read": refused(lambda: stored_rows(store) == before or sys.exit("other rows")),
        "quick": told(look(store)),
        "deep": told(look(store, deep=True)),
        "is_there_still": kind_of(path) == odd,
    }
    other = Path(shutil.copytree(base, directory / "other", symlinks=True))
    PLACES[place](file_of(other, kind))
    result["write"] = refused(lambda: open_store(other).close())
    result["mend"] = refused(lambda: mended(other, deep=True))
    result["mended"] = told(look(other, deep=True))
    result["salvage"] = refused(lambda: _salvage(store, path, str(odd), before))
    shutil.rmtree(directory)
    return result


def _salvage(store: Path, path: Path, odd: str, before: dict[int, Row]) -> None:
    report = salvaged(store)
    check_account(store, report, before)
    assert report.aside is not None
    assert kind_of(store / report.aside / path.relative_to(store)) == odd
    assert kind_of(path) in ("file", None), path
    with open_store(store) as ring:
        ring.append(records(range(5000, 5010)))
        ring.flush()


def main(base: Path, place: str, directory: Path) -> None:
    before = stored_rows(base)
    for number, kind in enumerate(FILES):
        (directory / str(number)).mkdir()
        result = trial(base, place, kind, directory / str(number), before)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
