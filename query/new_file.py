"""A file that stands under its name only once it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from treering.storage.advice import explained
from treering.storage.errors import StoreError, TreeringError


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file to write; what stood there before stays until the body is through.

    A device or a named pipe is written as it is. Raises StoreError, which names the file and what to do, where it
    cannot be written; BrokenPipeError stays what it is.
    """
    place = Path(path)
    draft = place.with_name(f".{place.name}.{os.getpid()}.part")
    with _named(place, draft):
        if place.exists() and not place.is_file():  # a device or a named pipe: nothing to rename
            with place.open("wb") as file:
                yield file
            return
        try:
            with draft.open("xb") as file:
                yield file
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def _named(place: Path, draft: Path) -> Iterator[None]:
    """Name the file in errors that name none, itself or its draft; those of other files pass."""
    try:
        yield
    except (TreeringError, BrokenPipeError):
        raise
    except OSError as error:
        is_of_it = error.filename is None or str(error.filename) in (str(place), str(draft))
        if error.errno is None or not is_of_it:
            raise
        raise StoreError(f"{place}: cannot be written: {_reason(error, place)}") from error


def _reason(error: OSError, place: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no directory {place.parent}; make it first"
    assert error.errno is not None
    return explained(OSError(error.errno, os.strerror(error.errno)))
