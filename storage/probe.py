"""Trying out what a store in a bucket relies on, before anything is written to it."""

from __future__ import annotations

import uuid

from .bucket import Bucket
from .errors import StoreError


def probe(bucket: Bucket, directory: str) -> None:
    """Raise StoreError where an endpoint overwrites a name that is taken, or does not list what was just put.

    Works with a small object below `directory`, which it removes, with what an earlier one may have left.
    """
    key = f"{directory}/{uuid.uuid4().hex}"
    bucket.create(key, b"first")
    is_kept = _is_refused(bucket, key)
    listed = [found.key for found in bucket.below(directory)]
    bucket.delete(sorted({*listed, key}))
    if not is_kept:
        raise StoreError(
            f"{bucket.root}: this endpoint ignores If-None-Match: two writers would overwrite each other; use "
            "one that has conditional writes, or open the store to read"
        )
    if key not in listed:
        raise StoreError(
            f"{bucket.root}: this endpoint does not list an object that was just put: acknowledged events could "
            "be missed; use one with consistent listings, or open the store to read"
        )


def _is_refused(bucket: Bucket, key: str) -> bool:
    try:
        bucket.create(key, b"second")
    except FileExistsError:
        return True
    return False
