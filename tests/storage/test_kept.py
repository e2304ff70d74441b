from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from treering.storage.kept import Holder, Kept


class Door:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def close(self) -> None:
        self.log.append(self.name)


def maker(made: list[str], name: str) -> Callable[[], str]:
    def make() -> str:
        made.append(name)
        return name

    return make


def test_the_one_that_was_not_used_for_longest_is_closed() -> None:
    log: list[str] = []
    kept = Kept(max_open=2)
    a, b, c = Door(log, "a"), Door(log, "b"), Door(log, "c")
    for one in (a, b, a, c, a, b):
        kept.use(one)
    assert log == ["b", "c"]
    assert kept.n_open == 2


def test_values_are_made_once_until_the_budget_is_full() -> None:
    made: list[str] = []
    kept, holder = Kept(max_bytes=10), Holder()

    def ask(name: str) -> str:
        return kept.value(holder, name, maker(made, name), lambda _: 4)

    assert [ask(name) for name in "abaab"] == list("abaab")
    assert made == ["a", "b"]
    assert [ask(name) for name in "cba"] == list("cba")
    assert made == ["a", "b", "c", "a"]
    assert kept.n_bytes <= 10


def test_the_last_value_stays_however_large() -> None:
    made: list[str] = []
    kept, holder = Kept(max_bytes=10), Holder()
    for _ in range(3):
        kept.value(holder, "a", maker(made, "a"), lambda _: 99)
    assert made == ["a"]


def test_holders_share_the_budget_and_do_not_see_each_other() -> None:
    kept, one, other = Kept(max_bytes=10), Holder(), Holder()
    assert kept.value(one, "x", lambda: 1, lambda _: 6) == 1
    assert kept.value(other, "x", lambda: 2, lambda _: 6) == 2
    assert kept.value(one, "x", lambda: 3, lambda _: 6) == 3


def used_once(kept: Kept) -> list[weakref.ref[object]]:
    holder, door, array = Holder(), Door([], "a"), pa.array(np.arange(9))
    kept.keeper(holder)("x", lambda: array)
    kept.use(door)
    return [weakref.ref(one) for one in (holder, door, array)]


def test_what_nobody_uses_is_gone_at_once() -> None:
    kept = Kept()
    assert [one() for one in used_once(kept)] == [None, None, None]
    other = Holder()
    assert kept.value(other, "x", lambda: 5, lambda _: 1) == 5
