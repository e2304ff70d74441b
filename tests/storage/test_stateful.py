"""Any sequence of steps, faults and power losses: the store is always what a plain Python model says.

`pytest --hypothesis-profile=thorough` tries more of them.
"""

from __future__ import annotations

import errno
import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.effort import scaled
from tests.storage.faults import CHANGES, Fault, FaultyFiles, PowerLoss
from tests.storage.model import DAY_NS, SECOND_NS, Model, Step, do, seen
from tests.storage.records import MODEL, decode
from treering.storage.errors import StoreError
from treering.storage.ring import Ring

TIMES = st.one_of(
    st.integers(0, 500).map(lambda n: n * SECOND_NS),
    st.integers(-3000, 3000).map(lambda n: n * DAY_NS),
    st.sampled_from([-(2**62), -1, 0, 2**62]),
)
"""Event times: near one another, scattered over years, and at odd ends."""

PLAIN = st.sampled_from(["flush", "fill", "compact", "backup"]).map(lambda kind: {"kind": kind})
CUTS = st.one_of(
    st.integers(2, 9).flatmap(
        lambda of: st.integers(0, of - 1).map(lambda rest: {"kind": "delete", "of": of, "rest": rest})
    ),
    TIMES.map(lambda ts_ns: {"kind": "expire", "before_ns": ts_ns}),
)
APPENDS = st.tuples(st.sampled_from(["append", "append", "table"]), st.lists(TIMES, min_size=1, max_size=8))
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS)


class Life(RuleBasedStateMachine):
    """A store on a disk that can fail, beside its model."""

    @initialize()
    def begin(self) -> None:
        self.place = Path(tempfile.mkdtemp())
        self.model = Model()
        self.states = [Model()]
        self.n_disks = 0
        self.new_disk()
        self.files = FaultyFiles(self.disk)
        self.open()

    def new_disk(self) -> None:
        self.n_disks += 1
        self.disk = self.place / str(self.n_disks)
        self.disk.mkdir()

    def open(self) -> None:
        self.ring = Ring.open(self.disk / "ring", decoder=decode, files=self.files, flush_bytes=15_000)
        self.ring.set_model(MODEL)

    @rule(append=APPENDS)
    def append(self, append: tuple[str, list[int]]) -> None:
        self.take(self.numbered(append))

    @rule(step=st.one_of(PLAIN, PLAIN, CUTS))
    def change(self, step: Step) -> None:
        self.take(step)

    @rule()
    def reopen(self) -> None:
        self.ring.close()
        self.open()

    @rule(
        step=st.one_of(PLAIN, CUTS, APPENDS),
        at=st.integers(0, 60),
        error=st.sampled_from(ERRORS),
        is_torn=st.booleans(),
    )
    def fail(self, step: Step | tuple[str, list[int]], at: int, error: int, is_torn: bool) -> None:
        step = self.numbered(step) if isinstance(step, tuple) else step
        self.files.fault, self.files.n_calls = Fault(at, error, is_torn=is_torn, among=CHANGES), 0
        try:
            do(self.ring, step, self.disk / "backup")
        except StoreError:
            self.files.fault = None
            self.settle(self.model, self.model.after(step))
        else:
            self.files.fault = None
            self.done(step)

    @rule(
        step=st.one_of(PLAIN, CUTS, APPENDS),
        at=st.integers(0, 60),
        is_torn=st.booleans(),
        seed=st.none() | st.integers(0, 99),
    )
    def lose_power(
        self, step: Step | tuple[str, list[int]], at: int, is_torn: bool, seed: int | None
    ) -> None:
        step = self.numbered(step) if isinstance(step, tuple) else step
        self.files.fault, self.files.n_calls = Fault(at, is_torn=is_torn, among=CHANGES), 0
        before, after = self.model, self.model.after(step)
        try:
            do(self.ring, step, self.disk / "backup")
        except PowerLoss:
            pass
        else:
            self.done(step)
            before = after
            self.files.is_off = True
        old = self.files
        self.new_disk()
        old.after_power_loss(self.disk, None if seed is None else random.Random(seed))
        self.files = FaultyFiles(self.disk)
        self.open()
        self.model = self.one_of(before, after)
        self.states.append(self.model)

    @invariant()
    def is_as_the_model_says(self) -> None:
        assert seen(self.ring) == self.model

    @invariant()
    def has_a_backup_of_a_state_that_was(self) -> None:
        path = self.disk / "backup"
        if any((path / "_manifest").glob("*.json")):
            with Ring.open(path, "r", decoder=decode) as ring:
                assert seen(ring) in self.states

    def numbered(self, append: tuple[str, list[int]]) -> Step:
        kind, times = append
        start = self.model.next_seq
        return {"kind": kind, "numbers": list(range(start, start + len(times))), "times": times}

    def take(self, step: Step) -> None:
        do(self.ring, step, self.disk / "backup")
        self.done(step)

    def done(self, step: Step) -> None:
        self.model = self.model.after(step)
        self.states.append(self.model)

    def settle(self, before: Model, after: Model) -> None:
        """After a failed step: the state is that before it or that after it, now and once opened again."""
        self.model = self.one_of(before, after)
        self.states.append(self.model)
        if self.ring.is_stopped:
            self.ring.close()
            self.open()
            self.model = self.one_of(self.model, after)

    def one_of(self, *states: Model) -> Model:
        found = seen(self.ring)
        assert found in states
        return found

    def teardown(self) -> None:
        if hasattr(self, "ring"):
            self.files.fault = None
            self.ring.close()
            shutil.rmtree(self.place)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=scaled(15), stateful_step_count=25)
