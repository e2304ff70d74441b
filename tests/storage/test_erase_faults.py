"""Each change of the disk in an erasure fails, tears, or is the last before a power loss: all is gone or nothing."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.faults import CHANGES, Fault, FaultyFiles, error_of, losing_power
from tests.storage.words import (
    ACT,
    Having,
    Row,
    choosing,
    embed,
    files_with,
    open_copy,
    open_words,
    reject,
    stored,
    vector_events,
    words,
)
from treering.storage.audit import check_chain
from treering.storage.cut import Cut, Plan, State, cut_older
from treering.storage.errors import StoreError
from treering.storage.ring import Ring

SECRET = "zqalice"
Holding = tuple[list[Row], list[bytes], dict[str, int | None]]


def older(state: State) -> Cut:
    """Take all before second 35."""
    return cut_older(state, 35 * 10**9)


PLANS: dict[str, Plan] = {
    "delete": choosing(Having(lambda text: SECRET in text)),
    "expire": older,
}
"""What is taken: rows of two segments, a whole segment, rejects, vectors used elsewhere; or what is old."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a folded segment, young ones with and without vectors, and events that only the log has."""
    root = tmp_path_factory.mktemp("base") / "root"
    root.mkdir()
    ring = open_words(root / "ring")
    ring.append(words([(10, f"login {SECRET}"), (20, "login bob"), (30, "paid bob"), (40, f"paid {SECRET}")]))
    ring.flush()
    embed(ring)
    ring.fold()
    ring.append(words([(45, f"paid {SECRET}")]), rejects=[reject(f"{{a {SECRET}"), reject("{b")])
    ring.flush()
    embed(ring)
    late = [(33, "login carol"), (50, f"login {SECRET}"), (5, f"last {SECRET}"), (70, "last bob")]
    ring.append(words(late), rejects=[reject(f"{{c {SECRET}")])
    ring.close()
    return root


def what_is_in(ring: Ring) -> Holding:
    """Events, rejects, and the events that vectors are made of."""
    records, head = ring.audit()
    check_chain(records, head)
    return stored(ring), [one.record for one in ring.rejects()], vector_events(ring)


def states(base: Path, place: Path, plan: Plan) -> tuple[Holding, Holding]:
    """What is in the store before and after an erasure."""
    with open_words(copied(base, place) / "ring") as ring:
        before = what_is_in(ring)
        ring.erase(plan, ACT)
        return before, what_is_in(ring)


def copied(base: Path, place: Path) -> Path:
    shutil.copytree(base, place)
    return place


@pytest.mark.parametrize("name", PLANS)
def test_after_a_power_loss_all_of_it_is_gone_or_nothing(base: Path, tmp_path: Path, name: str) -> None:
    plan, seen = PLANS[name], list[bool]()
    before, after = states(base, tmp_path / "whole", plan)
    assert before != after

    def check(root: Path) -> None:
        seen.append(go_on(root, plan, before, after))

    ring, files = open_copy(base, tmp_path / "live")
    with losing_power(files, tmp_path, check) as moments:
        ring.erase(plan, ACT)
    assert sum(moment.call == "link" for moment in moments) >= 2
    assert {True, False} == set(seen)
    assert go_on(files.after_power_loss(tmp_path / "done", None), plan, before, after)


def go_on(root: Path, plan: Plan, before: Holding, after: Holding) -> bool:
    """Open what is left, see that it is one of the two, and do the rest; give whether it was all gone."""
    with open_words(root / "ring", mode="r") as reader:
        left = what_is_in(reader)
        assert left in (before, after)
    with open_words(root / "ring", files=FaultyFiles(root)) as ring:
        assert what_is_in(ring) == left
        if left == after:
            assert list(ring.path.rglob("del-*")) == []
        assert ring.erase(plan, ACT).is_erased
    check_erased(root / "ring", plan, after)
    return left == after


@pytest.mark.parametrize("name", PLANS)
def test_after_a_failed_call_all_of_it_is_gone_or_nothing(base: Path, tmp_path: Path, name: str) -> None:
    plan = PLANS[name]
    before, after = states(base, tmp_path / "whole", plan)
    ring, files = open_copy(base, tmp_path / "count")
    ring.erase(plan, ACT)
    calls = [call for call in files.calls if call in CHANGES]
    ring.close()
    for at, call in enumerate(calls):
        live = tmp_path / f"live-{at}"
        fault = Fault(at, error_of(call), is_torn=call == "write", among=CHANGES)
        ring, files = open_copy(base, live, fault)
        with suppress(StoreError):
            ring.erase(plan, ACT)
        if ring.is_stopped:
            ring.close()
            go_on(live, plan, before, after)
        else:
            assert what_is_in(ring) in (before, after)
            assert ring.erase(plan, ACT).is_erased
            ring.close()
            check_erased(live / "ring", plan, after)
        shutil.rmtree(live)


def check_erased(path: Path, plan: Plan, after: Holding) -> None:
    with open_words(path, mode="r") as reader:
        assert what_is_in(reader) == after
        assert len(reader.audit()[0]) == 1
    if plan is PLANS["delete"]:
        assert files_with(path, SECRET) == set()
