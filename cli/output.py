"""Where an answer goes and how: a table for a person, JSON lines for a pipe, a file by its ending."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO

from treering.query.answer import Answer, Row
from treering.query.new_file import new_file
from treering.query.writers import BINARY, ENDINGS, WRITERS
from treering.storage.errors import ConfigError, InputError

from .app import App, is_terminal

PACKINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Compression by the last ending of a file's name."""


@dataclass(frozen=True, slots=True)
class Target:
    """What was asked for. path None or `-`: stdout."""

    path: str | None = None
    format: str | None = None


def put(app: App, answer: Answer, target: Target) -> None:
    """Write `answer` where and as asked; a cut is always said on stderr."""
    limit = _limit(app, target)
    shown = answer if limit is None else _cut(answer, limit)
    format = chosen_format(app, target)
    if target.path not in (None, "-"):
        path = str(target.path)
        with new_file(path) as file, _packed(file, PACKINGS.get(Path(path).suffix.lower())) as packed:
            WRITERS[format](shown, packed)
    elif format == "table":
        _draw(app, shown)
    else:
        _write_stdout(WRITERS[format], format, shown)
    _note_cut(app, answer, shown.n_rows)


def _note_cut(app: App, answer: Answer, n_shown: int) -> None:
    n_all = max(answer.n_rows, answer.n_matched or 0)
    if n_shown < answer.n_rows:
        app.note(f"showing {n_shown:,} of {n_all:,}; use --limit N or --limit all")
    elif n_shown < n_all:
        app.note(f"showing {n_shown:,} of {n_all:,}, as the query says")


def chosen_format(app: App, target: Target) -> str:
    """Give the format: `--format`, else the file's ending, else the setting, else by who reads stdout."""
    if target.path not in (None, "-"):
        format = target.format or _format_of(str(target.path))
        if format == "table":
            raise ConfigError(
                f"{target.path}: a table is for a screen; --format takes one of {', '.join(WRITERS)}"
            )
        return format
    setting = target.format or app.setting("format")
    return str(setting or ("table" if is_terminal(sys.stdout) else "jsonl"))


def _format_of(path: str) -> str:
    endings = [ending.lower() for ending in Path(path).suffixes]
    if endings and endings[-1] in PACKINGS:
        endings.pop()
    if endings and endings[-1] in ENDINGS:
        return ENDINGS[endings[-1]]
    raise ConfigError(
        f"cannot tell the format of {path!r}: end it with one of {' '.join(ENDINGS)}, or say --format"
    )


def _limit(app: App, target: Target) -> int | None:
    """Give the display limit: what was asked for; the default only where a person looks at a screen."""
    setting = app.settings()["limit"]
    if setting.origin == "default" and (target.path not in (None, "-") or not is_terminal(sys.stdout)):
        return None
    return None if setting.value is None else int(setting.value)


def _cut(answer: Answer, limit: int) -> Answer:
    def rows() -> Iterator[Row]:
        return islice(answer.rows(), limit)

    return replace(
        answer, n_rows=min(limit, answer.n_rows), rows=rows, to_arrow=lambda: answer.to_arrow()[:limit]
    )


def _draw(app: App, answer: Answer) -> None:
    from .table import draw_table

    if sys.stdout is None:
        raise InputError("stdout is closed: open it, or write with -o FILE")
    if not answer.n_rows:
        app.note("no rows")
        return
    width = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    color = app.wants_color(sys.stdout)
    rows = list(answer.rows())
    columns = list(dict.fromkeys(name for row in rows for name in row))
    layout = draw_table(rows, columns, sys.stdout, color=color, width=width, first=answer.named)
    if layout.hidden:
        app.note(_hidden_note(layout.hidden))


def _hidden_note(hidden: Sequence[str]) -> str:
    names = ", ".join(hidden[:8]) + (" ..." if len(hidden) > 8 else "")
    return f"{len(hidden)} fields do not fit: {names}; choose with `fields a, b` or use --format jsonl"


def _write_stdout(write: Callable[[Answer, IO[bytes]], None], format: str, answer: Answer) -> None:
    if sys.stdout is None:
        raise InputError("stdout is closed: open it, or write with -o FILE")
    if format in BINARY and is_terminal(sys.stdout):
        raise ConfigError(
            f"{format} is binary and stdout is a terminal: write it with -o FILE or into a pipe"
        )
    write(answer, sys.stdout.buffer)
    sys.stdout.flush()


@contextmanager
def _packed(file: IO[bytes], packing: str | None) -> Iterator[IO[bytes]]:
    if packing is None:
        yield file
        return
    import pyarrow as pa

    with pa.CompressedOutputStream(pa.PythonFile(file, "w"), packing) as stream:
        yield stream
