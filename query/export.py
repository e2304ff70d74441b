"""An answer into a file that stands under its name only once it is whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from treering.storage.errors import ConfigError

from .answer import of_result
from .result import Result
from .writers import ENDINGS, WRITERS


def export_result(
    result: Result, target: str | os.PathLike[str] | IO[bytes], *, format: str | None = None
) -> int:
    """Write `result` to a path or binary file and give the number of rows.

    format: one of `writers.WRITERS`, else told by the path's ending. Raises ConfigError for an unknown format.
    """
    if isinstance(target, (str, os.PathLike)):
        _write_file(
            result, Path(target), _known(format or ENDINGS.get(Path(target).suffix.lower()), str(target))
        )
    else:
        WRITERS[_known(format, "the given file")](of_result(result), target)
    return len(result)


def _known(format: str | None, name: str) -> str:
    if format not in WRITERS:
        raise ConfigError(f"cannot tell the format of {name}: name it as one of {', '.join(WRITERS)}")
    return format


def _write_file(result: Result, path: Path, format: str) -> None:
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            WRITERS[format](of_result(result), file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
