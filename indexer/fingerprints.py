"""What sources are recognised by: fingerprints of what they begin with."""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol

from treering.storage.ledger import Position

from .taken import HEAD_BYTES


class Known(Protocol):
    """What a store remembers of sources."""

    def position(self, fingerprint: str) -> Position | None:
        """Give how far the source with this fingerprint has been taken."""
        ...


def fingerprint(head: bytes) -> str:
    """Give the fingerprint of a source that begins with `head` (at most 4096 bytes)."""
    return blake2b(head, digest_size=16).hexdigest()


def first_line(head: bytes) -> str:
    """Give the fingerprint of the first line of a source that begins with `head` (at most 4096 bytes)."""
    return blake2b(head.partition(b"\n")[0], digest_size=8).hexdigest()


def anchors(head: bytes) -> list[bytes]:
    """Give the beginnings by which a source that begins with `head` may be known, longest first.

    A source is known by its first 4096 bytes, or by its whole lines where it was shorter when it was first
    taken (it may have grown since), or by all there was where that was less than a line.
    """
    ends = [i + 1 for i, c in enumerate(head) if c == 10]
    first = head.find(b"\n")
    lengths = {len(head), *ends, *([first] if first > 0 else [])}
    return [head[:length] for length in sorted(lengths, reverse=True) if length]


def known_by(known: Known, head: bytes) -> list[Position]:
    """Give the sources that are known by what `head` begins with.

    Several sources may begin alike: then the later ones have numbered names.
    """
    found = []
    for anchor in anchors(head):
        wanted, n = fingerprint(anchor), 0
        while (position := known.position(_slot(wanted, n))) is not None:
            found.append(position)
            n += 1
    return found


def free_fingerprint(known: Known, head: bytes) -> str:
    """Give the name under which a new source is remembered, of which `head` is taken (at most 4096 bytes)."""
    whole_lines = head[: head.rfind(b"\n") + 1]
    wanted = fingerprint(head if len(head) == HEAD_BYTES or not whole_lines else whole_lines)
    taken, free = -1, 0
    while known.position(_slot(wanted, free)) is not None:  # names are given without gaps
        taken, free = free, 2 * free + 1
    while free - taken > 1:
        middle = (taken + free) // 2
        if known.position(_slot(wanted, middle)) is None:
            free = middle
        else:
            taken = middle
    return _slot(wanted, free)


def _slot(wanted: str, n: int) -> str:
    return f"{wanted}-{n}" if n else wanted
