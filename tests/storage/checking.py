"""What the tests of check and repair ask of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.storage.whole_store import decode
from treering.storage.check import check_store
from treering.storage.files import OS_FILES
from treering.storage.findings import CheckReport, Finding, Severity
from treering.storage.layout import Layout
from treering.storage.repair import repair
from treering.storage.writer import Writer


def look(path: Path, *, deep: bool = False) -> CheckReport:
    return check_store(OS_FILES, Layout(path), deep=deep)


def wrong(report: CheckReport) -> list[Finding]:
    return [*report.of(Severity.DAMAGED), *report.of(Severity.DERIVED)]


def besides_erasures(report: CheckReport) -> list[Finding]:
    """What was found besides the two erasures of the store that are not finished."""
    unfinished = report.of(Severity.UNFINISHED)
    assert len(unfinished) == 2
    return [one for one in report.findings if one not in unfinished]


def mended(path: Path, *, deep: bool = False, files: Any = OS_FILES) -> CheckReport:
    """Repair a store that nobody has open."""
    layout = Layout(path)
    before = check_store(files, layout, deep=deep)
    writer = Writer.open(files, layout, decode)
    try:
        return repair(writer, before)
    finally:
        writer.close()
