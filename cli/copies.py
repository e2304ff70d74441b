"""`treering backup` and `treering restore`: copies of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from treering.query.cells import dumps

from .app import App, pass_app
from .exits import Exit
from .options import CONTEXT, Verb, common_options, json_option, waits_for
from .progress import progress_bar

if TYPE_CHECKING:
    from treering.storage.backup import BackupReport
    from treering.storage.plain_copy import PlainCopyReport


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering backup /mnt/copy",
        "treering backup --verify /mnt/copy",
        "treering -s /mnt/copy query 'last 1h level >= error'",
    ],
)
@click.argument("dest", metavar="DEST")
@click.option("--verify", is_flag=True, help="Read what DEST has, too, and bring anew what is damaged.")
@json_option("the report as one JSON object")
@waits_for("another process that writes to DEST")
@common_options
@pass_app
def backup(app: App, /, dest: str, verify: bool, as_json: bool) -> int:
    """Bring a backup of the store up to date.

    Others read and write the store meanwhile. DEST is made where it is missing; later calls copy what is
    new. It is a store itself, and readable at every moment. Every byte is checked on the way: a damaged
    file of the store is named, and DEST stays as it was. A DEST that is no backup of this store, was
    written to, or is newer is refused.
    """
    with app.open("r") as store, progress_bar(app) as progress:
        report = store.backup(dest, verify=verify, wait_s=app.wait_s, progress=progress)
    _report(app, report, as_json=as_json)
    return Exit.DONE


@click.command(
    cls=Verb,
    context_settings=CONTEXT,
    examples=[
        "treering restore /mnt/copy ring && treering -s ring stats",
        "treering restore --damaged /mnt/copy ring && treering -s ring check --deep",
    ],
)
@click.argument("src", metavar="SRC")
@click.argument("dest", metavar="DEST")
@click.option("--damaged", is_flag=True, help="Copy a damaged SRC as it is, to be salvaged in DEST.")
@json_option("the report as one JSON object")
@waits_for("another process that writes to DEST")
@common_options
@pass_app
def restore(app: App, /, src: str, dest: str, damaged: bool, as_json: bool) -> int:
    """Copy a backup, or any store, into a new or empty directory.

    Every file is checked on the way; where one of SRC is damaged it is named, and there is no store in DEST. With
    --damaged nothing is checked: DEST is as damaged as SRC, and `check --salvage` keeps what is left there.
    """
    from treering.query.opening import restore as restore_store

    with progress_bar(app) as progress:
        if damaged:
            copied = restore_store(src, dest, damaged=True, wait_s=app.wait_s, progress=progress)
        else:
            report = restore_store(src, dest, wait_s=app.wait_s, progress=progress)
    if damaged:
        _report_plain(app, copied, as_json=as_json)
    else:
        _report(app, report, as_json=as_json)
    return Exit.DONE


def _report_plain(app: App, /, report: PlainCopyReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(dumps(plain_object(report)))
    lost = f", {report.bytes_lost:,} of them could not be read" if report.bytes_lost else ""
    app.note(
        f"copied {report.files_copied:,} files as they are, {report.bytes_copied:,} bytes{lost}, in "
        f"{report.seconds:.1f} s"
    )
    if report.left_out:
        app.note(f"left out, since it is no file or was gone: {', '.join(report.left_out)}")
    app.note(f"keep what is left of it: treering -s {report.path} check --salvage")


def plain_object(report: PlainCopyReport) -> dict[str, Any]:
    """Give what `--json` prints of a copy that nothing was checked of."""
    return {
        "path": str(report.path),
        "files_copied": report.files_copied,
        "bytes_copied": report.bytes_copied,
        "bytes_lost": report.bytes_lost,
        "left_out": list(report.left_out),
        "seconds": round(report.seconds, 3),
    }


def _report(app: App, /, report: BackupReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(dumps(report_object(report)))
    mended = f", {report.files_mended:,} of them anew" if report.files_mended else ""
    app.note(
        f"copied {report.files_copied:,} files, {report.bytes_copied:,} bytes{mended}; "
        f"{report.bytes_present:,} bytes were there; {report.events:,} events, version {report.version:,}, "
        f"in {report.seconds:.1f} s"
    )


def report_object(report: BackupReport) -> dict[str, Any]:
    """Give what `--json` prints."""
    return {
        "path": str(report.path),
        "files_copied": report.files_copied,
        "bytes_copied": report.bytes_copied,
        "bytes_present": report.bytes_present,
        "files_mended": report.files_mended,
        "events": report.events,
        "version": report.version,
        "seconds": round(report.seconds, 3),
    }
