"""Where a store lies, and what reaches it."""

from __future__ import annotations

import os
from pathlib import Path

from .address import is_address, object_path
from .errors import ConfigError
from .files import OS_FILES, Files


def located(path: str | os.PathLike[str], files: Files = OS_FILES) -> tuple[Files, Path]:
    """Give the place that `path` means, and what reaches it: `files`, unless it is an address.

    Raises ConfigError for a bad address or setting, or where obstore is not installed.
    """
    if not is_address(path):
        return files, Path(path).absolute()
    place = object_path(path)
    if files is not OS_FILES:
        return files, place
    try:
        from .s3 import s3_files
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        raise ConfigError(
            f"{place}: a store in an object store needs obstore; pip install 'treering[s3]'"
        ) from error
    return s3_files(place), place
