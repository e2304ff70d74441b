"""The events of a few users, one of whom is to be erased."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.words import embed, open_words, reject, words
from treering.storage.cleaner import Cleaner
from treering.storage.meta import SegmentMeta
from treering.storage.part import Part
from treering.storage.ring import Ring

EVENTS = [
    (10, "login zqalice"),
    (20, "login bob"),
    (30, "paid zqalice"),
    (15, "paid carol"),
    (40, "logout bob"),
]


def ring_of_users(path: Path) -> Ring:
    """A store with the events in one segment, one more in the log, and two rejects."""
    ring = open_words(path)
    ring.append(words(EVENTS), rejects=[reject("{broken zqalice"), reject("{broken bob")])
    ring.flush()
    ring.append(words([(50, "login zqalice"), (60, "login dave")]), rejects=[reject("{late zqalice")])
    return ring


def embedded_ring(path: Path) -> Ring:
    """The same with vectors: those of `login` are of event 0 and of `paid` of event 2, which are Alice's."""
    ring = ring_of_users(path)
    assert embed(ring) == {"login": 0, "paid": 2, "logout": 4}
    ring.flush()
    assert embed(ring) == {}
    return ring


def halt_rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let erasures end after their commit, as in a crash."""
    monkeypatch.setattr(Cleaner, "clean", lambda self: ({}, ()))


def metas(ring: Ring) -> list[SegmentMeta]:
    return list(ring._view.catalog.segments.entries.values())


def parts_of(ring: Ring) -> list[Part]:
    with ring.snapshot() as snapshot:
        return list(snapshot.parts)
