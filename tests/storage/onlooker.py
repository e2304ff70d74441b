"""A process that looks at a store again and again: `onlooker.py STORE`; a line of input ends it.

It prints the digest of each state that it sees. Every third state it keeps open while it looks at others, and
then reads once more: what it sees must still be the same.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from tests.storage.model import Model, events_in
from tests.storage.records import decode
from treering.storage.ring import Ring
from treering.storage.snapshot import Snapshot


def main(path: Path) -> None:
    """Look until told to stop, and then once more."""
    number, kept, told, is_last = 0, None, "", False
    with Ring.open(path, "r", decoder=decode) as ring:
        while True:
            number += 1
            snapshot = ring.snapshot()
            digest = look(snapshot)
            print(json.dumps(digest), flush=True)
            if kept is not None and (is_last or number % 3 == 2):
                assert look(kept) == told
                kept.close()
                kept = None
            if is_last:
                return
            if kept is None and number % 3 == 0:
                # Nothing of it was read yet when the others were looked at.
                kept, told = ring.snapshot(), ""
                told = look(kept) if number % 2 else digest_when_equal(kept, snapshot, digest)
            snapshot.close()
            is_last = bool(select.select([sys.stdin], [], [], 0)[0])


def digest_when_equal(kept: Snapshot, seen: Snapshot, digest: str) -> str:
    """Give the digest of a snapshot that is read later only, where it must be that of another."""
    is_same = kept.version == seen.version and kept.n_rows == seen.n_rows
    return digest if is_same else look(kept)


def look(snapshot: Snapshot) -> str:
    """Give the digest of all events."""
    return Model(dict(events_in(snapshot))).digest


if __name__ == "__main__":
    main(Path(sys.argv[1]))
