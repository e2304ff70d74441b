"""An answer into a file that stands under its name only once it is whole."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO

from treering.storage.errors import ConfigError

from .answer import of_result
from .new_file import new_file
from .result import Result
from .writers import ENDINGS, WRITERS


def export_result(
    result: Result, target: str | os.PathLike[str] | IO[bytes], *, format: str | None = None
) -> int:
    """Write `result` to a path or binary file and give the number of rows.

    format: one of `writers.WRITERS`, else told by the path's ending. Raises ConfigError for an unknown format and for
    what is neither a path nor a binary file, StoreError for a path that cannot be written.
    """
    if isinstance(target, (str, os.PathLike)):
        chosen = _known(format or ENDINGS.get(Path(target).suffix.lower()), str(target))
        with new_file(target) as file:
            WRITERS[chosen](of_result(result), file)
    else:
        WRITERS[_known(format, "the given file")](of_result(result), target)
    return len(result)


def check_target(target: object) -> None:
    """Raise ConfigError for what is neither a path nor a file open for bytes."""
    if isinstance(target, (str, os.PathLike)):
        return
    if isinstance(target, io.TextIOBase):
        raise ConfigError(f"target is a file open for text ({target!r:.60}): open it with mode 'wb'")
    if not hasattr(target, "write"):
        raise ConfigError(f"target is {target!r:.60}, expected a path or a file open for bytes")


def _known(format: str | None, name: str) -> str:
    if format not in WRITERS:
        raise ConfigError(f"cannot tell the format of {name}: name it as one of {', '.join(WRITERS)}")
    return format
