"""From a path or an address to an open store, and from a backup to a store again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from treering.indexer.decode import Decoder
from treering.storage.address import is_address
from treering.storage.backup import BackupReport
from treering.storage.backup_target import writing_to
from treering.storage.errors import ConfigError
from treering.storage.files import OS_FILES
from treering.storage.layout import Layout
from treering.storage.locking import Patience
from treering.storage.place import located
from treering.storage.ring import Ring

from .progress import Progress, counting
from .store import Store

if TYPE_CHECKING:
    from treering.storage.plain_copy import PlainCopyReport


def open_store(
    path: str | os.PathLike[str] | None = None,
    mode: Literal["rw", "r"] = "rw",
    *,
    model: str | None = None,
    wait_s: float | None = None,
    compacts: bool = True,
) -> Store:
    """Open a store; mode `rw` creates it and takes the writer's lock, `r` reads beside a live writer.

    path defaults to $TREERING_STORE, else ./.treering; `s3://bucket/prefix` is a store in a bucket.
    model: a sentence-transformers name or path for a new store.
    wait_s: how long to wait for another writer (None: not at all; `math.inf`: as long as it takes).
    compacts: whether a writer compacts in the background, in a thread that lives only while something is due.
    Raises StoreError when another writer holds the lock, DamageError when a file is damaged.
    """
    if mode not in ("rw", "r"):
        raise ConfigError(f"mode is {mode!r}, expected 'rw' or 'r'")
    patience = Patience(wait_s or 0.0)
    ring = Ring.open(
        place_of(path), "w" if mode == "rw" else "r", decoder=Decoder(), patience=patience, compacts=compacts
    )
    return Store(ring, model=chosen_model(model), writes=mode == "rw")


@overload
def restore(
    src: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    damaged: Literal[False] = False,
    wait_s: float | None = None,
    progress: Progress | None = None,
) -> BackupReport: ...


@overload
def restore(
    src: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    damaged: Literal[True],
    wait_s: float | None = None,
    progress: Progress | None = None,
) -> PlainCopyReport: ...


def restore(
    src: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    damaged: bool = False,
    wait_s: float | None = None,
    progress: Progress | None = None,
) -> BackupReport | PlainCopyReport:
    """Copy a backup, or any store, into a new or empty directory, and check every file on the way.

    The result is the same store in another place: it keeps its id, and is no backup. damaged: copy it as it is, and
    check nothing, so that what is left of it can be salvaged in `dest` (`check`). wait_s: how long to wait for
    another process that writes to `dest`, as of `open`. Raises DamageError for a damaged file of `src`, after which
    there is no store in `dest`; StoreError where there is something in `dest`.
    """
    patience = Patience(wait_s or 0.0)
    if damaged:
        return _copy_plainly(os.fspath(src), os.fspath(dest), patience, progress)
    with Ring.open(os.fspath(src), "r", decoder=Decoder()) as ring:
        return ring.restore(os.fspath(dest), patience=patience, progress=counting(progress, "copy", "bytes"))


def _copy_plainly(src: str, dest: str, patience: Patience, progress: Progress | None) -> PlainCopyReport:
    from treering.storage.plain_copy import copy_plainly

    if is_address(dest):
        raise ConfigError(f"{dest}: copies are made in directories only; give one")
    files, source = located(src)
    layout, target = Layout(source), Layout(Path(dest).absolute())
    with writing_to(target, OS_FILES, layout, patience, is_restore=True) as target_files:
        return copy_plainly(files, layout, target_files, target, progress=counting(progress, "copy", "bytes"))


def place_of(path: str | os.PathLike[str] | None) -> str:
    """Give the directory or address of a store: `path`, else $TREERING_STORE, else ./.treering."""
    return os.fspath(path or os.environ.get("TREERING_STORE") or ".treering")


def chosen_model(model: str | None) -> str | None:
    """Give the name or path of the model for texts: `model`, else $TREERING_MODEL; None is the default one."""
    return model or os.environ.get("TREERING_MODEL")
