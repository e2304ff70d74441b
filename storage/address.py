"""Addresses of stores in object stores: `s3://bucket/prefix`."""

from __future__ import annotations

import os
import re
from pathlib import PosixPath, PurePath

from .errors import ConfigError

SCHEME = "s3://"
"""How an address begins."""

_ADDRESS = re.compile(r"s3://([^/\s]+)((?:/[^/\s]+)*)/?")


class ObjectPath(PosixPath):
    """A place in a bucket, made of `s3:`, the bucket and the names below it; shown as its address.

    It is a `Path` for its arithmetic only: nothing of the local disk lies there.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Give the address; pathlib folds the two slashes into one."""
        return super().__str__().replace("s3:/", SCHEME, 1)


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is the address of a store in an object store."""
    if isinstance(path, str):
        return path.startswith(SCHEME)
    # pathlib folds the slashes of what was given as a plain Path.
    return isinstance(path, PurePath) and path.parts[:1] == ("s3:",)


def object_path(address: str | os.PathLike[str]) -> ObjectPath:
    """Read an address. Raises ConfigError."""
    address = address if isinstance(address, str) else str(ObjectPath(address))
    found = _ADDRESS.fullmatch(address)
    if found is None or {".", ".."} & set(found[2].split("/")):
        raise ConfigError(f"{address!r}: no address of a store, expected s3://BUCKET/PREFIX")
    return ObjectPath(f"s3:/{found[1]}{found[2]}")
