"""Where `last` counts back from on raw files, against a plain list of times."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tests.query.parts import Event, PlainPart
from treering.query.newest import SKEW_NS, Newest, newest_event
from treering.storage.part import Part

NOW = 1_777_593_600 * 10**9
AHEAD = st.sampled_from([-(10**18), -SKEW_NS, -1, 0, 1, SKEW_NS - 1, SKEW_NS, SKEW_NS + 1, 2 * 10**18])


def parts(times: list[list[int]]) -> list[Part]:
    return [
        cast(Part, PlainPart([Event(ts, i) for i, ts in enumerate(part)], part_id=str(n)))
        for n, part in enumerate(times)
    ]


@given(st.lists(st.lists(AHEAD, max_size=5), max_size=4))
def test_the_newest_of_those_that_are_not_ahead_of_the_clock(times: list[list[int]]) -> None:
    everything = [NOW + ahead for part in times for ahead in part]
    in_time = [ts for ts in everything if ts <= NOW + SKEW_NS]
    expected = None
    if in_time:
        expected = Newest(max(in_time), len(everything) - len(in_time))
    elif everything:
        expected = Newest(max(everything))
    assert newest_event(parts([[NOW + ahead for ahead in part] for part in times]), NOW) == expected


def test_a_hint_is_given_only_where_events_were_left_out() -> None:
    assert Newest(NOW).hint(NOW) is None
    assert Newest(NOW - 1, 1).hint(NOW) == (
        "1 event is dated more than 1h after 2026-05-01T00:00:00Z: `last` counts back from "
        "2026-04-30T23:59:59.999999999Z, the newest of the others"
    )
    assert (Newest(NOW, 1234).hint(NOW) or "").startswith("1,234 events are dated")
