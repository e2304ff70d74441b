"""Who writes to a store: taking the writer's lock, waiting for it, and saying who holds it.

The flock on `LOCK` decides. The text in the file is for people: whoever holds the lock signs it with one line of
JSON. It may be old, foreign or missing, and nothing depends on it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .advice import NO_LOCKS
from .errors import ConfigError, StoreError
from .files import Files, Lock
from .layout import Layout

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.5
"""Pauses between two looks at a lock: each twice as long as the one before."""

VALUED_OPTIONS = ("-s", "--store", "--model", "--color")
"""Options of the command line that may stand before the verb and take a value."""

_TEXT_BYTES = 4096
_WORD = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_COMMAND_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for another writer, in seconds, and the clock that says so.

    Raises ConfigError for a time that is negative or no number; infinity is for ever.
    """

    wait_s: float = 0.0
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if math.isnan(self.wait_s) or self.wait_s < 0:
            raise ConfigError(f"cannot wait {self.wait_s} seconds; give 0 or more")

    def pauses(self) -> Iterator[bool]:
        """Sleep between two looks, ever longer, until the time is over; each step is one pause."""
        end_s, pause_s = self.now_s() + self.wait_s, FIRST_PAUSE_S
        while (left_s := end_s - self.now_s()) > 0:
            self.sleep(min(pause_s, left_s))
            yield True
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


AT_ONCE = Patience()
"""Not waiting."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who signed a `LOCK`: as much of it as could be read."""

    pid: int | None = None
    host: str | None = None
    since: str | None = None
    command: str | None = None

    @classmethod
    def me(cls) -> Holder:
        """Describe this process."""
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(os.getpid(), platform.node(), since, _command(sys.argv))

    @classmethod
    def read(cls, data: bytes) -> Holder:
        """Read what stands in a `LOCK`: JSON, only a process id as older versions wrote it, or anything else."""
        try:
            told: Any = json.loads(data)
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(told, dict):
            return cls(pid=_number(told))
        texts = {name: _text(told.get(name)) for name in ("host", "since", "command")}
        return cls(pid=_number(told.get("pid")), **texts)

    def line(self) -> bytes:
        """Give the line that `read` reads."""
        told = {"pid": self.pid, "host": self.host, "since": self.since, "command": self.command}
        return json.dumps(told).encode("ascii") + b"\n"

    def __str__(self) -> str:
        """Say that it writes, as far as it is known."""
        name = "another process" if self.pid is None else f"process {self.pid}"
        host = f"on {self.host}" if self.host else ""
        since = f"since {self.since}" if self.since else ""
        known = ", ".join(text for text in (self.command, host, since) if text)
        return f"{name} writes to it" + (f" ({known})" if known else "")


class NoLock:
    """Stands for a shared lock where the file system has none: it keeps nobody from anything."""

    def release(self) -> None:
        """Do nothing."""

    def is_at(self, path: Path) -> bool:
        """Say yes: it is on no file."""
        return True


def hold_shared(files: Files, path: Path) -> Lock | None:
    """Take a shared lock for reading, or None where another holder forbids it.

    Gives a `NoLock` on a file system without locks. Raises FileNotFoundError.
    """
    try:
        return files.lock(path, exclusive=False)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        files.size(path)
        return NoLock()


def locked_out(path: Path) -> StoreError:
    """Give the error that says that a manifest is locked by something that is no treering."""
    return StoreError(f"{path}: something else holds a lock on it; find and end that process")


def lock_for_writing(files: Files, layout: Layout, patience: Patience) -> Lock:
    """Take the writer's lock of a store, whose directory is there, and sign it.

    Raises StoreError, naming the holder, where another writer has it and does not let go in time.
    """
    with suppress(FileExistsError):
        files.create(layout.lock).close()
    lock = _wait(files, layout, patience)
    if lock is None:
        raise StoreError(_refusal(files, layout, patience.wait_s))
    try:
        _sign(files, layout)
    except BaseException:
        lock.release()
        raise
    return lock


def _wait(files: Files, layout: Layout, patience: Patience) -> Lock | None:
    pauses = patience.pauses()
    while (lock := _exclusive(files, layout)) is None and next(pauses, False):
        pass
    return lock


def _exclusive(files: Files, layout: Layout) -> Lock | None:
    try:
        return files.lock(layout.lock, exclusive=True)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise StoreError(
            f"{layout.path}: its file system has no locks ({error.strerror}), and without them two writers could "
            "damage the store; put it on one with flock, or open it to read"
        ) from error


def _sign(files: Files, layout: Layout) -> None:
    # The name of the holder is a help to others only; a full disk must not keep a store from being opened.
    with suppress(OSError):
        handle = files.append(layout.lock)
        try:
            handle.truncate(0)
            handle.write(Holder.me().line())
        finally:
            handle.close()


def _refusal(files: Files, layout: Layout, waited_s: float) -> str:
    holder = Holder()
    with suppress(OSError):
        holder = Holder.read(files.read(layout.lock, 0, _TEXT_BYTES))
    waited = f", also after {waited_s:g} s" if waited_s else ""
    return (
        f"{layout.path}: {holder}{waited}; wait for it (`wait_s`, --wait SECONDS on the command line), or open it "
        "to read"
    )


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


def _text(value: Any) -> str | None:
    return value[:_COMMAND_CHARACTERS] if isinstance(value, str) else None


def _command(arguments: list[str]) -> str:
    name, *rest = arguments or [""]
    path = Path(name)
    program = path.parent.name if path.name == "__main__.py" else path.name
    return " ".join([program, *_verb(rest)])[:_COMMAND_CHARACTERS]


def _verb(arguments: list[str]) -> list[str]:
    """Give the word that says what a program is to do: never an option or its value, which may be secret."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return [word] if _WORD.fullmatch(word) else []
        if _takes_next(word):
            next(words, None)
    return []


def _takes_next(option: str) -> bool:
    """Whether the value of an option is the next argument: `-s DIR` and `-qs DIR`, but not `-sDIR`."""
    if option.startswith("--"):
        return option in VALUED_OPTIONS
    return any(option.find(one[1]) == len(option) - 1 for one in VALUED_OPTIONS if not one.startswith("--"))
