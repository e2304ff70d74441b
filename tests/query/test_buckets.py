"""Spans of time against integers of any size, up to both ends of what int64 nanoseconds can hold."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering as tr
from treering.indexer.times import MAX_NS, MIN_NS
from treering.query import bound as b
from treering.query.aggregate import MAX_BUCKETS
from treering.query.buckets import buckets_of, zone_offset_ns
from treering.query.times_out import format_times
from treering.storage.errors import QueryError

HOUR = 3600 * 10**9
DAY = 24 * HOUR
TIMES = st.integers(MIN_NS, MAX_NS) | st.sampled_from([MIN_NS, MIN_NS + 1, -1, 0, 1, MAX_NS - 1, MAX_NS])
WIDTHS = st.integers(1, MAX_NS) | st.sampled_from([1, 2, HOUR, DAY, 7 * DAY, MAX_NS - 1, MAX_NS])
ZONES = st.sampled_from(["UTC", "Asia/Tokyo", "America/St_Johns", "+23:59", "-23:59"])


@given(st.lists(TIMES, min_size=1, max_size=6), WIDTHS, ZONES)
def test_every_time_is_in_its_bucket(times: list[int], width: int, zone: str) -> None:
    ts = np.array(times, np.int64)
    buckets = buckets_of(ts, b.BoundQuery(every_ns=width, tz=zone))
    shift = zone_offset_ns(zone, min(times))
    first, last = (min(times) + shift) // width, (max(times) + shift) // width
    assert (buckets.origin, buckets.count) == (first * width - shift, last - first + 1)
    if buckets.count > MAX_BUCKETS:
        return
    assert buckets.numbers(ts).tolist() == [(t + shift) // width - first for t in times]
    if buckets.count < 1000:
        begins = [max(buckets.origin + i * width, MIN_NS) for i in range(buckets.count)]
        assert buckets.starts().tolist() == begins


@given(st.lists(TIMES, max_size=4), ZONES)
def test_times_are_told_in_a_zone_beyond_both_ends(times: list[int], zone: str) -> None:
    told = format_times(np.array(times, np.int64), zone)
    for ns, text in zip(times, told, strict=True):
        local, _, fraction = text[: -1 if zone == "UTC" else -6].partition(".")
        sign, offset = (text[-6], text[-5:]) if zone != "UTC" else ("+", "00:00")
        shift_s = (int(offset[:2]) * 60 + int(offset[3:])) * 60 * (-1 if sign == "-" else 1)
        seconds = int(np.datetime64(local, "s").astype(np.int64)) - shift_s
        assert seconds * 10**9 + int(fraction or 0) == ns


EDGES = ["1969-12-31T23:59:59Z", "2026-05-01T00:00:00Z", "2262-04-11T23:47:16.854775807Z"]
FIRST = "1677-09-21T00:12:43.145224193Z"


def test_counts_reach_from_the_first_to_the_last_time_there_is(tmp_path: Path) -> None:
    with tr.open(tmp_path / "ring") as store:
        store.ingest([{"ts": ts} for ts in EDGES], embed=False)
        days = store.query("count every 1d | where count > 0").to_list()
        assert days == [
            {"ts": "1969-12-31T00:00:00Z", "count": 1},
            {"ts": "2026-05-01T00:00:00Z", "count": 1},
            {"ts": "2262-04-11T00:00:00Z", "count": 1},
        ]
        hours = store.query('since 2262-04-11 count every 1h tz "Asia/Tokyo" | where count > 0').to_list()
        assert hours == [{"ts": "2262-04-12T08:00:00+09:00", "count": 1}]
        last = store.query('sort by ts desc limit 1 tz "Asia/Tokyo"').to_list()
        assert last == [{"ts": "2262-04-12T08:47:16.854775807+09:00"}]
        store.ingest([{"ts": FIRST}], embed=False)
        weeks = store.query("count every 52w | where count > 0").to_list()
        assert [row["count"] for row in weeks] == [1, 1, 1, 1] and weeks[0]["ts"] == FIRST
        assert store.query("until 1700-01-01 count every 1d | where count > 0").to_list() == [
            {"ts": FIRST, "count": 1}
        ]
        assert store.query("on 1677-09-21").to_list() == [{"ts": FIRST}]
        assert [row["ts"] for row in store.query("on 2262-04-11").to_list()] == [EDGES[2]]
        assert len(store.query(f"between {FIRST} and {EDGES[2]}")) == 3
        assert [row["ts"] for row in store.query("last 15000w", now=EDGES[2]).to_list()] == [EDGES[1]]
        for width in ("1ns", "1s", "1h"):
            with pytest.raises(QueryError, match="longer `every`"):
                store.query(f"count every {width}").to_list()
        assert store.expire(older_than="15000w", now="1700-01-01T00:00:00Z", dry_run=True).events == 0


def test_last_on_raw_files_reaches_the_last_time_there_is(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"ts": "{ts}"}}\n' for ts in (EDGES[2], EDGES[2])))
    assert len(tr.query_files("last 1h", tmp_path / "a.jsonl", now=EDGES[1])) == 2
