"""What a backup says of itself, in `backup.json`: of which store it is, and what it may hold while nobody else wrote.

It is written before anything that it tells of becomes visible. So it names two states, the one that was there
and the one that is being made: after a crash the directory holds either, or the end of the log in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from .blame import as_damage
from .document import pack, unpack
from .files import Files
from .layout import Layout
from .stored_file import Json, expect_members

_STORE = re.compile(rb'"store_id":"([0-9a-f]{32})"')
_STATE = re.compile(rb'{"version":(\d{1,18}),"crc32c":(\d{1,10}),"log":\[([^\]]*)\]}')
_FILE = re.compile(rb'{"number":(\d{1,18}),"n_bytes":(\d{1,18}),"crc32c":(\d{1,10})}')


@dataclass(frozen=True, slots=True)
class LogFile:
    """The first `n_bytes` of file `number` of a log, whole frames all of them."""

    number: int
    n_bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One state of the directory: its root, the crc32c of the root's file, and its log from the floor on."""

    version: int
    crc32c: int
    log: tuple[LogFile, ...]

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, obj: Json) -> StateRecord:
        """Read what `to_json` gave."""
        expect_members(obj, ("version", "crc32c", "log"), "state in a backup's record")
        return cls(obj["version"], obj["crc32c"], tuple(LogFile(**file) for file in obj["log"]))


@dataclass(frozen=True, slots=True)
class BackupRecord:
    """The document. store_id: of the store, empty for one of format 1. states: what may be there."""

    store_id: str
    states: tuple[StateRecord, ...]

    @classmethod
    def read(cls, files: Files, layout: Layout) -> BackupRecord | None:
        """Give the record of a directory, None where there is none. Raises DamageError, StoreError."""
        try:
            with as_damage(layout.backup):
                data = files.read(layout.backup)
        except FileNotFoundError:
            return None
        body = unpack("backup", data, str(layout.backup))
        expect_members(body, ("store_id", "states"), "backup's record")
        return cls(body["store_id"], tuple(StateRecord.from_json(state) for state in body["states"]))

    @classmethod
    def claimed(cls, data: bytes) -> BackupRecord:
        """Give what can still be read of a damaged record; each part of it may be wrong, or missing."""
        store = _STORE.search(data)
        states = [
            StateRecord(
                int(version), int(checksum), tuple(LogFile(*map(int, one)) for one in _FILE.findall(log))
            )
            for version, checksum, log in _STATE.findall(data)
        ]
        return cls("" if store is None else store[1].decode(), tuple(states))

    def packed(self) -> bytes:
        """Give the bytes of the document."""
        return pack("backup", {"store_id": self.store_id, "states": [s.to_json() for s in self.states]})

    def has_root(self, version: int, crc32c: int) -> bool:
        """Whether a backup made this root."""
        return any((state.version, state.crc32c) == (version, crc32c) for state in self.states)

    def has_log(self, found: Iterable[LogFile]) -> bool:
        """Whether a log is of these states, or was on the way from one to the other."""
        planned = [file for state in self.states for file in state.log]
        return all(any(_may_be(file, of) for of in planned) for file in found)


def _may_be(found: LogFile, planned: LogFile) -> bool:
    if found.number != planned.number:
        return False
    return found.n_bytes < planned.n_bytes or found == planned
