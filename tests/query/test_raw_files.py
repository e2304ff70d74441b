"""Raw files asked without a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import treering as tr

NOW = "2026-05-01T12:00:00Z"
TIMES = [
    "2026-05-01T09:00:00Z",
    "2026-05-01T10:30:00Z",
    "2026-05-01T11:00:00Z",
    "2099-01-01T00:00:00Z",
    "2099-01-01T00:00:01Z",
]


def write(path: Path, times: list[str]) -> Path:
    rows = [{"ts": ts, "n": n, "msg": f"line {n}"} for n, ts in enumerate(times)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three events of a morning, and two of a machine whose clock is in 2099."""
    return write(tmp_path / "app.jsonl", TIMES)


def numbers(result: tr.Result) -> list[int]:
    return [row["n"] for row in result]


def test_events_of_a_broken_clock_do_not_hide_the_others(log: Path) -> None:
    found = tr.query_files("last 1h", log, now=NOW)
    assert numbers(found) == [1, 2]
    (hint,) = found.meta["hints"]
    assert hint.startswith("2 events are dated more than 1h after 2026-05-01T12:00:00Z")
    assert "2026-05-01T11:00:00Z" in hint
    assert numbers(tr.query_files("last 1h", log)) == [1, 2]  # by the clock of this machine


def test_without_last_they_are_events_like_others(log: Path) -> None:
    found = tr.query_files("since 2026-05-01T11:00:00Z", log, now=NOW)
    assert numbers(found) == [2, 3, 4] and found.meta["hints"] == []


@pytest.mark.parametrize(
    ("now", "expected", "n_hints"),
    [
        ("2026-05-01T10:00:00Z", [1, 2], 1),  # an hour ahead is within what clocks may differ by
        ("2026-05-01T09:59:59Z", [1], 1),
        ("2098-12-31T23:00:00Z", [3], 1),
        ("2098-12-31T23:00:01Z", [3, 4], 0),
        ("2020-01-01T00:00:00Z", [3, 4], 0),  # every event is later
    ],
)
def test_the_pinned_clock_says_what_is_ahead(log: Path, now: str, expected: list[int], n_hints: int) -> None:
    found = tr.query_files("last 1h", log, now=now)
    assert numbers(found) == expected
    assert len(found.meta["hints"]) == n_hints


def test_nothing_is_no_failure(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.jsonl", [])
    assert numbers(tr.query_files("last 1h", empty)) == []


def test_errors_of_names_carry_a_caret_as_in_a_store(log: Path) -> None:
    with pytest.raises(tr.QueryError) as caught:
        tr.query_files("last 1h mssg > 1", log)
    assert str(caught.value).endswith("\n  last 1h mssg > 1\n          ^")


def test_the_answer_lives_longer_than_the_call(log: Path) -> None:
    found = tr.query_files("n >= 1", [log, write(log.with_name("more.jsonl"), TIMES[1:3])], now=NOW)
    assert sorted(numbers(found)) == [1, 1, 2, 3, 4]
    assert found.meta["ingest"].accepted == 7
