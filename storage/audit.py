"""What was done to a store by hand, as a chain of hashes: whoever alters one record breaks all that follow.

Records are committed in the same manifest version as what they tell of. The chain shows tampering to whoever
kept its head (`treering check` prints it); it does not prevent it. Source: S05.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import DamageError
from .stored_file import Json, expect_members


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One act. n: its number, from 1. time_ns: when, by the clock of the machine. details: JSON values.

    previous: hash of the record before, empty for the first. hash: SHA-256 of all the other members, hex.
    """

    n: int
    time_ns: int
    action: str
    details: Mapping[str, Any]
    previous: str
    hash: str

    @property
    def key(self) -> str:
        """Name of the record in its list; names sort by number."""
        return f"{self.n:012d}"

    def to_json(self) -> Json:
        """Give the JSON object that `from_json` reads."""
        return {
            "n": self.n,
            "time_ns": self.time_ns,
            "action": self.action,
            "details": dict(self.details),
            "previous": self.previous,
            "hash": self.hash,
        }

    @classmethod
    def from_json(cls, obj: Json) -> AuditRecord:
        """Read what `to_json` gave."""
        expect_members(obj, ("n", "time_ns", "action", "details", "previous", "hash"), "audit record")
        return cls(**obj)


def follow(last: AuditRecord | None, action: str, details: Mapping[str, Any], time_ns: int) -> AuditRecord:
    """Give the record that comes after `last`, None: the first."""
    n, previous = (1, "") if last is None else (last.n + 1, last.hash)
    # Through JSON, so that what is hashed is what will be read.
    details = json.loads(json.dumps(details))
    return AuditRecord(n, time_ns, action, details, previous, _hash(n, time_ns, action, details, previous))


def check_chain(records: Iterable[AuditRecord], head: str) -> None:
    """Raise DamageError, naming the first bad record, unless `records` are a chain that ends at `head`."""
    previous, n = "", 0
    for record in records:
        n += 1
        expected = _hash(record.n, record.time_ns, record.action, record.details, record.previous)
        if record.n != n or record.previous != previous or record.hash != expected:
            raise DamageError(f"audit record {record.n}: its hash is not that of the chain; it was altered")
        previous = record.hash
    if previous != head:
        raise DamageError(
            f"audit: {n} records end at {previous[:16] or 'nothing'}, the manifest says {head[:16] or 'nothing'}; "
            "records were removed"
        )


def _hash(n: int, time_ns: int, action: str, details: Mapping[str, Any], previous: str) -> str:
    told = json.dumps([previous, n, time_ns, action, details], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()
