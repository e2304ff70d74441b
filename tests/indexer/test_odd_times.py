"""One odd time is told and changes nothing for the others."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import treering as tr
from tests.indexer.made_logs import json_line, log_of
from treering.indexer.ingest import ingest
from treering.storage.ring import Ring

_AHEAD, _UNUSABLE = "1 time more than a day ahead of now", "1 record without a usable time, dated at the load"


_ODD = {
    "2190-01-01T00:00:00Z": [_AHEAD],
    "2999-01-01T00:00:00Z": [_UNUSABLE],  # beyond what 64 bits of nanoseconds hold
    "9999-12-31T23:59:59Z": [_UNUSABLE],
    "0001-01-01T00:00:00Z": [_UNUSABLE],
    "1970-01-01T00:00:01Z": [],
}


def _with_odd_time(odd: str) -> bytes:
    lines = log_of(json_line, 2000).splitlines()
    lines.insert(1000, b'{"ts":"%s","n":-1}' % odd.encode())
    return b"\n".join(lines)


@pytest.mark.parametrize("odd", _ODD)
def test_one_odd_time_is_told_and_leaves_the_cells_of_the_others_narrow(ring: Ring, odd: str) -> None:
    report = ingest(ring, io.BytesIO(_with_odd_time(odd)))
    assert report.accepted == 2001
    assert [w.partition(": ")[2] for w in report.warnings] == _ODD[odd]
    ring.flush()
    with ring.snapshot() as snapshot:
        assert sum(part.n_rows for part in snapshot.parts) == 2001
        assert max(part.t_max - part.t_min for part in snapshot.parts) < 2 * 10**9
        assert sum(part.n_rows for part in snapshot.parts if part.t_min // 10**15 == 1777) == 2000


@pytest.mark.parametrize("odd", ["2190-01-01T00:00:00Z", "1970-01-01T00:00:01Z"])
def test_last_hour_and_age_count_from_now_whatever_one_event_says(tmp_path: Path, odd: str) -> None:
    now, later = "2026-05-01T00:30:00Z", "2026-05-31T00:30:00Z"
    with tr.open(tmp_path / "store") as store:
        store.ingest(io.BytesIO(_with_odd_time(odd)), embed=False)
        assert [row["n"] for row in store.query("last 1h sort by n fields n", now=now)] == list(range(2000))
        store.expire(older_than="29d", now=now)
        assert len(store.query("n >= 0")) == 2000
        store.expire(older_than="29d", now=later)
        assert [row["n"] for row in store.query("fields n")] == ([-1] if odd.startswith("2190") else [])
