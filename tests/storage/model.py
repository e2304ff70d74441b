"""A store as plain Python has it: random steps in its life, what they change, and the same seen in a real one."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tests.storage.records import decode, fill, payload, position, raw_batch, reject, vectors_of
from treering.storage.batch import RawBatch
from treering.storage.cut import cut_chosen
from treering.storage.eraser import Act
from treering.storage.part import Part
from treering.storage.rejects import Reject
from treering.storage.ring import Ring
from treering.storage.snapshot import Snapshot

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS

Step = dict[str, Any]
"""What is done, as JSON: `kind` and what belongs to it."""

KINDS = {
    "append": 10,
    "table": 2,
    "flush": 3,
    "fill": 3,
    "compact": 2,
    "delete": 2,
    "expire": 1,
    "backup": 4,
}
"""Kinds of steps, and how often each is drawn."""


@dataclass(frozen=True)
class Model:
    """What a store holds.

    events: number and time by sequence number. n_rejects: records kept aside. taken: offset of the source.
    """

    events: dict[int, tuple[int, int]] = field(default_factory=dict)
    next_seq: int = 0
    n_rejects: int = 0
    taken: int = 0

    def to_json(self) -> str:
        """Give text that `from_json` reads."""
        return json.dumps([list(self.events.items()), self.next_seq, self.n_rejects, self.taken])

    @property
    def digest(self) -> str:
        """Give a short text that is the same for equal events only."""
        return hashlib.sha256(json.dumps(sorted(self.events.items())).encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> Model:
        """Read what `to_json` gave."""
        events, *rest = json.loads(text)
        return cls({seq: (n, ts_ns) for seq, (n, ts_ns) in events}, *rest)

    def after(self, step: Step) -> Model:
        """Give the model after a step."""
        match step["kind"]:
            case "append" | "table":
                times = zip(step["numbers"], step["times"], strict=True)
                fresh = dict(enumerate(times, self.next_seq))
                grown = replace(self, events=self.events | fresh, next_seq=self.next_seq + len(fresh))
                if step["kind"] == "table":
                    return grown
                return replace(grown, n_rejects=self.n_rejects + 1, taken=grown.next_seq)
            case "delete":
                return self._without(is_chosen(step))
            case "expire":
                return self._without(lambda _, ts_ns: ts_ns < step["before_ns"])
        return self

    def _without(self, is_gone: Callable[[int, int], bool]) -> Model:
        kept = {seq: event for seq, event in self.events.items() if not is_gone(*event)}
        return replace(self, events=kept)


def draw(dice: random.Random, model: Model) -> Step:
    """Draw the next step."""
    [kind] = dice.choices(list(KINDS), list(KINDS.values()))
    if kind in ("append", "table"):
        numbers = list(range(model.next_seq, model.next_seq + dice.randint(1, 20)))
        return {"kind": kind, "numbers": numbers, "times": [_time(dice, n) for n in numbers]}
    if kind == "delete":
        of = dice.randint(3, 12)
        return {"kind": kind, "of": of, "rest": dice.randrange(of)}
    if kind == "expire":
        return {"kind": kind, "before_ns": dice.randint(-DAY_NS, model.next_seq * SECOND_NS // 4)}
    return {"kind": kind}


def _time(dice: random.Random, n: int) -> int:
    """Mostly in order; now and then late, long ago, to come, or the time of another."""
    odd = [n * SECOND_NS - DAY_NS, -n * DAY_NS, n * SECOND_NS + 400 * DAY_NS, 2**62, n // 7 * SECOND_NS]
    return dice.choice(odd) if dice.random() < 0.05 else n * SECOND_NS


def seen(ring: Ring) -> Model:
    """Give what a store holds, each event checked against its own record."""
    with ring.snapshot() as snapshot:
        events = dict(sorted(events_in(snapshot)))
        n_rejects = snapshot.n_rejected
        assert snapshot.n_rows == len(events)
    at = ring.position("source")
    assert list(ring.rejects()) == [reject(i) for i in range(n_rejects)]
    assert at == (None if at is None else position(at.offset))
    return Model(events, ring.next_seq, n_rejects, 0 if at is None else at.offset)


def events_in(snapshot: Snapshot) -> Iterator[tuple[int, tuple[int, int]]]:
    """Give sequence number, number and time of every event, once; vectors are those of its text."""
    found = set()
    for part in snapshot.parts:
        numbers, records = part.column("n#i").to_pylist(), part.column("record").to_pylist()
        check_vectors(part)
        assert list(part.ts) == sorted(part.ts) or len(part.slices) > 1
        for seq, ts, n, record in zip(part.seq.tolist(), part.ts.tolist(), numbers, records, strict=True):
            assert seq not in found
            found.add(seq)
            assert record == record_of(n)
            yield seq, (n, ts)


def record_of(n: int) -> bytes:
    """Give the record of a number: some with files in them, one of which is in many; some writers escape slashes."""
    shared, own = payload(0, 900), payload(n, 900)
    files = {3: [shared], 6: [own, shared, own]}.get(n % 8, [])
    record = orjson.dumps({"n": n, "body": f"text {n % 7}", "files": files})
    return record.replace(b"/", b"\\/") if n % 5 == 0 else record


def check_vectors(part: Part) -> None:
    """Check that each vector that is there is that of its key."""
    table = part.vectors()
    have = np.flatnonzero(table.have)
    if not len(have):
        return
    expected = vectors_of(table.key[have])
    for name in ("head", "second", "n_tokens", "qls", "heads"):
        np.testing.assert_array_equal(getattr(table, name)[have], getattr(expected, name))


def is_chosen(step: Step) -> Callable[[int, int], bool]:
    """Give which events, by number and time, a delete or an expire takes."""
    if step["kind"] == "expire":
        return lambda _, ts_ns: bool(ts_ns < step["before_ns"])
    return lambda n, _: bool(n % step["of"] == step["rest"])


@dataclass
class Chosen:
    """Chooses the events of a delete; no rejects."""

    is_gone: Callable[[int, int], bool]

    def rows(self, parts: Sequence[Part]) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
        found = []
        for part in parts:
            pairs = zip(part.column("n#i").to_pylist(), part.ts.tolist(), strict=True)
            found.append(np.flatnonzero([self.is_gone(n, ts_ns) for n, ts_ns in pairs]))
        return found

    def rejects(self, rejects: Sequence[Reject]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.zeros(len(rejects), np.bool_)


def do(ring: Ring, step: Step, backup: Path) -> None:
    """Take a step on a store."""
    match step["kind"]:
        case "append":
            end = ring.next_seq + len(step["numbers"])
            n_rejects = sum(1 for _ in ring.rejects())
            ring.append(raw_at(step), positions=[position(end)], rejects=[reject(n_rejects)])
        case "table":
            batch = decode(raw_at(step), ring.next_seq)
            ring.append_columns(batch, vectors_of(np.unique(batch.parts.key)))
        case "flush":
            ring.flush()
        case "fill":
            ring.flush()
            fill(ring)
        case "compact":
            ring.compact()
        case "delete" | "expire":
            chosen = Chosen(is_chosen(step))
            ring.erase(lambda state: cut_chosen(state, chosen), Act(step["kind"], {}))
        case "backup":
            ring.backup(backup)


def raw_at(step: Step) -> RawBatch:
    """Give the records of a step at its times."""
    raw = raw_batch(step["numbers"], line=record_of)
    raw.ts_ns = np.array(step["times"], np.int64)
    return raw
